package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolrounds/shared/openai"
	"toolrounds/shared/table"
)

// Work is what Prepare makes of a request: everything that the rounds need and that does not change from round to round.
type Work struct {
	Request  Request          `json:"request"`
	Mode     Mode             `json:"mode,omitempty"`
	Upstream string           `json:"upstream"` // the provider's name of the model
	Stream   bool             `json:"stream"`
	Body     map[string]any   `json:"body"`     // parameters for the provider
	Messages []any            `json:"messages"` // of the first request
	Tools    json.RawMessage  `json:"tools"`    // sent as they are; null: the key is left out
	Table    map[string]Entry `json:"table"`    // the offered functions by the name the model knows
	Metadata map[string]any   `json:"metadata"`
	Model    map[string]any   `json:"model"` // the model's entry, for tools that ask for it

	problems []string // servers that are not there, for Prepare to tell
}

// Mode is how a model comes to call tools.
type Mode string

// The modes besides the native one, which is "": the provider is told of the tools, and the model calls them.
const (
	Legacy   Mode = "legacy" // the task model chooses once, before the model answers with the results as context
	Prompted Mode = "prompt" // the system prompt tells of the tools, and the model's text is read for calls
)

// Entry says where an offered function lives.
type Entry struct {
	Provider string `json:"provider"` // Python, OpenAPI, MCP or Terminal
	Toolkit  string `json:"toolkit"`  // id of the toolkit, or of the server with what stands before it: server:, server:mcp:, terminal:
	Function string `json:"function"` // its own name there
}

// Python is the provider of the toolkits in the Python container.
const Python = "python"

// roundDoc is what the model answered in one round, without its calls.
type roundDoc struct {
	Items      []map[string]any `json:"items"` // reasoning and message items, in order
	Calls      int              `json:"calls"`
	Choice     bool             `json:"choice,omitempty"` // of the task model in legacy mode: no part of the answer
	Finish     string           `json:"finish,omitempty"` // length, when the provider cut the answer
	Usage      map[string]any   `json:"usage,omitempty"`
	Error      any              `json:"error,omitempty"` // the content of the message's error
	Reply      *Reply           `json:"reply,omitempty"`
	Incomplete bool             `json:"incomplete,omitempty"` // cut by a stop
	Over       bool             `json:"over,omitempty"`       // the limit of rounds is reached: its calls are not run
}

// callDoc is one call as the model made it. Its result is an attribute of its own.
type callDoc struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Entry     *Entry `json:"entry,omitempty"`
}

const (
	attrDoc    = "doc"
	attrResult = "result"
)

// round is a recorded round with its calls and the results there are.
type round struct {
	roundDoc
	calls []callRecord
}

type callRecord struct {
	callDoc
	result *Result
}

// record is everything that a run has produced so far.
type record struct {
	req    Request // zero when it has expired, and when it was not read
	work   *Work   // nil before Prepare
	rounds []round
	events []Event
}

