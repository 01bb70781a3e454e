package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// modelRound is one answer of the scripted model.
type modelRound struct {
	Text       string            `json:"text"`
	ToolCalls  []modelCall       `json:"tool_calls"`
	HTTPStatus int               `json:"http_status"`
	Body       string            `json:"body"`
	Headers    map[string]string `json:"headers"`
	DelayMS    int               `json:"delay_ms"`
}

type modelCall struct {
	ID        *string `json:"id"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
}

// scriptedModel answers the requests of all cases that are played at the same time. A case puts its mark into its prompts; the mark
// comes back in every request that belongs to the case, whoever makes it: rounds, titles, choices of tools.
type scriptedModel struct {
	mu    sync.Mutex
	cases map[string]*modelCase
}

type modelCase struct {
	rounds   []modelRound
	requests []json.RawMessage
	before   func(n int) // is called before request n, from 0, is answered
}

// fieldModel is the only server of this process: the stack's provider, which must know its address before it starts.
var fieldModel = sync.OnceValues(func() (*scriptedModel, error) {
	address := os.Getenv("FIELD_MODEL_ADDR")
	if address == "" {
		return nil, errors.New("FIELD_MODEL_ADDR is not set: the address under which the stack knows its provider")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &scriptedModel{cases: map[string]*modelCase{}}
	go func() { _ = http.Serve(listener, m) }()
	return m, nil
})

func (m *scriptedModel) begin(mark string, c *modelCase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cases[mark] = c
}

func (m *scriptedModel) seen(mark string) []json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]json.RawMessage{}, m.cases[mark].requests...)
}

// ServeHTTP implements http.Handler.
func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","created":1,"owned_by":"field"}]}`, fieldModelID)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	var c *modelCase
	for mark, candidate := range m.cases {
		if strings.Contains(string(body), mark) {
			c = candidate
		}
	}
	if c == nil {
		m.mu.Unlock()
		http.Error(w, `{"error":{"message":"a request of no case"}}`, http.StatusBadRequest)
		return
	}
	n := len(c.requests)
	c.requests = append(c.requests, body)
	round, before := c.rounds[min(n, len(c.rounds)-1)], c.before
	m.mu.Unlock()
	if before != nil {
		before(n)
	}
	select {
	case <-r.Context().Done():
		return
	case <-time.After(time.Duration(round.DelayMS) * time.Millisecond):
	}
	round.answer(w, body, n)
}

func (r modelRound) answer(w http.ResponseWriter, request []byte, n int) {
	if r.HTTPStatus != 0 {
		for k, v := range r.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(r.HTTPStatus)
		_, _ = io.WriteString(w, r.Body)
		return
	}
	var asked struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(request, &asked)
	var calls []any
	for i, c := range r.ToolCalls {
		id := fmt.Sprintf("call_%d_%d", n, i)
		if c.ID != nil {
			id = *c.ID
		}
		calls = append(calls, map[string]any{"index": i, "id": id, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	message, finish := map[string]any{"role": "assistant", "content": r.Text}, "stop"
	if calls != nil {
		message["tool_calls"], finish = calls, "tool_calls"
	}
	answer := func(key string, message any, object string, finish any) []byte {
		raw, _ := json.Marshal(map[string]any{
			"id": "chatcmpl-field", "object": object, "created": 1, "model": fieldModelID,
			"choices": []any{map[string]any{"index": 0, key: message, "finish_reason": finish}},
		})
		return raw
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer("message", message, "chat.completion", finish))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, frame := range [][]byte{
		answer("delta", message, "chat.completion.chunk", nil), answer("delta", map[string]any{}, "chat.completion.chunk", finish), []byte("[DONE]"),
	} {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", frame)
	}
}
