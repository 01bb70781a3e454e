package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestList(t *testing.T) {
	long := strings.Repeat("n", 61)
	f := serve(t, during("tools/list", func(w http.ResponseWriter, _ *http.Request, m message) {
		pages := map[string]string{
			"": `{"tools":[{"name":"b","title":"Title","inputSchema":{"type":"object","properties":{"z":{"$ref":"#/$defs/Z"},"a":{"const":9007199254740993}},
				"$defs":{"Z":{"enum":["p"]}}}},{"name":"a.b","description":"dot","inputSchema":{"type":"object","properties":{}}}],"nextCursor":"2"}`,
			"2": `{"tools":[{"name":"a_b","description":"line"},{"name":"b"},{"name":""},{"name":"` + long + `"}],"nextCursor":"3"}`,
			"3": `{"tools":[{"name":"last","inputSchema":null}],"nextCursor":"3"}`,
		}
		var p struct{ Cursor string }
		_ = json.Unmarshal(m.Params, &p)
		reply(w, m, pages[p.Cursor])
	}))
	l, err := short(t, nil).List(t.Context(), f.of("u"))
	if err != nil {
		t.Fatal(err)
	}
	if l.Instructions != "Be good." {
		t.Errorf("instructions %q", l.Instructions)
	}
	var got []string
	for _, tool := range l.Tools {
		got = append(got, tool.Name+" "+tool.Offered+" "+tool.Description+" "+string(tool.Parameters))
	}
	empty := `{"type":"object","properties":{}}`
	want := []string{
		`b srv_b Title {"type":"object","properties":{"z":{"$ref":"#/$defs/Z"},"a":{"const":9007199254740993}},"$defs":{"Z":{"enum":["p"]}}}`,
		"a.b srv_a_b dot " + empty,
		"a_b srv_a_b_889b754f line " + empty,
		long + " srv_" + long[:51] + "_ea01e825  " + empty,
		"last srv_last  " + empty,
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("tool %d:\n got %s\nwant %s", i, at(got, i), want[i])
		}
	}
	if n := f.count("tools/list"); n != 3 || len(got) != len(want) {
		t.Errorf("%d pages, %d tools", n, len(got))
	}
}

