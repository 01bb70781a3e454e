package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/fault"
	"toolrounds/shared/live"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// The bounds of what a tool's process may send at once, and of a long poll, which must end within a buffered answer's 29 seconds.
const (
	maxEvents     = 1000
	maxEventBytes = 1 << 20
	longestPoll   = 20 * time.Second
)

// brokerRoutes let the tool container in while a tool runs (functions/toolbox/PROTOCOL.md). Open to everybody with a call's ticket.
func (s *server) brokerRoutes() []Route {
	return []Route{
		{"POST", run.BrokerPath + "/events", Open, s.withTicket(s.toolEvents)},
		{"POST", run.BrokerPath + "/call", Open, s.withTicket(s.toolAsks)},
		{"GET", run.BrokerPath + "/call/{id}", Open, s.withTicket(s.toolWaits)},
	}
}

type ticketed func(w http.ResponseWriter, r *http.Request, t run.Ticket) error

// withTicket checks the ticket, and tells the container to stop when its run is over.
func (s *server) withTicket(handle ticketed) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return fault.New(fault.Unauthorized, fault.TextUnauth)
		}
		t, err := s.Live.Redeem(r.Context(), token)
		if err != nil {
			return err
		}
		err = handle(w, r, t)
		if errors.Is(err, run.ErrOver) {
			return s.answer(w, http.StatusGone, map[string]any{"detail": "The run is over."})
		}
		return err
	}
}

func (s *server) toolEvents(w http.ResponseWriter, r *http.Request, t run.Ticket) error {
	var form struct {
		Events []struct {
			At    json.Number     `json:"at"`
			N     int             `json:"n"`
			Event json.RawMessage `json:"event"`
		} `json:"events"`
	}
	if err := s.decode(r, &form); err != nil {
		return err
	}
	if len(form.Events) > maxEvents {
		return fault.New(fault.TooLarge, "At most 1000 events at once.")
	}
	events := make([]run.Event, 0, len(form.Events))
	for _, e := range form.Events {
		if len(e.Event) > maxEventBytes {
			return fault.New(fault.TooLarge, "An event is at most 1 MB.")
		}
		var v map[string]any
		if table.Decode(e.Event, &v) != nil || v == nil {
			continue // the container passes on whatever a tool emits; only objects are events
		}
		at, _ := e.At.Float64()
		events = append(events, run.Event{At: int64(at), N: e.N, Event: v})
	}
	if err := s.Chats.Runs.Emit(r.Context(), t, events); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, map[string]any{"status": true})
}

func (s *server) toolAsks(w http.ResponseWriter, r *http.Request, t run.Ticket) error {
	var form struct {
		N       int             `json:"n"`
		Event   json.RawMessage `json:"event"`
		Timeout float64         `json:"timeout"`
	}
	if err := s.decode(r, &form); err != nil {
		return err
	}
	if len(form.Event) > maxEventBytes {
		return fault.New(fault.TooLarge, "An event is at most 1 MB.")
	}
	var e event.Event
	if table.Decode(form.Event, &e) != nil || e == nil {
		return fault.New(fault.Invalid, "A question is an object with a type.")
	}
	if _, err := s.Chats.Runs.Working(r.Context(), t); err != nil {
		return err
	}
	limit := time.Duration(min(max(form.Timeout, 1), 3600) * float64(time.Second))
	id, err := s.Live.Ask(r.Context(), t, form.N, e, limit)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, map[string]any{"id": id})
}

func (s *server) toolWaits(w http.ResponseWriter, r *http.Request, t run.Ticket) error {
	wait := longestPoll
	if n, err := strconv.ParseFloat(r.URL.Query().Get("wait"), 64); err == nil && n >= 0 && n < wait.Seconds() {
		wait = time.Duration(n * float64(time.Second))
	}
	q, err := s.Live.Await(r.Context(), t, r.PathValue("id"), wait, s.Chats.Runs.Working)
	if err != nil {
		return err
	}
	answer := map[string]any{"state": q.State}
	switch q.State {
	case live.Answered:
		answer["value"] = q.Value
	case live.Failed:
		answer["error"] = q.Problem
	}
	return s.answer(w, http.StatusOK, answer)
}
