package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

func (s *server) allTasks(w http.ResponseWriter, r *http.Request) error {
	ids, err := s.Chats.Runs.AllOpen(r.Context())
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, map[string]any{"tasks": ids})
}

// chatTasks tells which of the caller's runs on a chat are not closed; of a chat that is unknown or somebody else's, none. With
// ?wait=SECONDS it answers when none is left, or after that time.
func (s *server) chatTasks(w http.ResponseWriter, r *http.Request) error {
	ids := []string{}
	id := r.PathValue("chat")
	until := s.Now().Add(patience(r))
	for pause := pollFirst; len(id) <= table.MaxID; pause = min(pause*3/2, pollLast) {
		var err error
		if ids, err = s.Chats.Runs.Open(r.Context(), s.caller(r).User.ID, id); err != nil {
			return err
		}
		if len(ids) == 0 || !s.Now().Before(until) {
			break
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-time.After(pause):
		}
	}
	return s.answer(w, http.StatusOK, map[string]any{"task_ids": ids})
}

// How often a long poll looks, and how long one may last.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = 500 * time.Millisecond
	pollLimit = 60 * time.Second
)

// patience is how long a caller wants to wait for a change: its query parameter wait, in seconds.
func patience(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.URL.Query().Get("wait"), 64)
	if err != nil || !(seconds > 0) {
		return 0
	}
	return min(time.Duration(min(seconds, pollLimit.Seconds())*float64(time.Second)), pollLimit)
}

func (s *server) stopTask(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	known := false
	if len(id) <= table.MaxID {
		var err error
		if known, err = s.Chats.Runs.StopRun(r.Context(), id); err != nil {
			return err
		}
	}
	if !known {
		return s.answer(w, http.StatusOK, map[string]any{"status": false, "message": "Task with ID " + id + " not found."})
	}
	return s.answer(w, http.StatusOK, map[string]any{"status": true, "message": "Task " + id + " successfully stopped."})
}

func (s *server) stopChat(w http.ResponseWriter, r *http.Request) error {
	u, id := s.caller(r).User, r.PathValue("chat")
	if len(id) > table.MaxID {
		return fault.New(fault.NotFound, fault.TextNotFound)
	}
	if !run.Temporary(id) {
		c, ok, err := s.Chats.Store.Head(r.Context(), id)
		if err != nil {
			return err
		}
		if !ok || c.UserID != u.ID {
			return fault.New(fault.NotFound, fault.TextNotFound)
		}
	}
	stopped, err := s.Chats.Runs.Stop(r.Context(), u.ID, id)
	switch {
	case err != nil:
		return err
	case len(stopped) > 0:
		return s.answer(w, http.StatusOK, map[string]any{"status": true, "message": "Task " + stopped[0] + " successfully stopped."})
	case run.Temporary(id): // nothing is stored that would tell whose it is
		return fault.New(fault.NotFound, fault.TextNotFound)
	}
	return s.answer(w, http.StatusOK, map[string]any{"status": true, "message": "No tasks found."})
}
