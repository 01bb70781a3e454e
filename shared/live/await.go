package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/fault"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// How often somebody who waits for an answer looks: soon at first, then seldom.
const (
	lookFirst = 60 * time.Millisecond
	lookLast  = 700 * time.Millisecond
	takeOver  = 60 * time.Second // how long another tab is looked for when the one that was asked has closed
)

// Working tells whether a call's run goes on; run.ErrOver when it does not.
type Working func(ctx context.Context, t run.Ticket) (run.Run, error)

// asks tells whether a question is one of the ticket's call: what a user answers one tool is nothing to another of the same run.
func asks(t run.Ticket, id string) bool {
	return strings.HasPrefix(id, fmt.Sprintf("%d.%d.", t.Round, t.Index))
}

// Await waits up to that long for a question to be settled and returns it as it is then. It sees to the question meanwhile: it ends it
// when its time is over or its tab has closed, or asks another tab. run.ErrOver: the run was stopped, has ended or is gone.
func (s *Service) Await(ctx context.Context, t run.Ticket, id string, wait time.Duration, working Working) (Question, error) {
	until := s.Now().Add(wait)
	for pause := lookFirst; ; pause = min(pause*3/2, lookLast) {
		q, ok, err := s.question(ctx, t.Run, id)
		if err != nil {
			return Question{}, err
		}
		if !ok || q.User != t.User || !asks(t, id) {
			return Question{}, fault.New(fault.NotFound, fault.TextNotFound)
		}
		if q.State != Pending {
			return q, nil
		}
		if _, err := working(ctx, t); errors.Is(err, run.ErrOver) {
			if _, err := s.settle(ctx, q, Failed, nil, textDisconnected); err != nil {
				return Question{}, err
			}
			return Question{}, run.ErrOver
		} else if err != nil {
			return Question{}, err
		}
		settled, err := s.attend(ctx, q)
		if err != nil {
			return Question{}, err
		}
		if settled {
			continue
		}
		if !s.Now().Before(until) {
			return q, nil
		}
		select {
		case <-ctx.Done():
			return q, nil
		case <-time.After(pause):
		}
	}
}

// attend looks after a pending question. Settled: it is not pending any more.
func (s *Service) attend(ctx context.Context, q Question) (settled bool, err error) {
	now := s.Now().UnixMilli()
	if now >= q.Deadline {
		_, err := s.settle(ctx, q, Failed, nil, textTimedOut)
		return true, err
	}
	if q.Connection == "" && q.Lost == 0 { // it was asked over HTTP only
		return false, nil
	}
	if q.Connection != "" {
		_, there, err := table.One(ctx, s.Table, table.UserConnection(q.User, q.Connection))
		if err != nil || there {
			return false, err
		}
	}
	return s.lost(ctx, q, now)
}

// lost looks for somebody else to ask: the tab that was asked has closed.
func (s *Service) lost(ctx context.Context, q Question, now int64) (settled bool, err error) {
	others := event.Interactive(q.Event.Kind()) && !run.Temporary(q.Chat)
	key, _ := keyOf(q.Run, q.ID)
	pending := table.Is(attrState, string(Pending))
	switch {
	case q.Lost == 0 && (others || q.Wait):
		set := map[string]any{attrConnection: "", attrLost: now}
		if _, err := s.Table.Apply(ctx, table.Update(key, table.Change{Set: set}, pending)); err != nil && !errors.Is(err, table.ErrCondition) {
			return false, fmt.Errorf("note that nobody is there: %w", err)
		}
	case !q.Wait && (!others || now-q.Lost > takeOver.Milliseconds()):
		_, err := s.settle(ctx, q, Failed, nil, textDisconnected)
		return true, err
	}
	if !others {
		return false, nil
	}
	conns, err := s.Of(ctx, q.User)
	if err != nil {
		return false, err
	}
	for _, c := range conns {
		if c.ID == q.Connection || !c.joined(q.Chat) {
			continue
		}
		set := map[string]any{attrConnection: c.ID, attrLost: int64(0)}
		if _, err := s.Table.Apply(ctx, table.Update(key, table.Change{Set: set}, pending)); err != nil {
			if errors.Is(err, table.ErrCondition) {
				return true, nil
			}
			return false, fmt.Errorf("pass the question on: %w", err)
		}
		s.put(ctx, q, c)
		break
	}
	return false, nil
}
