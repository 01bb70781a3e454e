// Demomodel is an OpenAI-compatible model that is none: a few rules that notice when a prompt wants one of the offered tools, so
// that a fresh checkout shows a whole round of tool calling without an account anywhere. It says so in every answer.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"strings"
	"time"
)

const modelID = "demo-model"

func main() {
	listen := flag.String("listen", "127.0.0.1:4000", "address to listen on")
	flag.Parse()
	server := &http.Server{Addr: *listen, Handler: handler(20 * time.Millisecond), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// handler serves the API; pause is the time between two words of a streamed answer.
func handler(pause time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { reply(w, map[string]bool{"status": true}) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		model := map[string]any{"id": modelID, "object": "model", "created": 0, "owned_by": "toolrounds", "name": "Demonstration model"}
		reply(w, map[string]any{"object": "list", "data": []any{model}})
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var ask request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 32<<20)).Decode(&ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			reply(w, map[string]any{"error": map[string]string{"message": err.Error(), "type": "invalid_request_error"}})
			return
		}
		said := answer(ask)
		if ask.Stream {
			stream(w, r, ask, said, pause)
			return
		}
		message := map[string]any{"role": "assistant", "content": said.text}
		if len(said.calls) > 0 {
			message["content"], message["tool_calls"] = nil, said.calls
		}
		reply(w, map[string]any{
			"id": "chatcmpl-demo", "object": "chat.completion", "created": time.Now().Unix(), "model": modelID,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": said.reason()}},
			"usage":   ask.usage(said),
		})
	})
	return mux
}

// stream sends an answer as server-sent events, word by word.
func stream(w http.ResponseWriter, r *http.Request, ask request, said said, pause time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	flow := http.NewResponseController(w)
	event := func(choices []any, usage any) {
		data, _ := json.Marshal(map[string]any{
			"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": time.Now().Unix(), "model": modelID,
			"choices": choices, "usage": usage,
		})
		_, _ = w.Write([]byte("data: " + string(data) + "\n\n"))
		_ = flow.Flush()
	}
	delta := func(delta map[string]any, reason any) {
		event([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if len(said.calls) > 0 {
		delta(map[string]any{"tool_calls": said.calls}, nil)
	}
	for _, word := range strings.SplitAfter(said.text, " ") {
		if r.Context().Err() != nil {
			return
		}
		if word != "" {
			delta(map[string]any{"content": word}, nil)
			time.Sleep(pause)
		}
	}
	delta(map[string]any{}, said.reason())
	if ask.StreamOptions.IncludeUsage {
		event([]any{}, ask.usage(said))
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
