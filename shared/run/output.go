package run

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/openai"
	"toolrounds/shared/turn"
)

// clock notes when each reasoning block began and ended.
type clock struct {
	began, ended map[int]time.Time
}

func newClock() *clock { return &clock{began: map[int]time.Time{}, ended: map[int]time.Time{}} }

// see takes one delta at the time it came.
func (c *clock) see(d openai.Delta, now time.Time) {
	switch d.Kind {
	case openai.Reasoning:
		c.begin(d.Block, now)
	case openai.Text:
		for b := range c.began {
			if b < d.Block {
				c.end(b, now)
			}
		}
	case openai.Snapshot:
		for i, b := range d.Blocks {
			if b.Reasoning {
				c.begin(i, now)
				if b.Closed {
					c.end(i, now)
				}
			}
		}
	}
}

func (c *clock) begin(b int, now time.Time) {
	if _, ok := c.began[b]; !ok {
		c.began[b] = now
	}
}

func (c *clock) end(b int, now time.Time) {
	if _, ok := c.ended[b]; !ok {
		c.ended[b] = now
	}
}

// items turns the blocks of a round's answer into output items (spec/http.md D4). Status is that of items that may still grow: the
// last one; whole ones are completed.
func (s *Service) items(run string, round int, blocks []openai.Block, c *clock, status string, calls bool) []map[string]any {
	items := []map[string]any{}
	for i, b := range blocks {
		st := Completed
		if i == len(blocks)-1 {
			st = status
		}
		content := []any{map[string]any{"type": "output_text", "text": b.Text}}
		if !b.Reasoning {
			if b.Text == "" {
				continue
			}
			items = append(items, map[string]any{"type": "message", "id": blockID("msg", run, round, i), "status": st, "role": "assistant", "content": content})
			continue
		}
		attributes := map[string]any{}
		for k, v := range b.Attributes {
			attributes[k] = v
		}
		began, ok := c.began[i]
		if !ok {
			began = s.Now()
		}
		item := map[string]any{
			"type": "reasoning", "id": blockID("r", run, round, i), "status": st, "start_tag": b.StartTag, "end_tag": b.EndTag,
			"attributes": attributes, "content": content, "summary": nil, "started_at": seconds(began),
		}
		ended, ok := c.ended[i]
		if !ok && st == Completed && !calls {
			ended, ok = s.Now(), true
		}
		if ok { // left open where a call follows directly
			item["ended_at"], item["duration"] = seconds(ended), int(ended.Sub(began).Seconds())
		}
		items = append(items, item)
	}
	return items
}

// seconds is a time as the record has it: Unix seconds with a fraction.
func seconds(t time.Time) json.Number {
	return json.Number(strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', 6, 64))
}

// output is the list of items of everything recorded. A call is failed when its result is, and incomplete when it has none although
// it was to be run.
func (rec *record) output() []any {
	out := []any{}
	for i, r := range rec.rounds {
		if r.Choice { // its results are sources
			continue
		}
		for _, item := range r.Items {
			out = append(out, item)
		}
		if i < len(rec.rounds)-1 { // the model was told what became of each call, and so is the reader
			r.calls = answered(r.calls)
		}
		for _, c := range r.calls {
			status := Completed
			switch {
			case c.result != nil:
				status = c.result.Status
			case !r.Over:
				status = Incomplete
			}
			out = append(out, callItem(c, status))
		}
		for _, c := range r.calls {
			if c.result != nil {
				out = append(out, resultItem(c))
			}
		}
	}
	return out
}

// answered gives each call that has no result the one that the model was shown in its place.
func answered(calls []callRecord) []callRecord {
	out := slices.Clone(calls)
	for i, c := range out {
		if c.result == nil {
			out[i].result = &Result{Content: textNoResult, Status: FailedCall, ItemID: "fco_" + c.ID}
		}
	}
	return out
}

func callItem(c callRecord, status string) map[string]any {
	return map[string]any{
		"type": "function_call", "id": c.ID, "call_id": c.ID, "name": c.Name, "arguments": c.Arguments, "status": status,
	}
}

func resultItem(c callRecord) map[string]any {
	parts := []any{map[string]any{"type": "input_text", "text": c.result.Content}}
	for _, u := range c.result.ImageURLs {
		parts = append(parts, map[string]any{"type": "input_image", "image_url": u})
	}
	item := map[string]any{
		"type": "function_call_output", "id": c.result.ItemID, "call_id": c.ID, "output": parts, "status": c.result.Status,
	}
	if len(c.result.Embeds) > 0 {
		item["embeds"] = c.result.Embeds
	}
	if len(c.result.Files) > 0 {
		item["files"] = c.result.Files
	}
	return item
}

// content is the text of an output: its message items joined by newlines.
func content(output []any) string {
	var texts []string
	for _, v := range output {
		if item, ok := v.(map[string]any); ok && text(item, "type") == "message" {
			texts = append(texts, itemText(item))
		}
	}
	return strings.Join(texts, "\n")
}

// usage sums what the rounds reported: input, output and total tokens over all rounds, the provider's own names as in the last one.
func (rec *record) usage() map[string]any {
	var sum map[string]any
	var in, out, total int64
	for _, r := range rec.rounds {
		if r.Usage == nil {
			continue
		}
		prompt, completion := tokens(r.Usage, "prompt_tokens", "input_tokens"), tokens(r.Usage, "completion_tokens", "output_tokens")
		in, out = in+prompt, out+completion
		if t := tokens(r.Usage, "total_tokens"); t != 0 {
			total += t
		} else {
			total += prompt + completion
		}
		sum = map[string]any{}
		for k, v := range r.Usage {
			sum[k] = v
		}
	}
	if sum != nil {
		sum["input_tokens"], sum["output_tokens"], sum["total_tokens"] = in, out, total
	}
	return sum
}

func tokens(usage map[string]any, names ...string) int64 {
	for _, n := range names {
		if v, ok := usage[n].(json.Number); ok {
			if i, err := v.Int64(); err == nil {
				return i
			}
		}
	}
	return 0
}

// lasting puts the stored effect of a tool's events on a message (spec/http.md G, spec/socket.md section 3).
func lasting(events []Event, m map[string]any) { event.Keep(inOrder(events), m) }

// inOrder are the events in the order of their emission.
func inOrder(events []Event) []event.Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return int(a.At - b.At) })
	out := make([]event.Event, len(sorted))
	for i, e := range sorted {
		out[i] = e.Event
	}
	return out
}

// closeStatus adds the end of a status that the tool left open: nobody is working on it any more.
func closeStatus(m map[string]any) {
	history := list(m, "statusHistory")
	if len(history) == 0 {
		return
	}
	last, _ := history[len(history)-1].(map[string]any)
	if done, ok := last["done"].(bool); ok && !done {
		end := map[string]any{}
		for k, v := range last {
			end[k] = v
		}
		end["done"] = true
		m["statusHistory"] = append(slices.Clone(history), end)
	}
}

// final is what the run makes of its message when it ends so.
func (rec *record) final(r Run, outcome turn.Outcome, failure any, async bool) chat.Message {
	output := rec.output()
	m := chat.Message{"output": output, "content": content(output), "done": true}
	if u := rec.usage(); u != nil {
		m["usage"] = u
	}
	lasting(rec.events, m)
	rec.cite(m)
	if outcome == turn.Failed && failure != nil {
		m["error"] = map[string]any{"content": failure}
	}
	if outcome != turn.Answered {
		closeStatus(m)
	}
	if async {
		m["meta"] = map[string]any{"task_id": r.ID}
	}
	return m
}
