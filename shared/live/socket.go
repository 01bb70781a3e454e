package live

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/run"
	"toolrounds/shared/socketio"
)

// Chats tells whose a chat is.
type Chats interface {
	Head(ctx context.Context, id string) (chat.Chat, bool, error)
	MarkRead(ctx context.Context, id string) error
}

// Runs are the runs that a plain client may catch up with.
type Runs interface {
	Open(ctx context.Context, user, chat string) ([]string, error)
	Place(ctx context.Context, chat, run string) (run.Place, bool, error)
}

// Later calls the socket function again, after the connection is made: nothing can be sent to it before.
type Later interface {
	Greet(ctx context.Context, connection string) error
}

// Sockets serves the WebSocket API: connections and the frames of their clients. Frames of one connection may be served at once and
// in any order; nothing here depends on it.
type Sockets struct {
	*Service
	Chats Chats
	Runs  Runs
	Later Later

	mu    sync.Mutex
	known map[string][]Connection // connections whose users this process knows
}

// Request is what the socket function is invoked with: an event of the gateway, or its own call to greet.
type Request struct {
	events.APIGatewayWebsocketProxyRequest
	Greet string `json:"greet,omitempty"`
}

// The times that clients are told (milliseconds). A client takes a connection for dead when no ping comes for both together. The pings
// come from the schedule every few minutes (Ping), which also keeps the gateway from closing a silent connection after ten; two hours
// is as long as the gateway lets any connection live.
const (
	pingInterval = 240_000
	pingTimeout  = 7_200_000
	maxPayload   = 32 << 10 // of a client's frame, by the gateway
)

// Handle serves one request. The body of an answer never reaches a client; the status decides over $connect.
func (s *Sockets) Handle(ctx context.Context, r Request) (events.APIGatewayProxyResponse, error) {
	if r.Greet != "" {
		return status(http.StatusOK), s.greet(ctx, r.Greet)
	}
	connection := r.RequestContext.ConnectionID
	switch r.RequestContext.RouteKey {
	case "$connect":
		return status(s.connect(ctx, connection, r.QueryStringParameters)), nil
	case "$disconnect":
		s.forget(connection)
		return status(http.StatusOK), s.Remove(ctx, connection)
	}
	if err := s.frame(ctx, connection, r.Body); err != nil {
		slog.Warn("serve frame", "error", err)
	}
	return status(http.StatusOK), nil
}

func status(code int) events.APIGatewayProxyResponse {
	return events.APIGatewayProxyResponse{StatusCode: code}
}

// connect decides whether a connection may be made. Socket.IO clients bring their token later, and may have none yet. A plain client
// may bring it now, and is refused when it is bad.
func (s *Sockets) connect(ctx context.Context, connection string, query map[string]string) int {
	if query["EIO"] != "" || query["transport"] != "" {
		if query["EIO"] != "4" || query["transport"] != "websocket" {
			return http.StatusBadRequest
		}
		if err := s.Later.Greet(ctx, connection); err != nil {
			slog.Error("greet later", "error", err)
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	token, given := query["token"]
	if !given {
		return http.StatusOK
	}
	u, ok := s.admit(ctx, token, true)
	if !ok {
		return http.StatusUnauthorized
	}
	if _, err := s.join(ctx, connection, u, Plain); err != nil {
		slog.Error("join", "user", u.ID, "error", err)
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// greet opens the Engine.IO connection. It may come before the gateway knows the connection.
func (s *Sockets) greet(ctx context.Context, connection string) error {
	hello := socketio.Opening(socketio.Handshake{
		SID: SessionOf("engine:" + connection), PingInterval: pingInterval, PingTimeout: pingTimeout, MaxPayload: maxPayload,
	})
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := s.Post.Post(ctx, connection, hello)
		if err == nil || pause >= 500*time.Millisecond && errors.Is(err, ErrGone) {
			return nil // greeted, or gone before it was
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// frame serves one frame, of whichever protocol: plain frames are JSON objects.
func (s *Sockets) frame(ctx context.Context, connection, body string) error {
	if len(body) > 0 && body[0] == '{' {
		return s.plain(ctx, connection, body)
	}
	p, err := socketio.Parse(body)
	if err != nil {
		slog.Debug("bad frame", "error", err)
		return nil
	}
	return s.packet(ctx, connection, p)
}

// join makes a connection one of a user's.
func (s *Sockets) join(ctx context.Context, connection string, u access.User, protocol Protocol) (Connection, error) {
	for _, c := range s.cached(connection) {
		if c.User == u.ID {
			return c, nil
		}
	}
	c := Connection{ID: connection, User: u.ID, Name: u.Name, Session: SessionOf(connection), Protocol: protocol, Since: s.Now().UnixMilli()}
	if err := s.Add(ctx, c); err != nil {
		return Connection{}, err
	}
	s.remember(connection, append(s.cached(connection), c))
	return c, nil
}

// members are the users of a connection; none for a stranger.
func (s *Sockets) members(ctx context.Context, connection string) ([]Connection, error) {
	if known := s.cached(connection); known != nil {
		return known, nil
	}
	all, err := s.users(ctx, connection)
	if err == nil && all != nil {
		s.remember(connection, all)
	}
	return all, err
}

// maxKnown bounds what a process remembers; then it begins anew.
const maxKnown = 10_000

func (s *Sockets) cached(connection string) []Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[connection]
}

func (s *Sockets) remember(connection string, all []Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[string][]Connection{}
	}
	s.known[connection] = all
}

func (s *Sockets) forget(connection string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, connection)
}
