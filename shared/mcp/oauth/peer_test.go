package oauth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/mcp"
)

// TestGuardedServer signs in at a real server: Python's fastmcp with its OAuth provider. It is skipped unless MCP_PYTHON names a Python
// with `fastmcp` from PyPI.
func TestGuardedServer(t *testing.T) {
	python := os.Getenv("MCP_PYTHON")
	if python == "" {
		t.Skip("MCP_PYTHON is not set")
	}
	server := mcp.Server{ID: "guarded", URL: start(t, python) + "/mcp", AuthType: mcp.AuthOAuth, User: "ada"}
	oauth, store := New(nil, nil), &shelf{}
	client := mcp.New(mcp.Options{Tokens: NewSource(oauth, store)})
	t.Cleanup(client.Close)
	_, err := client.List(t.Context(), server)
	var auth *mcp.AuthError
	if !errors.As(err, &auth) || auth.Status != 0 {
		t.Fatalf("before the sign-in: %v", err)
	}

	ctx := t.Context()
	where, err := oauth.Discover(ctx, server.URL, auth.Challenge)
	if err != nil {
		t.Fatal(err)
	}
	const back = "http://127.0.0.1:1/back"
	reg, err := oauth.Register(ctx, where, back, "toolrounds")
	if err != nil {
		t.Fatal(err)
	}
	try, err := Begin(where, reg, back)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(try.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	landed, err := resp.Location()
	if err != nil || !strings.HasPrefix(landed.String(), back) {
		t.Fatalf("the sign-in page answered %s, %v, %v", resp.Status, landed, err)
	}
	token, err := oauth.Finish(ctx, where, reg, try, landed.Query())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(ctx, server.ID, server.User, Grant{where, reg, token}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		r, err := client.Call(ctx, server, mcp.Request{Name: "secret"})
		if err != nil || r.Content != "42 is the answer" {
			t.Errorf("%s: %+v, %v", when, r, err)
		}
	}
	check("signed in")
	store.grant.Token.Expires = time.Now()
	check("token at its end")
	store.grant.Token.Access, store.grant.Token.Expires = "forgotten", time.Time{}
	check("token that the server does not know")
	if store.saved != 3 {
		t.Errorf("saved %d times", store.saved)
	}
	store.grant.Token = Token{Access: "forgotten", Refresh: "forgotten"}
	if _, err := client.Call(ctx, server, mcp.Request{Name: "secret"}); !errors.As(err, &auth) || auth.Status != http.StatusUnauthorized {
		t.Errorf("signed out: %v", err)
	}
}

// start runs the server until the test ends.
func start(t *testing.T, python string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, python, filepath.Join("testdata", "server.py"), port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	for range 300 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return "http://" + address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the server does not start")
	return ""
}
