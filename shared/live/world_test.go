package live

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/memory"
	"toolrounds/shared/run"
)

// posts is a gateway that remembers what it was given.
type posts struct {
	mu     sync.Mutex
	frames map[string][]string
	gone   map[string]bool
	closed []string
}

func (p *posts) Post(_ context.Context, connection string, frame []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[connection] {
		return ErrGone
	}
	p.frames[connection] = append(p.frames[connection], string(frame))
	return nil
}

func (p *posts) Close(_ context.Context, connection string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = append(p.closed, connection)
	return nil
}

func (p *posts) take(connection string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.frames[connection]
	p.frames[connection] = nil
	return got
}

// people are accounts whose token is their name.
type people struct{}

func (people) Authenticate(_ context.Context, c access.Credential, _, _ string) (access.Caller, error) {
	name := strings.TrimPrefix(c.Token, "sk-")
	if name != "ann" && name != "bob" {
		return access.Caller{}, errors.New("nobody")
	}
	return access.Caller{User: access.User{ID: name, Name: strings.ToUpper(name), Role: "user"}}, nil
}

type signing struct{}

func (signing) Signing(context.Context) ([]byte, error) { return []byte("secret"), nil }

type later struct{ s *Sockets }

func (l later) Greet(ctx context.Context, connection string) error { return l.s.greet(ctx, connection) }

type owned map[string]string

func (o owned) Head(_ context.Context, id string) (chat.Chat, bool, error) {
	user, ok := o[id]
	return chat.Chat{ID: id, UserID: user}, ok, nil
}
func (owned) MarkRead(context.Context, string) error { return nil }

type noRuns struct{}

func (noRuns) Open(context.Context, string, string) ([]string, error) { return nil, nil }
func (noRuns) Place(context.Context, string, string) (run.Place, bool, error) {
	return run.Place{}, false, nil
}

type world struct {
	*Sockets
	posts *posts
	clock time.Time
	mu    sync.Mutex
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{posts: &posts{frames: map[string][]string{}, gone: map[string]bool{}}, clock: time.Now()}
	now := func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.clock }
	service := &Service{Table: &memory.Table{}, Post: w.posts, Accounts: people{}, Keys: signing{}, Patience: DefaultPatience, Now: now}
	w.Sockets = &Sockets{Service: service, Chats: owned{"c": "ann"}, Runs: noRuns{}}
	w.Later = later{w.Sockets}
	return w
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// says sends a frame of a client and returns what it is sent.
func (w *world) says(t *testing.T, connection, frame string) []string {
	t.Helper()
	w.route(t, connection, "$default", frame, nil)
	return w.posts.take(connection)
}

func (w *world) route(t *testing.T, connection, route, body string, query map[string]string) int {
	t.Helper()
	var r Request
	r.RequestContext.ConnectionID, r.RequestContext.RouteKey, r.Body, r.QueryStringParameters = connection, route, body, query
	answer, err := w.Handle(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body != "" {
		t.Error("the emulator would send a body to the client")
	}
	return answer.StatusCode
}

var socketIO = map[string]string{"EIO": "4", "transport": "websocket"}

// tab is a Socket.IO connection of a user.
func (w *world) tab(t *testing.T, connection, user string) {
	t.Helper()
	w.route(t, connection, "$connect", "", socketIO)
	w.says(t, connection, `40{"token":"`+user+`"}`)
}

func kinds(t *testing.T, frames []string) []string {
	t.Helper()
	var out []string
	for _, f := range frames {
		var args []json.RawMessage
		var p payload
		body := f[strings.IndexAny(f, "[{"):]
		if body[0] == '[' {
			if err := json.Unmarshal([]byte(body), &args); err != nil || len(args) != 2 {
				t.Fatalf("frame %s: %v", f, err)
			}
			body = string(args[1])
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p.Data.Kind())
	}
	return out
}

func equal[T comparable](t *testing.T, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func some(names ...string) []event.Event {
	var out []event.Event
	for _, n := range names {
		out = append(out, event.New(n, map[string]any{}))
	}
	return out
}
