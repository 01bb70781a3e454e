package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"toolrounds/shared/run"
)

// reply is what the scripted model answers in one round. {{result}} in its text stands for the last tool result that it was shown.
type reply struct {
	reasoning, text string
	calls           []call
	status          int           // an HTTP error
	breaks          bool          // the connection breaks after the text
	pace            time.Duration // between two pieces
}

type call struct{ name, arguments string }

// provider is the model's API: the real client talks to it.
type provider struct{ p *process }

// RoundTrip implements http.RoundTripper.
func (m *provider) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	err = m.p.edge("model", func() error { resp = m.p.answer(r.Context(), raw, m.p.after); return nil })
	return resp, err
}

func (w *world) answer(ctx context.Context, raw []byte, late bool) *http.Response {
	var body struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []any  `json:"messages"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		w.t.Errorf("request to the model: %v", err)
	}
	if body.Model == "task-model" {
		return plain(200, completion(`{"title":"A Title","tags":["Maths"],"follow_ups":["And now?"],"tool_calls":[{"name":"add","parameters":{"a":1,"b":2,"c":3}},{"name":"no"}]}`))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if late {
		w.begunLate = append(w.begunLate, "a request to the model")
	}
	w.asked = append(w.asked, body.Messages)
	round, last, problem := strict(body.Messages)
	if problem != "" {
		w.t.Errorf("P4: a strict provider refuses: %s\n%s", problem, raw)
	}
	if round >= len(w.script) {
		return plain(500, `{"error":{"message":"the script is at its end"}}`)
	}
	r := w.script[round]
	r.text = strings.ReplaceAll(r.text, "{{result}}", last)
	switch {
	case r.status != 0:
		return plain(r.status, `{"error":{"message":"the model is out of order"}}`)
	case !body.Stream:
		return plain(200, completion(r.text))
	}
	reader, writer := io.Pipe()
	go r.stream(ctx, writer, round)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: reader}
}

// strict checks a conversation as strict providers do: each call has exactly one result, right after it.
func strict(messages []any) (round int, last, problem string) {
	var wanted []string
	seen := map[string]bool{}
	for _, v := range messages {
		m, _ := v.(map[string]any)
		if m["role"] == "tool" {
			id, _ := m["tool_call_id"].(string)
			if len(wanted) == 0 || wanted[0] != id {
				return round, last, fmt.Sprintf("a result of %q, expected %v", id, wanted)
			}
			wanted, last = wanted[1:], fmt.Sprint(m["content"])
			continue
		}
		if len(wanted) > 0 {
			return round, last, fmt.Sprintf("no result of %v", wanted)
		}
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			id, _ := c.(map[string]any)["id"].(string)
			if id == "" || seen[id] {
				return round, last, fmt.Sprintf("call id %q is used twice", id)
			}
			seen[id] = true
			wanted = append(wanted, id)
		}
		if said, _ := m["content"].(string); len(calls) > 0 || m["role"] == "assistant" && strings.Contains(said, "<tool_call>") {
			round++
		}
	}
	if len(wanted) > 0 {
		return round, last, fmt.Sprintf("no result of %v", wanted)
	}
	return round, last, ""
}

func (r reply) stream(ctx context.Context, w *io.PipeWriter, round int) {
	defer w.CloseWithError(io.ErrUnexpectedEOF)                                         // unless it was closed before
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) }) // the answer may be read by nobody
	defer stop()
	send := func(delta map[string]any) bool {
		frame, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta}}})
		select {
		case <-ctx.Done():
			return false
		case <-time.After(r.pace):
		}
		_, err := fmt.Fprintf(w, "data: %s\n\n", frame)
		return err == nil
	}
	for _, word := range strings.SplitAfter(r.reasoning, " ") {
		if word != "" && !send(map[string]any{"reasoning_content": word}) {
			return
		}
	}
	for _, word := range strings.SplitAfter(r.text, " ") {
		if word != "" && !send(map[string]any{"content": word}) {
			return
		}
	}
	if r.breaks {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
		return
	}
	for i, c := range r.calls {
		if !send(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": fmt.Sprintf("call_%d_%d", round, i), "function": map[string]any{"name": c.name, "arguments": c.arguments},
		}}}) {
			return
		}
	}
	_, _ = fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}\n\ndata: [DONE]\n\n")
	_ = w.Close()
}

func plain(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func completion(text string) string {
	raw, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}}})
	return string(raw)
}

// container runs the functions of the toolkit.
type container struct{ p *process }

// Call implements run.Container.
func (c *container) Call(ctx context.Context, inv run.Invocation) (result run.Result, err error) {
	err = c.p.edge("container", func() (err error) { result, err = c.p.tool(ctx, inv, c.p.after); return err })
	if err != nil {
		result = run.Result{}
	}
	return result, err
}

func (w *world) tool(ctx context.Context, inv run.Invocation, late bool) (run.Result, error) {
	w.mu.Lock()
	w.calls[inv.Key]++
	if late {
		w.begunLate = append(w.begunLate, "call "+inv.Key)
	}
	w.mu.Unlock()
	takes := 300 * time.Millisecond
	if inv.Function == "slow" {
		takes = 20 * time.Second
	}
	began := time.Now().UnixMilli()
	select {
	case <-ctx.Done():
		return run.Result{}, context.Cause(ctx)
	case <-time.After(takes):
	}
	status := map[string]any{"type": "status", "data": map[string]any{"description": "working on " + inv.Key, "done": true}}
	result := run.Result{Status: run.Completed, Events: []run.Event{{At: began, N: 0, Event: status}}}
	switch inv.Function {
	case "broken":
		result.Status, result.Content = run.FailedCall, "Error: broken"
	case "big":
		result.Content = w.content(inv)
	default:
		var args struct{ A, B int }
		if err := json.Unmarshal([]byte(inv.Arguments), &args); err != nil {
			return run.Result{}, err
		}
		result.Content = fmt.Sprint(args.A + args.B)
	}
	return result, nil
}
