package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// Numbered is an event with its number within its run.
type Numbered struct {
	Seq   int64       `json:"seq"`
	Event event.Event `json:"event"`
}

// numberedTTL is how long a run's numbered log can be read.
const numberedTTL = time.Hour

// numbers is what a feed knows of the numbered log's end.
type numbers struct {
	last  int64 // the number of the last event, 0 for none
	final bool  // the message's final event is among them
}

// Attributes of a log's entry: the numbers of its first and last event, and whether the final event has come.
const (
	attrFirst = "first"
	attrLast  = "last"
	attrFinal = "final"
	attrDoc   = "doc"
)

// number appends events to the run's log and returns them with their numbers. The log is begun with the whole of the message, so that its
// readers need nothing else. Nil: it could not be written, or the message has had its final event.
func (f *feed) number(ctx context.Context, show run.Show, whole func() []event.Event) []Numbered {
	for range 20 {
		if f.log == nil {
			end, err := f.service.end(ctx, f.to.Run)
			if err != nil {
				slog.Warn("read event log", "run", f.to.Run, "error", err)
				return nil
			}
			f.log = &end
		}
		if f.log.final && !show.Late {
			return nil
		}
		events := show.Events
		switch {
		case show.Whole == nil && f.log.last == 0:
			return nil // it begins with the whole or not at all
		case show.Whole == nil:
		case f.log.last == 0:
			events = append([]event.Event{}, whole()...)
			if !show.Final {
				events = append(events, unstored(show.Events)...)
			}
		case f.missed && !show.Late:
			events = append(outputs(whole()), passing(show.Events)...)
		}
		numbered, err := f.service.append(ctx, f.to, *f.log, events, show.Final)
		if errors.Is(err, table.ErrCondition) { // another step has written meanwhile
			f.log = nil
			continue
		}
		if err != nil {
			slog.Warn("write event log", "run", f.to.Run, "error", err)
			return nil
		}
		f.missed = false
		f.log.last, f.log.final = f.log.last+int64(len(events)), f.log.final || show.Final
		return numbered
	}
	return nil
}

// unstored are the events that are not part of the whole of a message: those that leave nothing.
func unstored(events []event.Event) []event.Event {
	var out []event.Event
	for _, e := range passing(events) {
		if !event.Lasts(e.Kind()) && e.Kind() != event.Active && e.Kind() != event.List {
			out = append(out, e)
		}
	}
	return out
}

// end finds the end of a run's log.
func (s *Service) end(ctx context.Context, run string) (numbers, error) {
	q := table.Query{PK: table.Numbered(run, 0).PK, Descending: true, Limit: 1, Lazy: true}
	for item, err := range s.Table.Query(ctx, q) {
		if err != nil {
			return numbers{}, fmt.Errorf("read event log: %w", err)
		}
		return numbers{last: item.Int(attrLast), final: item.Bool(attrFinal)}, nil
	}
	return numbers{}, nil
}

// append writes one entry right after the end. ErrCondition: that is not the end any more.
func (s *Service) append(ctx context.Context, to run.Place, end numbers, events []event.Event, final bool) ([]Numbered, error) {
	first := end.last + 1
	numbered := make([]Numbered, len(events))
	for i, e := range events {
		numbered[i] = Numbered{Seq: first + int64(i), Event: e}
	}
	item := table.Item{Key: table.Numbered(to.Run, first), Expires: s.Now().Add(numberedTTL).Unix(), Attr: map[string]any{
		attrFirst: first, attrLast: end.last + int64(len(events)), attrFinal: end.final || final, attrDoc: table.MustJSON(numbered),
	}}
	if _, err := s.Table.Apply(ctx, table.Put(item, table.New())); err != nil {
		return nil, fmt.Errorf("append to event log: %w", err)
	}
	if first == 1 { // from now on every step of the run writes it
		mark := table.Change{Set: map[string]any{run.AttrNumbered: true}}
		if _, err := s.Table.Apply(ctx, table.Update(table.Run(to.Chat, to.Run), mark)); err != nil && !errors.Is(err, table.ErrCondition) {
			return nil, fmt.Errorf("mark the run: %w", err)
		}
	}
	return numbered, nil
}

// after reads a run's log from behind that number, as far as it is written.
func (s *Service) after(ctx context.Context, run string, seq int64) (events []Numbered, final bool, err error) {
	// The entry that goes on there is found by its key; only a reader that was cut off within an entry has to look for it.
	item, ok, err := table.One(ctx, s.Table, table.Numbered(run, seq+1))
	if err != nil {
		return nil, false, fmt.Errorf("read event log: %w", err)
	}
	if !ok {
		end, err := s.end(ctx, run)
		if err != nil || end.last <= seq {
			return nil, end.final, err
		}
		for item, err := range s.Table.Query(ctx, table.Query{PK: table.Numbered(run, 0).PK}) {
			if err != nil {
				return nil, false, fmt.Errorf("read event log: %w", err)
			}
			if err := take(item, seq, &events); err != nil {
				return nil, false, err
			}
		}
		return events, end.final, nil
	}
	for ok {
		if err := take(item, seq, &events); err != nil {
			return nil, false, err
		}
		final, seq = item.Bool(attrFinal), item.Int(attrLast)
		if item, ok, err = table.One(ctx, s.Table, table.Numbered(run, seq+1)); err != nil {
			return nil, false, fmt.Errorf("read event log: %w", err)
		}
	}
	return events, final, nil
}

func take(item table.Item, seq int64, events *[]Numbered) error {
	var all []Numbered
	if err := item.JSON(attrDoc, &all); err != nil {
		return err
	}
	for _, n := range all {
		if n.Seq > seq {
			*events = append(*events, n)
		}
	}
	return nil
}