func TestEndlessList(t *testing.T) {
	n := 0 // pages come one after another
	f := serve(t, during("tools/list", func(w http.ResponseWriter, _ *http.Request, m message) {
		n++
		reply(w, m, fmt.Sprintf(`{"tools":[{"name":"t%d","description":"%s"}],"nextCursor":"%d"}`, n, strings.Repeat("d", 10<<10), n))
	}))
	_, err := short(t, nil).List(t.Context(), f.of("u"))
	var known *Error
	if !errors.As(err, &known) || known.Kind != TooLarge {
		t.Errorf("got %v after %d pages", err, n)
	}
	l, err := short(t, func(o *Options) { o.MaxTools = 5 }).List(t.Context(), f.of("u"))
	if err != nil || len(l.Tools) != 5 {
		t.Errorf("%d tools, %v", len(l.Tools), err)
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

func TestListWithoutTools(t *testing.T) {
	f := serve(t, during("initialize", func(w http.ResponseWriter, _ *http.Request, m message) {
		reply(w, m, `{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
	}))
	l, err := short(t, nil).List(t.Context(), f.of("u"))
	if err != nil || len(l.Tools) != 0 || f.count("tools/list") != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		filter []string
		want   string
	}{{nil, "abc"}, {[]string{"a", "c"}, "ac"}, {[]string{"!b"}, "ac"}, {[]string{"a", "b", "!b"}, "a"}, {[]string{" ", ""}, "abc"}, {[]string{"nope"}, ""}} {
		var got string
		for _, name := range []string{"a", "b", "c"} {
			if passes(c.filter, name) {
				got += name
			}
		}
		if got != c.want {
			t.Errorf("%q lets %q through, want %q", c.filter, got, c.want)
		}
	}
}

func TestHeadersAndSessions(t *testing.T) {
	f := serve(t, nil)
	c := short(t, nil)
	alice := Server{ID: "srv", URL: f.URL + "/mcp/", AuthType: AuthBearer, Key: "k", User: "alice",
		Headers: map[string]string{"X-Team": "red", "Mcp-Session-Id": "stolen", "Content-Type": "text/plain"}}
	bob := alice
	bob.User = "bob"
	for _, s := range []Server{alice, alice, bob, alice} {
		if _, err := c.List(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Call(t.Context(), s, Request{Name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count("initialize"); n != 2 {
		t.Errorf("%d sessions for two users", n)
	}
	for i, m := range f.messages() {
		h := m.header
		if m.path != "/mcp/" || h.Get("Authorization") != "Bearer k" || h.Get("X-Team") != "red" || h.Get("Content-Type") != "application/json" {
			t.Errorf("message %d: %s %v", i, m.path, h)
		}
		if m.Method == "initialize" {
			continue
		}
		if s := h.Get("Mcp-Session-Id"); s != "s1" && s != "s2" || h.Get("Mcp-Protocol-Version") != "2025-06-18" {
			t.Errorf("message %d (%s): session %q, version %q", i, m.Method, s, h.Get("Mcp-Protocol-Version"))
		}
	}
	c.Close()
	if n := f.count(http.MethodDelete); n != 2 {
		t.Errorf("%d sessions ended", n)
	}
}

func TestSessionsExpire(t *testing.T) {
	f := serve(t, nil)
	now := time.Unix(0, 0)
	c := short(t, func(o *Options) { o.Now = func() time.Time { return now }; o.MaxSessions = 2 })
	list := func(user string) {
		t.Helper()
		if _, err := c.List(t.Context(), f.of(user)); err != nil {
			t.Fatal(err)
		}
	}
	list("a")
	now = now.Add(29 * time.Second)
	list("a")
	now = now.Add(31 * time.Second)
	list("a")
	if n := f.count("initialize"); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
	list("b")
	list("c")
	list("a") // was the longest unused of three
	if n := f.count("initialize"); n != 5 {
		t.Errorf("%d sessions, want 5", n)
	}
}

func TestConcurrentCallsDoNotMix(t *testing.T) {
	f := serve(t, during("tools/call", func(w http.ResponseWriter, _ *http.Request, m message) {
		var p struct {
			Arguments struct{ N int }
		}
		_ = json.Unmarshal(m.Params, &p)
		tell := events(w)
		tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"progress","progress":%d}}`, p.Arguments.N))
		tell(answer(m, fmt.Sprintf(`{"content":[{"type":"text","text":"n%d"}]}`, p.Arguments.N)))
	}))
	c := short(t, nil)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			var seen []float64
			r, err := c.Call(t.Context(), f.of("u"), Request{Name: "x", Arguments: fmt.Appendf(nil, `{"n":%d}`, n),
				Progress: func(p Progress) { seen = append(seen, p.Done) }})
			if err != nil || r.Content != fmt.Sprint("n", n) || !slices.Equal(seen, []float64{float64(n)}) {
				t.Errorf("%d: %+v, progress %v, %v", n, r, seen, err)
			}
		})
	}
	all.Wait()
}

func TestRepeats(t *testing.T) {
	lost := func(status int, body string) func(http.ResponseWriter, int, message) bool {
		return func(w http.ResponseWriter, n int, m message) bool {
			if n == 1 {
				http.Error(w, body, status)
			}
			return n == 1
		}
	}
	for name, c := range map[string]struct {
		act   func(w http.ResponseWriter, n int, m message) bool // n counts the calls, from 0; true: answered
		calls int
		ok    bool
	}{
		"404":                 {lost(404, ""), 3, true},
		"404 with JSON-RPC":   {lost(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`), 3, true},
		"400 of the examples": {lost(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`), 3, true},
		"400 for another":     {lost(400, "no"), 2, false},
		"500":                 {lost(500, ""), 2, false},
		"404 for ever": {func(w http.ResponseWriter, n int, _ message) bool {
			if n > 0 {
				w.WriteHeader(404)
			}
			return n > 0
		}, 3, false},
		"died": {func(_ http.ResponseWriter, n int, _ message) bool {
			if n == 1 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := -1
			var mu sync.Mutex
			f := serve(t, func(w http.ResponseWriter, _ *http.Request, m message) bool {
				if m.Method != "tools/call" {
					return false
				}
				mu.Lock()
				n++
				turn := n
				mu.Unlock()
				return c.act(w, turn, m)
			})
			client := short(t, nil)
			if _, err := client.Call(t.Context(), f.of("u"), Request{Name: "x"}); err != nil {
				t.Fatal(err)
			}
			r, err := client.Call(t.Context(), f.of("u"), Request{Name: "x"})
			if ok := err == nil && r.Content == "ok"; ok != c.ok {
				t.Errorf("%+v, %v", r, err)
			}
			if got := f.count("tools/call"); got != c.calls {
				t.Errorf("%d calls, want %d", got, c.calls)
			}
		})
	}
}

