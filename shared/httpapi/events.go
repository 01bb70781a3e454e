package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/live"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// liveRoutes are what HTTP clients have instead of a socket (docs/websocket.md).
func (s *server) liveRoutes() []Route {
	return []Route{
		{"GET", "/api/v1/chats/{id}/events", User, s.follow},
		{"GET", "/api/v1/chats/{id}/questions", User, s.questions},
		{"POST", "/api/v1/chats/{id}/questions/{question}", User, s.answerQuestion},
		{"GET", "/api/usage", User, s.usage},
		{"GET", "/ws/socket.io", Open, noPolling},
		{"POST", "/ws/socket.io", Open, noPolling},
	}
}

// noPolling refuses Engine.IO's other transport: only websockets reach the gateway that serves them.
func noPolling(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusBadRequest, "Invalid transport")
}

func (s *server) usage(w http.ResponseWriter, r *http.Request) error {
	models, users, err := s.Live.InUse(r.Context())
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, map[string]any{"model_ids": models, "user_count": users})
}

// own refuses a chat that is not the caller's. Of a temporary chat nothing is stored that would tell whose it is; only the caller's own
// runs on it are ever shown.
func (s *server) own(r *http.Request, id string) error {
	if len(id) > table.MaxID {
		return fault.New(fault.NotFound, fault.TextNotFound)
	}
	if run.Temporary(id) {
		return nil
	}
	c, ok, err := s.Chats.Store.Head(r.Context(), id)
	if err != nil {
		return err
	}
	if !ok || c.UserID != s.caller(r).User.ID {
		return fault.New(fault.NotFound, fault.TextNotFound)
	}
	return nil
}

// eventFrame is an event as a stream of server-sent events carries it.
type eventFrame struct {
	Seq     int64          `json:"seq"`
	Chat    string         `json:"chat_id"`
	Message any            `json:"message_id"`
	Task    string         `json:"task_id"`
	Data    map[string]any `json:"data"`
}

// follow streams the events of a chat's runs until none is open (docs/websocket.md). An event's id tells where every followed run
// stands, so that Last-Event-ID goes on exactly there.
func (s *server) follow(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := s.own(r, id); err != nil {
		return err
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last_event_id")
	}
	after := cursor(last)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var mu sync.Mutex // events and the comments that keep the line open
	write := func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprint(w, text); err != nil {
			cancel()
			return err
		}
		flush(w)
		return nil
	}
	if err := write(": ok\n\n"); err != nil {
		return nil
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(keepAlive):
				if write(": \n\n") != nil {
					return
				}
			}
		}
	}()
	if after == nil {
		after = map[string]int64{}
	}
	at := maps.Clone(after)
	err := s.Live.Follow(ctx, s.Chats.Runs, s.caller(r).User.ID, id, after, func(u live.Update) error {
		at[u.Run] = u.Seq
		frame := eventFrame{Seq: u.Seq, Chat: id, Task: u.Run, Data: u.Event}
		if u.Message != "" {
			frame.Message = u.Message
		}
		raw, err := table.Encode(frame)
		if err != nil {
			return err
		}
		return write("id: " + cursorText(at) + "\ndata: " + string(raw) + "\n\n")
	})
	if err != nil {
		s.Log.WarnContext(r.Context(), "follow", "chat", id, "error", err)
		return nil // the client comes again with the last id
	}
	if ctx.Err() == nil {
		_ = write("event: end\ndata: {}\n\n")
	}
	return nil
}

// cursor reads an event's id: "<run>=<number>" for each followed run, joined by commas. What does not parse counts as not seen.
func cursor(text string) map[string]int64 {
	seen := map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		id, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		if n, err := strconv.ParseInt(number, 10, 64); ok && err == nil && n >= 0 && id != "" && len(id) <= table.MaxID && len(seen) < 100 {
			seen[id] = n
		}
	}
	return seen
}

func cursorText(seen map[string]int64) string {
	parts := make([]string, 0, len(seen))
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		parts = append(parts, id+"="+strconv.FormatInt(seen[id], 10))
	}
	return strings.Join(parts, ",")
}

// questions lists what tools ask the caller in a chat and wait for.
func (s *server) questions(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := s.own(r, id); err != nil {
		return err
	}
	user := s.caller(r).User.ID
	runs, err := s.Chats.Runs.Open(r.Context(), user, id)
	if err != nil {
		return err
	}
	list := []any{}
	for _, q := range s.Live.Pending(r.Context(), user, runs) {
		list = append(list, map[string]any{
			"id": q.CallID(), "chat_id": q.Chat, "message_id": q.Message, "task_id": q.Run, "data": q.Event, "deadline": q.Deadline / 1000,
		})
	}
	return s.answer(w, http.StatusOK, list)
}

// answerQuestion answers one of them, once.
func (s *server) answerQuestion(w http.ResponseWriter, r *http.Request) error {
	if err := s.own(r, r.PathValue("id")); err != nil {
		return err
	}
	var form struct {
		Value json.RawMessage `json:"value"`
	}
	if err := s.decode(r, &form); err != nil {
		return err
	}
	if form.Value == nil {
		form.Value = json.RawMessage("null")
	}
	accepted, err := s.Live.AnswerCall(r.Context(), s.caller(r).User.ID, r.PathValue("id"), r.PathValue("question"), form.Value)
	if err != nil {
		return err
	}
	if !accepted {
		return fault.New(fault.Conflict, "The question is not open.")
	}
	return s.answer(w, http.StatusOK, map[string]any{"status": true})
}
