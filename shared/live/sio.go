package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
	"toolrounds/shared/socketio"
	"toolrounds/shared/table"
)

// credentials is what a client shows, in its connect packet or when it joins.
type credentials struct {
	Token string `json:"token"`
	Auth  struct {
		Token string `json:"token"`
	} `json:"auth"`
}

// packet serves one packet of a Socket.IO client (spec/socket.md section 1).
func (s *Sockets) packet(ctx context.Context, connection string, p socketio.Packet) error {
	switch p.Kind {
	case socketio.Ping:
		return s.reply(ctx, connection, socketio.Packet{Kind: socketio.Pong, ID: socketio.NoID, Data: p.Data}.Encode())
	case socketio.Connect:
		return s.admitted(ctx, connection, p)
	case socketio.Disconnect, socketio.Close:
		s.forget(connection)
		if err := s.Remove(ctx, connection); err != nil {
			return err
		}
		return s.Post.Close(ctx, connection)
	case socketio.Event:
		name, args, err := p.Call()
		if err != nil {
			return nil // not an event: nobody waits for an answer
		}
		var arg json.RawMessage
		if len(args) > 0 {
			arg = args[0]
		}
		answer, err := s.event(ctx, connection, name, arg)
		if err != nil || p.ID == socketio.NoID {
			return err
		}
		return s.reply(ctx, connection, socketio.Acknowledge(p.ID, answer...))
	case socketio.Ack:
		return s.acknowledged(ctx, connection, p)
	}
	return nil // pongs and what clients do not send
}

// reply sends to a connection that spoke a moment ago; when it is gone by now, nobody misses it.
func (s *Sockets) reply(ctx context.Context, connection string, frame []byte) error {
	if err := s.send(ctx, connection, frame); err != nil {
		slog.Debug("reply", "error", err)
	}
	return nil
}

// admitted grants the default namespace, to strangers too: they may join later.
func (s *Sockets) admitted(ctx context.Context, connection string, p socketio.Packet) error {
	if p.Namespace != "" {
		return s.reply(ctx, connection, socketio.Refused(p.Namespace, "Unable to connect"))
	}
	var shown credentials
	_ = json.Unmarshal(p.Data, &shown) // whatever else it is, it is no token
	if u, ok := s.admit(ctx, shown.Token, false); ok {
		if _, err := s.join(ctx, connection, u, SocketIO); err != nil {
			return err
		}
	}
	return s.reply(ctx, connection, socketio.Connected(SessionOf(connection)))
}

// event serves an event and returns what it is acknowledged with.
func (s *Sockets) event(ctx context.Context, connection, name string, arg json.RawMessage) ([]any, error) {
	switch name {
	case "user-join":
		var shown credentials
		_ = json.Unmarshal(arg, &shown)
		u, ok := s.admit(ctx, shown.Auth.Token, false)
		if !ok {
			return nil, nil
		}
		if _, err := s.join(ctx, connection, u, SocketIO); err != nil {
			return nil, err
		}
		return []any{map[string]string{"id": u.ID, "name": u.Name}}, nil
	case "heartbeat", "usage", "events:chat":
	default:
		return nil, nil // channels, notes and what nobody knows
	}
	members, err := s.members(ctx, connection)
	if err == nil && name == "events:chat" { // another process may have changed the rooms
		members, err = s.users(ctx, connection)
	}
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		if name == "usage" {
			return nil, nil
		}
		return nil, s.reply(ctx, connection, socketio.Packet{Kind: socketio.Disconnect, ID: socketio.NoID}.Encode())
	}
	switch name {
	case "usage":
		var use struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(arg, &use) == nil && use.Model != "" && len(use.Model) <= table.MaxID {
			return nil, s.use(ctx, connection, use.Model)
		}
	case "events:chat":
		return s.room(ctx, members, arg)
	}
	return nil, nil
}

// room serves what clients tell of a chat: that they have it on screen, left it, or read it.
func (s *Sockets) room(ctx context.Context, members []Connection, arg json.RawMessage) ([]any, error) {
	var told struct {
		Chat    string `json:"chat_id"`
		Message string `json:"message_id"`
		Data    struct {
			Type string `json:"type"`
		} `json:"data"`
	}
	if json.Unmarshal(arg, &told) != nil || told.Chat == "" || len(told.Chat) > table.MaxID || run.Temporary(told.Chat) {
		return []any{false}, nil
	}
	head, ok, err := s.Chats.Head(ctx, told.Chat)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(c Connection) bool { return ok && c.User == head.UserID })
	if at < 0 {
		return []any{false}, nil
	}
	c := members[at]
	switch told.Data.Type {
	case "join", "leave":
		chats := slices.DeleteFunc(slices.Clone(c.Chats), func(id string) bool { return id == told.Chat })
		if told.Data.Type == "join" {
			chats = append(chats[max(0, len(chats)-maxRooms+1):], told.Chat)
		}
		c.Chats = chats
		if err := s.change(ctx, c); err != nil {
			return nil, err
		}
		rest := slices.Clone(members)
		rest[at] = c
		s.remember(c.ID, rest)
		s.presence(ctx, c, told.Chat)
		return []any{true}, nil
	case "last_read_at":
		if err := s.Chats.MarkRead(ctx, told.Chat); err != nil {
			return nil, err
		}
		s.tell(ctx, c.User, func(Connection) bool { return true }, map[string]any{
			"chat_id": told.Chat, "data": event.New(event.List, map[string]any{"chat_id": told.Chat, "last_read_at": s.Now().Unix()}),
		})
	}
	return []any{true}, nil
}

// maxRooms is how many chats a tab has on screen at once, and then some.
const maxRooms = 50

// presence tells the tabs in a chat's room who is there: its owner, as chats are not shared.
func (s *Sockets) presence(ctx context.Context, owner Connection, chat string) {
	s.tell(ctx, owner.User, func(c Connection) bool { return slices.Contains(c.Chats, chat) }, map[string]any{
		"chat_id": chat, "shared": true,
		"data": event.New(event.Presence, map[string]any{"users": []any{map[string]any{"id": owner.User, "name": owner.Name}}}),
	})
}

// tell sends a payload to those of a user's Socket.IO connections that it is for.
func (s *Sockets) tell(ctx context.Context, user string, to func(Connection) bool, payload map[string]any) {
	conns, err := s.Of(ctx, user)
	if err != nil {
		slog.Warn("tell", "user", user, "error", err)
		return
	}
	frame := socketio.Emit(socketio.NoID, "events", payload)
	for _, c := range conns {
		if c.Protocol == SocketIO && to(c) {
			_ = s.reply(ctx, c.ID, frame)
		}
	}
}

// acknowledged takes the answer to a question.
func (s *Sockets) acknowledged(ctx context.Context, connection string, p socketio.Packet) error {
	if p.ID == socketio.NoID {
		return nil
	}
	key := table.Asked(connection, p.ID)
	item, ok, err := table.One(ctx, s.Table, key)
	if err != nil || !ok {
		return err
	}
	args, err := p.Args()
	if err != nil {
		return nil
	}
	value := json.RawMessage("null")
	switch len(args) {
	case 0:
	case 1:
		value = args[0]
	default:
		value = json.RawMessage(table.MustJSON(args))
	}
	if _, err := s.Answer(ctx, item.String("owner"), item.String("run"), item.String("question"), value); err != nil {
		return err
	}
	_, err = s.Table.Apply(ctx, table.Delete(key))
	return err
}
