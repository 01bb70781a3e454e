package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

// How a caller is held who waits for an answer. The status of a failure can be told only before the first byte is sent; after that,
// white space, which JSON allows, keeps the line open.
const (
	holdHeader = 20 * time.Second
	keepAlive  = 20 * time.Second
)

// complete is POST /api/chat/completions in all its ways (spec/http.md D1, F).
func (s *server) complete(w http.ResponseWriter, r *http.Request) error {
	var body map[string]any
	if err := s.decode(r, &body); err != nil {
		return err
	}
	if body == nil {
		return fault.Fields(fault.Field{Type: "dict_type", Loc: []any{"body"}, Msg: "Input should be a valid dictionary", Input: nil})
	}
	if err := run.Check(body); err != nil && run.Waits(body) {
		return s.refuse(w, err)
	} else if err != nil {
		return err
	}
	u := s.caller(r).User
	if !run.OnChat(body) {
		return s.direct(w, r, u, body)
	}
	delete(body, "idempotency_key")
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		body["idempotency_key"] = key
	}
	accepted, err := s.Chats.Runs.Accept(r.Context(), u, body, s.Chats.BaseURL(r))
	if err != nil && run.Waits(body) {
		return s.refuse(w, err)
	}
	if err != nil {
		return err
	}
	if run.Waits(body) {
		return s.wait(w, r, accepted, body)
	}
	if accepted.Async {
		return s.answer(w, http.StatusOK, map[string]any{"status": true, "task_ids": accepted.Runs, "chat_id": accepted.Chat})
	}
	return s.hold(w, r, accepted)
}

// hold keeps the caller until the runs are closed and answers with the first one's reply; with null when they take longer than a line
// can be held: they go on, and the chat will have the answer.
func (s *server) hold(w http.ResponseWriter, r *http.Request, a run.Accepted) error {
	line, cancel := context.WithTimeout(r.Context(), waitLimit)
	defer cancel()
	var reply *run.Reply
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		reply, err = s.firstReply(line, a)
	}()
	begun := s.spaced(w, done)
	switch {
	case err != nil && !begun:
		return err
	case err != nil || r.Context().Err() != nil:
		return nil // the record has the answer; the line is cut or broken
	case reply == nil && !begun:
		return s.answer(w, http.StatusOK, nil)
	case reply == nil, begun && !json.Valid(reply.Body):
		_, _ = io.WriteString(w, "null")
	default:
		relay(w, reply, begun)
	}
	return nil
}

// firstReply waits until all runs are closed, or the context ends, and returns the first run's reply; nil stands for null.
func (s *server) firstReply(ctx context.Context, a run.Accepted) (first *run.Reply, err error) {
	for i, id := range a.Runs {
		reply, _, err := s.Chats.Runs.Wait(ctx, a.Chat, id)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = reply
		}
	}
	return first, nil
}

// spaced is awhile for an answer that is one JSON value: white space in front of it keeps the line open.
func (s *server) spaced(w http.ResponseWriter, done <-chan struct{}) (begun bool) {
	return s.awhile(done, func() {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
	}, func() {
		_, _ = io.WriteString(w, " ")
		flush(w)
	})
}

// relay sends a provider's answer as it was; of one that has begun only the body is left to send.
func relay(w http.ResponseWriter, reply *run.Reply, begun bool) {
	if !begun {
		w.Header().Set("Content-Type", reply.Type)
		w.WriteHeader(reply.Status)
	}
	_, _ = w.Write(reply.Body)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
