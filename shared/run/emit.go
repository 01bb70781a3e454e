package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"toolrounds/shared/event"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// BrokerPath is where the broker's routes lie below the base URL.
const BrokerPath = "/api/v1/broker"

// ErrOver says that a run does not go on any more: it was stopped, has ended, or was deleted.
var ErrOver = errors.New("the run is over")

// maxEmitted is how many events one call may emit; what it emits beyond is dropped.
const maxEmitted = 20_000

// attrEmitted is the number after the last event of a call that was taken.
const attrEmitted = "emitted"

// Emit takes what a tool emits while it runs: what lasts is stored, everything is shown. An event is taken once, however often it is
// posted: each has its number within the call, and they come in order. ErrOver: the tool has no reason to go on.
func (s *Service) Emit(ctx context.Context, t Ticket, events []Event) error {
	r, err := s.Working(ctx, t)
	if err != nil {
		return err
	}
	return s.emit(ctx, s.feed(r), r, CallStep{Run: t.Run, Chat: t.Chat, Round: t.Round, Index: t.Index}, events)
}

// Working returns the run of a ticket while it is open and not stopped, else ErrOver.
func (s *Service) Working(ctx context.Context, t Ticket) (Run, error) {
	r, err := s.load(ctx, t.Chat, t.Run)
	if errors.Is(err, errGone) || err == nil && (r.Phase != turn.Open || r.Stop) {
		return Run{}, ErrOver
	}
	return r, err
}

func (s *Service) emit(ctx context.Context, f Feed, r Run, step CallStep, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	key := table.Call(step.Run, step.Round, step.Index)
	var fresh []Event
	for range 5 {
		item, ok, err := table.One(ctx, s.Table, key)
		if err != nil {
			return fmt.Errorf("read call: %w", err)
		}
		if !ok {
			return ErrOver
		}
		taken := int(item.Int(attrEmitted))
		fresh = fresh[:0]
		for _, e := range events {
			if e.N >= taken && e.N < maxEmitted {
				fresh = append(fresh, s.timely(e))
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		seen := table.No(attrEmitted)
		if item.Has(attrEmitted) {
			seen = table.Is(attrEmitted, item.Int(attrEmitted))
		}
		err = s.storeEvents(ctx, r, step, fresh, table.Update(key, table.Change{Set: map[string]any{attrEmitted: int64(fresh[len(fresh)-1].N + 1)}}, seen))
		if errors.Is(err, table.ErrCondition) { // the same events are posted twice at once
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	s.onChat(ctx, r, fresh)
	s.show(ctx, f, func() Show {
		show := Show{Whole: s.sofar(r)}
		for _, e := range fresh {
			show.Events = append(show.Events, e.Event)
		}
		return show
	})
	return nil
}

// timely keeps a clock that is wrong from ordering events.
func (s *Service) timely(e Event) Event {
	if now := s.Now().UnixMilli(); e.At <= 0 || e.At > now+60_000 {
		e.At = now
	}
	return e
}

// storeEvents keeps what lasts of what a call emitted (package event), together with the note that it was taken. An event stored twice
// is one.
func (s *Service) storeEvents(ctx context.Context, r Run, step CallStep, events []Event, taken table.Op) error {
	var ops []table.Op
	for _, e := range events {
		if kind := text(e.Event, "type"); !event.Lasts(kind) && (r.Mode != Legacy || !writes(kind)) {
			continue
		}
		ops = append(ops, table.Put(table.Item{
			Key: table.Event(step.Run, e.At, step.Round, step.Index, e.N), Expires: s.expires(), Attr: map[string]any{attrDoc: table.MustJSON(e)},
		}))
	}
	if len(ops) > maxTogether {
		if err := s.Table.Batch(ctx, ops...); err != nil {
			return fmt.Errorf("store events: %w", err)
		}
		ops = nil
	}
	if err := s.Table.Transact(ctx, append(ops, taken)...); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	return nil
}

// onChat lets titles and tags that a tool gives take effect. The real server shows them and forgets them.
func (s *Service) onChat(ctx context.Context, r Run, events []Event) {
	if !r.Saved {
		return
	}
	for _, e := range events {
		ev, err := event.Event(e.Event), error(nil)
		switch ev.Kind() {
		case event.Title:
			if title := trimmed(ev.TitleOf(), 200); title != "" {
				err = s.Chats.Retitle(ctx, r.Chat, title)
			}
		case event.Tags:
			if tags := ev.TagsOf(); tags != nil {
				err = s.Chats.Tag(ctx, r.Chat, tags)
			}
		}
		if err != nil {
			slog.Warn("apply a tool's event", "kind", ev.Kind(), "run", r.ID, "chat", r.Chat, "user", r.User, "error", err)
		}
	}
}