// gather reads what a run has produced; its request and its events only with all.
func (s *Service) gather(ctx context.Context, run string, all bool) (*record, error) {
	rec := &record{}
	q := table.Query{PK: table.Work(run).PK, Prefix: table.WorkPrefix}
	if all { // everything under the run: its request, its events and its work
		q.Prefix = ""
	}
	for item, err := range s.Table.Query(ctx, q) {
		if err != nil {
			return nil, fmt.Errorf("read run's work: %w", err)
		}
		if err := rec.add(item); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

func (rec *record) add(item table.Item) error {
	switch {
	case item.Key == table.Request(strings.TrimPrefix(item.PK, table.RunPartition)):
		return item.JSON(attrDoc, &rec.req)
	case strings.HasPrefix(item.SK, table.EventPrefix):
		var e Event
		if err := item.JSON(attrDoc, &e); err != nil {
			return err
		}
		rec.events = append(rec.events, e)
	case item.SK == table.WorkPrefix:
		rec.work = &Work{}
		return item.JSON(attrDoc, rec.work)
	case strings.HasPrefix(item.SK, table.WorkPrefix) && strings.Count(item.SK, "#") == 1:
		var r round
		if err := item.JSON(attrDoc, &r.roundDoc); err != nil {
			return err
		}
		rec.rounds = append(rec.rounds, r)
	case strings.HasPrefix(item.SK, table.WorkPrefix):
		c, err := callOf(item)
		if err != nil {
			return err
		}
		// A call sorts right after its round, and counts with it: a try that died may have left some of a round that it did not record.
		n := len(rec.rounds) - 1
		if n < 0 || len(rec.rounds[n].calls) >= rec.rounds[n].Calls {
			return nil
		}
		rec.rounds[n].calls = append(rec.rounds[n].calls, c)
	}
	return nil
}

func callOf(item table.Item) (callRecord, error) {
	var c callRecord
	if err := item.JSON(attrDoc, &c.callDoc); err != nil {
		return c, err
	}
	if item.Has(attrResult) {
		c.result = &Result{}
		if err := item.JSON(attrResult, c.result); err != nil {
			return c, err
		}
	}
	return c, nil
}

// priorCalls are the ids of the calls made so far.
func (rec *record) priorCalls() []string {
	var ids []string
	for _, r := range rec.rounds {
		for _, c := range r.calls {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// names are the functions offered to the model, by the names it knows.
func (w *Work) names() []string {
	names := make([]string, 0, len(w.Table))
	for n := range w.Table {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// body is the request to the provider for the round after those recorded (spec/http.md D3.1, D3.5).
func (w *Work) body(rounds []round, capChars int) []byte {
	return table.MustJSON(w.ask(rounds, capChars))
}

func (w *Work) ask(rounds []round, capChars int) map[string]any {
	messages := slices.Clone(w.Messages)
	for _, r := range rounds {
		if r.Choice {
			messages = withSources(messages, r.cited(), capChars)
			continue
		}
		if told := r.messages(capChars); w.Mode == Prompted {
			messages = append(messages, inText(told)...)
		} else {
			messages = append(messages, told...)
		}
	}
	body := map[string]any{}
	for k, v := range w.Body {
		body[k] = v
	}
	body["model"], body["stream"], body["messages"] = w.Upstream, w.Stream, messages
	if w.Tools != nil && string(w.Tools) != "null" && w.Mode == "" {
		body["tools"] = w.Tools
	}
	return body
}

// messages is how a finished round is told to the model.
func (r round) messages(capChars int) []any {
	var calls, answers, images []any
	for _, c := range r.calls {
		calls = append(calls, toolCall(c.ID, c.Name, sound(c.Arguments)))
		content := textNoResult
		if c.result != nil {
			content = capped(c.result.Content, capChars)
			for _, u := range c.result.Images {
				images = append(images, u)
			}
		}
		answers = append(answers, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": content})
	}
	out := append([]any{map[string]any{"role": "assistant", "content": r.text(), "tool_calls": calls}}, answers...)
	if images != nil {
		out = append(out, imageMessage(images))
	}
	return out
}

// text is the round's answer without reasoning.
func (r round) text() string {
	var texts []string
	for _, item := range r.Items {
		if text(item, "type") == "message" {
			texts = append(texts, itemText(item))
		}
	}
	return strings.Join(texts, "\n")
}

// sound is arguments that a provider accepts back: what the model garbled becomes an empty object, its result says why.
func sound(arguments string) string {
	var o map[string]any
	if err := table.Decode([]byte(arguments), &o); err != nil || o == nil {
		return "{}"
	}
	return arguments
}

// capped cuts a text to at most limit characters and says so. Limit 0 or less: no cut.
func capped(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + fmt.Sprintf("\n\n[The result was truncated: the first %d of %d bytes are shown. The whole result is stored with the chat.]", i, len(s))
		}
		n++
	}
	return s
}

// logEntry is one batch of what a model step streamed.
type logEntry struct {
	Deltas []openai.Delta `json:"deltas"`
}
