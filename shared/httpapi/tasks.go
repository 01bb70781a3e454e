package httpapi

import (
	"net/http"

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

// chatTasks tells which of the caller's runs on a chat are not closed; of a chat that is unknown or somebody else's, none.
func (s *server) chatTasks(w http.ResponseWriter, r *http.Request) error {
	ids := []string{}
	if id := r.PathValue("chat"); len(id) <= table.MaxID {
		var err error
		if ids, err = s.Chats.Runs.Open(r.Context(), s.caller(r).User.ID, id); err != nil {
			return err
		}
	}
	return s.answer(w, http.StatusOK, map[string]any{"task_ids": ids})
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
