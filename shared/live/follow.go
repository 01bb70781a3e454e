package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/event"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Followed are the runs of a chat as a follower needs them.
type Followed interface {
	// Recent lists a user's runs on a chat that are open or were a short while ago, oldest first.
	Recent(ctx context.Context, user, chat string) ([]run.Run, error)
	// Whole is everything that an open run has made so far; Final is how one that has ended ended.
	Whole(ctx context.Context, r run.Run) []event.Event
	Final(ctx context.Context, r run.Run) (whole, last []event.Event, err error)
}

// Update is what a follower gets: an event and where it stands in the numbers of its run.
type Update struct {
	Numbered
	Run     string
	Message string
}

// How often a follower's request looks at the log, at the runs, and says that it is still there.
const (
	followPause   = 150 * time.Millisecond
	followRuns    = time.Second
	followPresent = 20 * time.Second
)

// follower is one request that follows a chat.
type follower struct {
	service *Service
	runs    Followed
	user    string
	chat    string
	seen    map[string]int64 // by run: the number of the last event sent
	ended   map[string]bool
	send    func(Update) error
}

// Follow sends the events of a chat's runs, each from behind the number that is given for it, until no run is open. When none is from
// the start, the last one is told. It stops when send fails or the context ends.
func (s *Service) Follow(ctx context.Context, runs Followed, user, chat string, after map[string]int64, send func(Update) error) error {
	f := &follower{service: s, runs: runs, user: user, chat: chat, seen: map[string]int64{}, ended: map[string]bool{}, send: send}
	for id, seq := range after {
		f.seen[id] = seq
	}
	me := Connection{ID: "http-" + access.NewID(), User: user, Protocol: HTTP, Chats: []string{chat}, Since: s.Now().UnixMilli()}
	defer func() {
		if _, err := s.Table.Apply(context.WithoutCancel(ctx), table.Delete(table.UserConnection(user, me.ID))); err != nil {
			slog.Warn("forget a follower", "user", user, "error", err)
		}
	}()
	var open []run.Run
	present, looked := time.Time{}, time.Time{}
	for {
		now := s.Now()
		if now.Sub(present) >= followPresent {
			me.Seen = now.UnixMilli()
			if err := s.Add(ctx, me); err != nil {
				return err
			}
			present = now
		}
		if now.Sub(looked) >= followRuns {
			first := looked.IsZero()
			var err error
			if open, err = f.look(ctx, first); err != nil {
				return err
			}
			looked = now
			if len(open) == 0 {
				return nil
			}
		}
		for _, r := range open {
			if _, err := f.read(ctx, r); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
	}
}

// look finds the runs that are to be followed and tells those that are over.
func (f *follower) look(ctx context.Context, first bool) (open []run.Run, err error) {
	recent, err := f.runs.Recent(ctx, f.user, f.chat)
	if err != nil {
		return nil, err
	}
	for i, r := range recent {
		_, known := f.seen[r.ID]
		switch {
		case r.Phase != turn.Closed:
			if !known {
				f.seen[r.ID] = 0
				if err := f.begin(ctx, r); err != nil {
					return nil, err
				}
			}
			open = append(open, r)
		case f.ended[r.ID]:
		case known, first && i == len(recent)-1 && len(open) == 0:
			f.ended[r.ID] = true
			if err := f.finish(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return open, nil
}

// begin sees to it that there is a log of a run: what is made from now on is only told where one is.
func (f *follower) begin(ctx context.Context, r run.Run) error {
	end, err := f.service.end(ctx, r.ID)
	if err != nil || end.last > 0 {
		return err
	}
	whole := f.runs.Whole(ctx, r)
	if len(whole) == 0 {
		return nil
	}
	if _, err := f.service.append(ctx, placeOf(r), end, whole, false); err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("begin event log: %w", err)
	}
	return nil
}

func placeOf(r run.Run) run.Place {
	return run.Place{Run: r.ID, User: r.User, Chat: r.Chat, Message: r.Message}
}

// read sends what is new in a run's log.
func (f *follower) read(ctx context.Context, r run.Run) (final bool, err error) {
	events, final, err := f.service.after(ctx, r.ID, f.seen[r.ID])
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, err
	}
	for _, n := range events {
		if err := f.send(Update{Numbered: n, Run: r.ID, Message: r.Message}); err != nil {
			return false, err
		}
		f.seen[r.ID] = n.Seq
	}
	return final, nil
}

// finish sends the rest of a closed run: from its log, or, where nobody wrote that to its end, from the record.
func (f *follower) finish(ctx context.Context, r run.Run) error {
	final, err := f.read(ctx, r)
	if err != nil || final {
		return err
	}
	events, last, err := f.runs.Final(ctx, r)
	if err != nil {
		return err
	}
	end, err := f.service.end(ctx, r.ID)
	if err != nil {
		return err
	}
	if end.last > 0 {
		events = last
	}
	if _, err := f.service.append(ctx, placeOf(r), end, events, true); err != nil && !errors.Is(err, table.ErrCondition) {
		return err
	}
	_, err = f.read(ctx, r)
	return err
}
