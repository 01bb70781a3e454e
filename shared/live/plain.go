package live

import (
	"context"
	"encoding/json"
	"log/slog"

	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// plainRequest is a message of a client of the plain protocol (docs/websocket.md).
type plainRequest struct {
	Type   string           `json:"type"` // auth, subscribe, answer, ping
	Token  string           `json:"token"`
	Chats  []string         `json:"chat_ids"` // auth, subscribe: none means all
	After  map[string]int64 `json:"after"`    // subscribe: the last number seen of each message
	Call   string           `json:"call_id"`  // answer
	Value  json.RawMessage  `json:"value"`
	Echoed json.RawMessage  `json:"id"` // of any message; its answer carries it
}

// maxChats is how many chats a plain client may name.
const maxChats = 50

// plain serves a message of the plain protocol.
func (s *Sockets) plain(ctx context.Context, connection, body string) error {
	var r plainRequest
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return s.say(ctx, connection, r, map[string]any{"type": "error", "detail": "A message is a JSON object with a type."})
	}
	if len(r.Chats) > maxChats {
		return s.say(ctx, connection, r, map[string]any{"type": "error", "detail": "At most 50 chats."})
	}
	if r.Type == "ping" {
		return s.say(ctx, connection, r, map[string]any{"type": "pong"})
	}
	if r.Type == "auth" {
		u, ok := s.admit(ctx, r.Token, true)
		if !ok {
			if err := s.say(ctx, connection, r, map[string]any{"type": "error", "status": 401, "detail": "Your session has expired or the token is invalid. Please sign in again."}); err != nil {
				return err
			}
			return s.Post.Close(ctx, connection)
		}
		c, err := s.join(ctx, connection, u, Plain)
		if err != nil {
			return err
		}
		if len(r.Chats) > 0 {
			c.Chats = r.Chats
			if err := s.change(ctx, c); err != nil {
				return err
			}
			s.remember(connection, []Connection{c})
		}
		return s.say(ctx, connection, r, map[string]any{"type": "ready", "session_id": c.Session, "user": map[string]string{"id": u.ID, "name": u.Name}})
	}
	members, err := s.members(ctx, connection)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return s.say(ctx, connection, r, map[string]any{"type": "error", "status": 401, "detail": "Not authenticated"})
	}
	switch c := members[0]; r.Type {
	case "subscribe":
		return s.subscribe(ctx, c, r)
	case "answer":
		value := r.Value
		if value == nil {
			value = json.RawMessage("null")
		}
		accepted := false
		if run, question, ok := splitCall(r.Call); ok {
			if accepted, err = s.Answer(ctx, c.User, run, question, value); err != nil {
				return err
			}
		}
		return s.say(ctx, connection, r, map[string]any{"type": "answered", "call_id": r.Call, "accepted": accepted})
	}
	return s.say(ctx, connection, r, map[string]any{"type": "error", "detail": "Unknown type: use auth, subscribe, answer or ping."})
}

func (s *Sockets) say(ctx context.Context, connection string, r plainRequest, answer map[string]any) error {
	if r.Echoed != nil {
		answer["id"] = r.Echoed
	}
	return s.reply(ctx, connection, mustEncode(answer))
}

// subscribe changes what a connection listens to, and sends what it has missed of the messages that are being made.
func (s *Sockets) subscribe(ctx context.Context, c Connection, r plainRequest) error {
	c.Chats = r.Chats
	if err := s.change(ctx, c); err != nil {
		return err
	}
	s.remember(c.ID, []Connection{c})
	if err := s.say(ctx, c.ID, r, map[string]any{"type": "subscribed", "chat_ids": orEmpty(r.Chats), "session_id": c.Session}); err != nil {
		return err
	}
	for _, chat := range r.Chats {
		if len(chat) > table.MaxID {
			continue
		}
		runs, err := s.Runs.Open(ctx, c.User, chat)
		if err != nil {
			return err
		}
		for _, id := range runs {
			place, ok, err := s.Runs.Place(ctx, chat, id)
			if err != nil {
				return err
			}
			if ok {
				s.catchUp(ctx, c, place, r.After[place.Message])
			}
		}
	}
	return nil
}

// catchUp sends a connection what it has not seen of a run's numbered events.
func (s *Sockets) catchUp(ctx context.Context, c Connection, place run.Place, seq int64) {
	missed, _, err := s.after(ctx, place.Run, seq)
	if err != nil {
		slog.Warn("catch up", "run", place.Run, "user", c.User, "error", err)
		return
	}
	for _, frame := range plainFrames(place, missed) {
		if s.send(ctx, c.ID, frame.raw) != nil {
			return
		}
	}
}

func orEmpty(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}
