package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"toolrounds/shared/openai"
)

func init() { register("model_stream", modelStream) }

// modelStreamGiven is what a provider sends in a case of kind model_stream.
type modelStreamGiven struct {
	ContentType  string            `json:"content_type"`
	Chunks       []string          `json:"chunks"`     // wire text, one network chunk each
	ChunksB64    []string          `json:"chunks_b64"` // the same as bytes, where a chunk is not UTF-8
	Headers      map[string]string `json:"headers"`
	HTTPStatus   int               `json:"http_status"`
	Close        string            `json:"close"` // "reset": the connection is reset after the chunks
	PriorCallIDs []string          `json:"prior_call_ids"`
	KnownTools   []string          `json:"known_tools"`
}

type modelStreamCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type modelStreamResult struct {
	Content   string            `json:"content"`
	Reasoning string            `json:"reasoning"`
	ToolCalls []modelStreamCall `json:"tool_calls"`
	Finish    string            `json:"finish"`
	Usage     map[string]any    `json:"usage"`
	Error     *string           `json:"error"` // null when there was none
}

// modelStream lets the model client read the answer of a scripted provider over a real connection.
func modelStream(ctx context.Context, c Case) (any, error) {
	var given modelStreamGiven
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, fmt.Errorf("given: %w", err)
	}
	chunks, err := given.bytes()
	if err != nil {
		return nil, err
	}
	provider := httptest.NewServer(given.handler(chunks))
	defer provider.Close()
	client := openai.New(openai.Config{BaseURL: provider.URL + "/v1", FirstByte: 20 * time.Second, Idle: 20 * time.Second})
	opts := openai.StreamOptions{PriorCallIDs: given.PriorCallIDs, KnownTools: given.KnownTools}
	round, err := client.Stream(ctx, []byte(`{"model":"field","stream":true,"messages":[]}`), opts, nil)

	doc := modelStreamResult{Content: round.Text(), Reasoning: round.Reasoning(), Finish: round.Finish, Usage: round.Usage,
		ToolCalls: []modelStreamCall{}}
	for _, call := range round.Calls {
		doc.ToolCalls = append(doc.ToolCalls, modelStreamCall{ID: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
	if err != nil {
		text := err.Error()
		doc.Error = &text
	}
	return doc, nil
}

func (g modelStreamGiven) bytes() ([][]byte, error) {
	var chunks [][]byte
	for _, text := range g.Chunks {
		chunks = append(chunks, []byte(text))
	}
	for i, text := range g.ChunksB64 {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("chunks_b64/%d: %w", i, err)
		}
		chunks = append(chunks, raw)
	}
	return chunks, nil
}

// handler plays the chunks. Each is flushed on its own and a moment lies between them, so that the client's reads end where the
// chunks do, as far as TCP lets that be arranged.
func (g modelStreamGiven) handler(chunks [][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.ContentType != "" {
			w.Header().Set("Content-Type", g.ContentType)
		}
		for name, value := range g.Headers {
			w.Header().Set(name, value)
		}
		if g.HTTPStatus != 0 {
			w.WriteHeader(g.HTTPStatus)
		}
		control := http.NewResponseController(w)
		for _, chunk := range chunks {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
			select {
			case <-time.After(3 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		if g.Close == "reset" {
			if err := reset(control); err != nil {
				panic(http.ErrAbortHandler) // a cut is the nearest to a reset
			}
		}
	})
}

// reset ends the connection with a RST.
func reset(control *http.ResponseController) error {
	conn, _, err := control.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return errors.New("not a TCP connection")
	}
	return tcp.SetLinger(0)
}
