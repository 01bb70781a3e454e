package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
)

// Path B on a chat (spec/http.md E): round 0 is the task model's choice. Its calls are recorded and run as those of any round, so they
// survive what a native run survives, but they are no part of the answer: their results are its sources. Round 1 is the answer.

// chooses tells whether this round is the choice.
func (a *answer) chooses() bool { return a.rec.work.Mode == Legacy && a.step.Round == 0 }

// chosen is the round of a choice.
func (a *answer) chosen(all []choice) round {
	made := round{roundDoc: roundDoc{Choice: true, Incomplete: errors.Is(a.lost, errStopped)}}
	for i, c := range all {
		entry := a.rec.work.Table[c.Name]
		made.calls = append(made.calls, callRecord{callDoc: callDoc{
			ID: blockID("call", a.step.Run, a.step.Round, i), Name: c.Name, Arguments: string(table.MustJSON(c.Arguments)), Entry: &entry,
		}})
	}
	made.Calls = len(made.calls)
	return made
}

// cite tells what was chosen and run, and finds out what the tools wrote, before the answer begins.
func (a *answer) cite(ctx context.Context) error {
	if a.rec.work.Mode != Legacy {
		return nil
	}
	all, err := a.gather(ctx, a.step.Run, true)
	if err != nil {
		return err
	}
	if a.run.Saved { // without a message there is nothing that they could have written to
		a.prefix = written(inOrder(all.events))
	}
	if sources := a.rec.sources(); sources != nil {
		a.show(ctx, a.feed(a.run), func() Show {
			return Show{Events: []event.Event{event.New(event.Completion, map[string]any{"sources": sources})}, Whole: a.sofar(a.run)}
		})
	}
	return nil
}

// writes tells whether events of that kind write into the message's text. In native mode the answer replaces what they write.
func writes(kind string) bool { return kind == "message" || kind == "replace" }

// written is the text that events have left in the message.
func written(events []event.Event) (s string) {
	for _, e := range events {
		switch e.Kind() {
		case "message":
			s += text(e.Data(), "content")
		case "replace":
			s = text(e.Data(), "content")
		}
	}
	return s
}

// begin is the sink of an answer that begins with what the tools wrote.
func (a *answer) begin() func(openai.Delta) error {
	prefix := a.prefix
	return func(d openai.Delta) error {
		switch d.Kind {
		case openai.Text:
			d.Text, prefix = prefix+d.Text, ""
		case openai.Snapshot:
			if slices.ContainsFunc(d.Blocks, func(b openai.Block) bool { return !b.Reasoning }) {
				d.Blocks, prefix = a.prefixed(d.Blocks), ""
			}
		}
		return a.sink(d)
	}
}

// prefixed puts what the tools wrote in front of the first text.
func (a *answer) prefixed(blocks []openai.Block) []openai.Block {
	if a.prefix == "" {
		return blocks
	}
	blocks = slices.Clone(blocks)
	for i, b := range blocks {
		if !b.Reasoning {
			blocks[i].Text = a.prefix + b.Text
			return blocks
		}
	}
	return append(blocks, openai.Block{Text: a.prefix})
}

// cite puts the sources of a choice on a message, before those that the tools cited themselves: the answer counts them from one.
func (rec *record) cite(m chat.Message) {
	if sources := rec.sources(); sources != nil {
		m["sources"] = append(sources, list(m, "sources")...)
	}
}

// asEvents turns what a result shows besides its text into events: in legacy mode there is no item that could hold it.
func asEvents(r *Result, now time.Time) {
	files := slices.Clone(r.Files)
	for _, u := range r.ImageURLs {
		if !slices.ContainsFunc(files, func(f any) bool { file, _ := f.(map[string]any); return file["url"] == u }) {
			files = append(files, map[string]any{"type": "image", "url": u})
		}
	}
	var made []event.Event
	if len(files) > 0 {
		made = append(made, event.New(event.Files, map[string]any{"files": files}))
	}
	if len(r.Embeds) > 0 {
		made = append(made, event.New(event.Embeds, map[string]any{"embeds": anys(r.Embeds)}))
	}
	for i, e := range made { // after all that the tool itself emitted
		r.Events = append(r.Events, Event{At: now.UnixMilli(), N: maxEmitted - len(made) + i, Event: e})
	}
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
