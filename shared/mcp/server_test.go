package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// message is a JSON-RPC message that the fake got.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	header http.Header
	path   string
	verb   string
}

// fake is an MCP server: a well-behaved one, as far as on does not say otherwise.
type fake struct {
	*httptest.Server
	// on answers a message itself when it returns true.
	on func(w http.ResponseWriter, r *http.Request, m message) bool

	mu       sync.Mutex
	log      []message
	sessions int
}

func serve(t *testing.T, on func(http.ResponseWriter, *http.Request, message) bool) *fake {
	t.Helper()
	f := &fake{on: on}
	f.Server = httptest.NewServer(http.HandlerFunc(f.handle))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fake) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := message{header: r.Header, path: r.URL.Path, verb: r.Method}
	_ = json.Unmarshal(body, &m) // a GET has none
	f.mu.Lock()
	f.log = append(f.log, m)
	f.mu.Unlock()
	if f.on != nil && f.on(w, r, m) {
		return
	}
	switch {
	case r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		f.mu.Lock()
		f.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", f.sessions))
		f.mu.Unlock()
		reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"},"instructions":"Be good."}`)
	case m.Method == "tools/list":
		reply(w, m, `{"tools":[{"name":"x","description":"d","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call":
		reply(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
	default:
		reply(w, m, `{}`)
	}
}

func reply(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// count tells how often a method was asked for.
func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.log {
		if m.Method == method || m.Method == "" && m.verb == method {
			n++
		}
	}
	return n
}

func (f *fake) messages() []message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fake) of(user string) Server {
	return Server{ID: "srv", URL: f.URL + "/mcp", User: user}
}

// short is a client that does not wait long.
func short(t *testing.T, change func(*Options)) *Client {
	t.Helper()
	o := Options{Connect: 3 * time.Second, List: 3 * time.Second, Call: 3 * time.Second, MaxBytes: 256 << 10}
	if change != nil {
		change(&o)
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// during makes an on that acts for one method only.
func during(method string, act func(w http.ResponseWriter, r *http.Request, m message)) func(http.ResponseWriter, *http.Request, message) bool {
	return func(w http.ResponseWriter, r *http.Request, m message) bool {
		if m.Method != method {
			return false
		}
		act(w, r, m)
		return true
	}
}

// events begins an answer as a stream.
func events(w http.ResponseWriter) func(data string) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	return func(data string) bool {
		_, err := fmt.Fprintf(w, "data: %s\n\n", data)
		return err == nil && control.Flush() == nil
	}
}

func answer(m message, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func has(t *testing.T, s, part string) {
	t.Helper()
	if !strings.Contains(s, part) {
		t.Errorf("%q is not in %q", part, s)
	}
}
