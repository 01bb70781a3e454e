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
	started := false
	for i, id := range a.Runs {
		for done := false; !done; {
			patience := keepAlive
			if !started {
				patience = holdHeader
			}
			ctx, cancel := context.WithTimeout(line, patience)
			got, closed, err := s.Chats.Runs.Wait(ctx, a.Chat, id)
			cancel()
			switch {
			case err != nil && !started:
				return err
			case err != nil || r.Context().Err() != nil:
				return nil // the record has the answer; the line is cut or broken
			case closed, line.Err() != nil:
				done = true
				if i == 0 {
					reply = got
				}
				continue
			}
			if !started {
				started = true
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusOK)
			}
			if _, err := io.WriteString(w, " "); err != nil {
				return nil
			}
			flush(w)
		}
	}
	switch {
	case reply == nil && started:
		_, _ = io.WriteString(w, "null")
	case reply == nil:
		return s.answer(w, http.StatusOK, nil)
	case started && !json.Valid(reply.Body):
		_, _ = io.WriteString(w, "null")
	case started:
		_, _ = w.Write(reply.Body)
	default:
		w.Header().Set("Content-Type", reply.Type)
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body)
	}
	return nil
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