type tokens func(s Server, rejected string) (string, error)

func (f tokens) Token(_ context.Context, s Server, rejected string) (string, error) {
	return f(s, rejected)
}

func TestOAuthTokens(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request, _ message) bool {
		if r.Header.Get("Authorization") == "Bearer good-alice" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://auth.test/meta"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	server := f.of("alice")
	server.AuthType, server.Key = AuthOAuth, "not used"
	var renewed int
	c := short(t, func(o *Options) {
		o.Tokens = tokens(func(s Server, rejected string) (string, error) {
			switch {
			case s.User == "carol":
				return "", fmt.Errorf("no token: %w", ErrSignIn)
			case s.User == "bob":
				return "bad", nil
			case rejected == "stale":
				renewed++
				return "good-" + s.User, nil
			case renewed > 0:
				return "good-" + s.User, nil
			}
			return "stale", nil
		})
	})
	if r, err := c.Call(t.Context(), server, Request{Name: "x"}); err != nil || r.Content != "ok" || renewed != 1 {
		t.Fatalf("%+v, %v, %d renewed", r, err, renewed)
	}
	for user, status := range map[string]int{"bob": 401, "carol": 0} {
		server.User = user
		_, err := c.List(t.Context(), server)
		var auth *AuthError
		if !errors.As(err, &auth) || auth.Status != status || !strings.Contains(err.Error(), "sign") {
			t.Errorf("%s: %v", user, err)
		}
		if status == 401 {
			has(t, auth.Challenge, "https://auth.test/meta")
		}
		has(t, Failure(err).Content, "sign")
	}
}

func TestCredentialsStayAtHome(t *testing.T) {
	var got http.Header
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer thief.Close()
	for name, act := range map[string]func(w http.ResponseWriter, r *http.Request, m message) bool{
		"redirect": func(w http.ResponseWriter, r *http.Request, _ message) bool {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
			return true
		},
		"SSE endpoint": func(w http.ResponseWriter, r *http.Request, _ message) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return true
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", thief.URL)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, act).of("u")
			s.AuthType, s.Key, s.Headers = AuthBearer, "secret", map[string]string{"X-Key": "secret"}
			if _, err := short(t, nil).List(t.Context(), s); err == nil {
				t.Error("no error")
			}
			if got != nil {
				t.Errorf("the thief got %v", got)
			}
		})
	}
}

// TestModernServer: the version of 2026-07-28 has no initialize and no sessions.
func TestModernServer(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request, m message) bool {
		switch {
		case m.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported","data":{"supported":["2026-07-28"]}}}`, m.ID)
		case m.Method == "server/discover":
			reply(w, m, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"New."}`)
		case r.Header.Get("Mcp-Protocol-Version") != "2026-07-28":
			w.WriteHeader(http.StatusBadRequest)
		default:
			return false
		}
		return true
	})
	c := short(t, nil)
	for range 2 {
		l, err := c.List(t.Context(), f.of("u"))
		if err != nil || l.Instructions != "New." || len(l.Tools) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		if r, err := c.Call(t.Context(), f.of("u"), Request{Name: "x"}); err != nil || r.Content != "ok" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestRefusedInitialize(t *testing.T) {
	f := serve(t, during("initialize", func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"licence expired"}}`, m.ID)
	}))
	_, err := short(t, nil).List(t.Context(), f.of("u"))
	if err == nil || err.Error() != "MCP server 'srv': licence expired" {
		t.Errorf("got %v", err)
	}
}

func TestLostCallSaysSo(t *testing.T) {
	f := serve(t, during("tools/call", func(http.ResponseWriter, *http.Request, message) { panic(http.ErrAbortHandler) }))
	_, err := short(t, nil).Call(t.Context(), f.of("u"), Request{Name: "x"})
	has(t, Failure(err).Content, "may have been carried out")
	f = serve(t, during("initialize", func(http.ResponseWriter, *http.Request, message) { panic(http.ErrAbortHandler) }))
	if _, err = short(t, nil).Call(t.Context(), f.of("u"), Request{Name: "x"}); err == nil || strings.Contains(err.Error(), "carried out") {
		t.Errorf("got %v", err)
	}
}
