package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"toolrounds/shared/event"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Live shows users what happens in their runs while it happens.
type Live interface {
	// Feed is the way to those who listen to a run.
	Feed(Place) Feed
}

// Place says where a run's events belong.
type Place struct {
	Run, User, Chat, Message string
	Numbered                 bool // they have been followed by numbers, so all of them are kept
}

// AttrNumbered marks the record of a run whose events are followed by numbers.
const AttrNumbered = "numbered"

// Feed is one step's way to those who listen to a run. Nothing that goes wrong in it concerns the run.
type Feed interface {
	// Heard tells whether anybody listens. It looks at most every second or two.
	Heard(ctx context.Context) bool
	// Publish shows events, in order, to everybody who listens, and returns when they have them or were given up.
	Publish(ctx context.Context, show Show)
}

// Show is a batch of events.
type Show struct {
	Events []event.Event
	// Whole gives all that the message has become, these events included, for those who come in the middle. Nil: nothing that matters.
	Whole func(context.Context) []event.Event
	Final bool // nothing of the message follows
	Late  bool // of the chat, not of the message: may follow the final events
}

// deaf is the feed of a service without Live.
type deaf struct{}

func (deaf) Heard(context.Context) bool    { return false }
func (deaf) Publish(context.Context, Show) {}

func (s *Service) feed(r Run) Feed {
	if s.Live == nil {
		return deaf{}
	}
	return s.Live.Feed(Place{Run: r.ID, User: r.User, Chat: r.Chat, Message: r.Message, Numbered: r.Numbered})
}

// blockID is the id of the output item that a block of a round becomes. It is the same whoever makes it: who streams the block, who reads
// it half finished, and who records it.
func blockID(prefix, run string, round, block int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", run, round, block))
	return prefix + "_" + hex.EncodeToString(sum[:12])
}

// show publishes events when somebody listens. The events are made only then.
func (s *Service) show(ctx context.Context, f Feed, make func() Show) {
	if f.Heard(ctx) {
		f.Publish(ctx, make())
	}
}

// sofar is everything that an open run has made of its message so far, as events.
func (s *Service) sofar(r Run) func(context.Context) []event.Event {
	return func(ctx context.Context) []event.Event {
		rec, err := s.gather(ctx, r.ID, true)
		if err != nil {
			logger(ctx, Step{Run: r.ID, Chat: r.Chat}).Warn("read run for a listener", "error", err)
			return nil
		}
		return rec.told(rec.output())
	}
}

// told is what a listener has to be told to know everything recorded, with that output.
func (rec *record) told(output []any) []event.Event {
	events := []event.Event{event.ActiveNow(true)}
	events = append(events, inOrder(rec.events)...)
	if sources := rec.sources(); sources != nil {
		events = append(events, event.New(event.Completion, map[string]any{"sources": sources}))
	}
	if len(output) > 0 {
		events = append(events, event.Output(shown(output)))
	}
	return events
}

// shown is an output as it goes over the wire while the run lasts: without the images that tools returned, and as in progress where
// it may still grow.
func shown(output []any) []any {
	out := make([]any, len(output))
	for i, v := range output {
		item, _ := v.(map[string]any)
		out[i] = wire(item)
		if text(item, "status") == Incomplete {
			out[i].(map[string]any)["status"] = inProgress
		}
	}
	return out
}

// wire is a copy of an item without image parts.
func wire(item map[string]any) map[string]any {
	c := map[string]any{}
	for k, v := range item {
		c[k] = v
	}
	if text(item, "type") != "function_call_output" {
		return c
	}
	var parts []any
	for _, p := range list(item, "output") {
		if part, _ := p.(map[string]any); text(part, "type") != "input_image" {
			parts = append(parts, p)
		}
	}
	c["output"] = parts
	return c
}

// inProgress is the status of an item that is being made.
const inProgress = "in_progress"

// begun tells that a run has begun.
func (s *Service) begun(ctx context.Context, f Feed, r Run, req Request) {
	s.show(ctx, f, func() Show {
		var events []event.Event
		if r.Saved {
			events = append(events, event.New(event.List, map[string]any{"chat_id": r.Chat, "folder_id": nil}))
		}
		if req.Session() != "" {
			events = append(events, event.ActiveNow(true))
		}
		return Show{Events: events, Whole: func(context.Context) []event.Event { return []event.Event{event.ActiveNow(true)} }}
	})
}

// results tells the results of a round's calls in the order of the calls: those from call index on, as far as there are results
// without a gap. So a result that comes before its predecessor's is told by the predecessor, and clients, which place items by
// their index, always append.
func (s *Service) results(ctx context.Context, r Run, step CallStep) {
	if !s.feed(r).Heard(ctx) {
		return
	}
	now, err := s.load(ctx, r.Chat, r.ID)
	if err != nil || now.Phase != turn.Open || now.Stop {
		return // the end tells it all
	}
	f := s.feed(now)
	rec, err := s.gather(ctx, r.ID, true)
	if err != nil || len(rec.rounds) <= step.Round {
		return
	}
	if rec.rounds[step.Round].Choice {
		return
	}
	before := *rec
	before.rounds = rec.rounds[:step.Round]
	this := rec.rounds[step.Round]
	if this.Choice { // its calls are no items
		return
	}
	first := len(before.output()) + len(this.Items)
	var events []event.Event
	for i, c := range this.calls {
		if c.result == nil {
			break
		}
		if i < step.Index {
			continue
		}
		events = append(events,
			event.ItemDone(first+i, callItem(c, c.result.Status)), event.ItemDone(first+len(this.calls)+i, wire(resultItem(c))))
	}
	if events != nil {
		f.Publish(ctx, Show{Events: events, Whole: s.sofar(r)})
	}
}

// replied is a provider's whole answer as an object.
func replied(r *Reply) (v map[string]any, ok bool) {
	err := table.Decode(r.Body, &v)
	return v, err == nil && v != nil
}

// Place tells where a run's events belong; false when there is no such run.
func (s *Service) Place(ctx context.Context, chatID, run string) (Place, bool, error) {
	r, err := s.load(ctx, chatID, run)
	if errors.Is(err, errGone) {
		return Place{}, false, nil
	}
	return Place{Run: r.ID, User: r.User, Chat: r.Chat, Message: r.Message, Numbered: r.Numbered}, err == nil, err
}
