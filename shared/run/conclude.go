package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// conclude shows the end of a run that has ended, from what is recorded, and closes it unless something is to be done after the
// answer, which it reports. That a run is ended and not closed is the outbox of its final events: whoever finds one so shows them, so
// they come though the one who ended it died; they may come twice, with the same content.
func (s *Service) conclude(ctx context.Context, r Run) (background bool, err error) {
	if r, err = s.teller(ctx, r); err != nil || r.Phase == turn.Closed {
		return false, err
	}
	req, err := s.request(ctx, r.ID)
	if err != nil {
		return false, s.close(ctx, r)
	}
	background = r.Outcome == turn.Answered && req.wantsBackground()
	f := s.feed(r)
	if r.Told != told && f.Heard(ctx) {
		if s.Questions != nil {
			s.Questions.Drop(ctx, r.ID)
		}
		whole, last, err := s.Final(ctx, r)
		if err != nil {
			return false, err
		}
		f.Publish(ctx, Show{Events: last, Final: true, Whole: func(context.Context) []event.Event { return whole }})
		if background {
			return true, s.note(ctx, r)
		}
	}
	if background {
		return true, nil
	}
	return false, s.rest(ctx, f, r, req)
}

// Who ends a run that somebody hears tells its end, at once; others leave it to him for tellTime, and take over when he has died.
const (
	told     = -1
	tellTime = 5 * time.Second
)

// teller returns an ended run when it is for the caller to tell its end, or when that is told or the run closed.
func (s *Service) teller(ctx context.Context, r Run) (Run, error) {
	for !r.mine && r.Phase == turn.Ended && r.Told > s.Now().UnixMilli() {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(lookFirst * 2):
		}
		now, err := s.load(ctx, r.Chat, r.ID)
		if errors.Is(err, errGone) {
			r.Phase = turn.Closed
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r = now
	}
	return r, nil
}

// note records that a run's end is told.
func (s *Service) note(ctx context.Context, r Run) error {
	change := table.Change{Set: map[string]any{attrTold: int64(told)}}
	_, err := s.Table.Apply(ctx, table.Update(table.Run(r.Chat, r.ID), change, table.Is(attrPhase, string(turn.Ended))))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("note that the end is told: %w", err)
	}
	return nil
}

// over concludes an ended run that nobody goes on with: its background tasks are left out.
func (s *Service) over(ctx context.Context, r Run) error {
	background, err := s.conclude(ctx, r)
	if err != nil || !background {
		return err
	}
	req, err := s.request(ctx, r.ID)
	if err != nil {
		return s.close(ctx, r)
	}
	return s.rest(ctx, s.feed(r), r, req)
}

// rest closes a run and says so.
func (s *Service) rest(ctx context.Context, f Feed, r Run, req Request) error {
	if req.Session() != "" {
		s.show(ctx, f, func() Show { return Show{Events: []event.Event{event.ActiveNow(false)}, Late: true} })
	}
	return s.close(ctx, r)
}

// Final are the last events of an ended run's message, and, for those who have heard nothing yet, those with all that came before.
func (s *Service) Final(ctx context.Context, r Run) (whole, last []event.Event, err error) {
	rec, err := s.gather(ctx, r.ID, true)
	if err != nil {
		return nil, nil, err
	}
	if last, err = s.final(ctx, r); err != nil {
		return nil, nil, err
	}
	return append(rec.told(nil), last...), last, nil
}

// made is the message that a run which has ended has made, and its chat's title.
func (s *Service) made(ctx context.Context, r Run) (m chat.Message, title string, err error) {
	if r.Saved {
		stored, ok, err := s.Chats.Message(ctx, r.Chat, r.Message)
		if err != nil {
			return nil, "", err
		}
		head, _, err := s.Chats.Head(ctx, r.Chat)
		if err != nil || !ok {
			return chat.Message{}, head.Title, err
		}
		return stored.Message, head.Title, nil
	}
	rec, err := s.gather(ctx, r.ID, true) // nothing else is stored of it
	if err != nil {
		return nil, "", err
	}
	if r.Outcome != turn.Answered {
		if err := s.rescue(ctx, rec, r); err != nil {
			return nil, "", err
		}
	}
	outcome, failure, _ := rec.outcome(r, "", s.Limits.Rounds)
	if r.Outcome == turn.Failed && failure == nil {
		failure = "The run was interrupted."
	}
	return rec.final(r, outcome, failure, true), "", nil
}

// final are the last events of a message (spec/socket.md section 2).
func (s *Service) final(ctx context.Context, r Run) ([]event.Event, error) {
	m, title, err := s.made(ctx, r)
	if err != nil {
		return nil, err
	}
	output := m["output"]
	if output == nil {
		output = []any{}
	}
	if r.Outcome == turn.Stopped {
		return []event.Event{event.New(event.Cancel, map[string]any{"output": output})}, nil
	}
	var events []event.Event
	if r.Saved {
		events = append(events, event.New(event.List, map[string]any{"chat_id": r.Chat, "folder_id": nil}))
	}
	if problem, failed := m["error"].(map[string]any); failed && r.Outcome == turn.Failed {
		items, _ := output.([]any)
		switch _, frame := problem["content"].(map[string]any); {
		case frame:
			events = append(events, event.New(event.Completion, map[string]any{"error": problem["content"]}))
		case len(items) == 0: // nothing but the error
			return append(events, event.New(event.MessageError, map[string]any{"error": problem, "done": true})), nil
		default:
			events = append(events, event.New(event.MessageError, map[string]any{"error": problem}))
		}
	}
	done := map[string]any{"done": true, "output": output, "title": title}
	if usage := m["usage"]; usage != nil {
		done["usage"] = usage
	}
	return append(events, event.New(event.Completion, maps.Clone(done))), nil
}
