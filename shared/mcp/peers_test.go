package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The tests of this file talk to real servers. They are skipped where those are not installed:
//
//	MCP_PYTHON      a Python with `mcp` and `uvicorn` from PyPI, for the contract's server
//	MCP_EVERYTHING  dist/index.js of npm's @modelcontextprotocol/server-everything

// start runs a server until the test ends and waits until it takes connections. PORT in an argument or in the environment is its port.
func start(t *testing.T, args ...string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	for range 300 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = conn.Close()
			return "http://127.0.0.1:" + port
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the server does not start")
	return ""
}

func environment(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skip(name + " is not set")
	}
	return value
}

func TestContractServer(t *testing.T) {
	python := environment(t, "MCP_PYTHON")
	shared := os.Getenv("SHARED_DIR")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	address := start(t, python, filepath.Join(shared, "contract", "servers", "mcp_server.py"), "PORT", "key")
	c := New(Options{})
	t.Cleanup(c.Close)
	s := Server{ID: "mc", URL: address + "/mcp", AuthType: AuthBearer, Key: "key", User: "u"}
	l, err := c.List(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if l.Instructions != "Use the contract tools." || len(l.Tools) != 6 || l.Tools[0].Offered != "mc_add" {
		t.Errorf("listing %+v", l)
	}
	schemas := map[string]json.RawMessage{}
	for _, tool := range l.Tools {
		schemas[tool.Name] = tool.Parameters
	}
	for _, call := range []struct{ name, arguments, want, status string }{
		{"add", `{"a":2,"b":3}`, "5", Completed},
		{"add", `{"a":"9007199254740993","b":0}`, "9007199254740993", Completed},
		{"add", `{"a":2}`, "Field required", Failed},
		{"greet", `{"name":"Al","style":"loud","title":"Dr"}`, "HELLO DR AL", Completed},
		{"fails", `{"reason":"r"}`, "Error executing tool fails", Failed},
		{"record", ``, "{\n  \"k\": \"v\",\n  \"n\": [\n    1,\n    2\n  ]\n}", Completed},
		{"two_parts", `{}`, "{\n  \"results\": [\n    \"part one\",\n    {\n      \"part\": 2\n    }\n  ]\n}", Completed},
		{"picture", `{}`, "{\n  \"results\": []\n}", Completed},
		{"nope", `{}`, "nope", Failed},
	} {
		r, err := c.Call(t.Context(), s, Request{Name: call.name, Arguments: json.RawMessage(call.arguments), Parameters: schemas[call.name]})
		exact := r.Content == call.want || call.status == Failed && strings.Contains(r.Content, call.want)
		if err != nil || !exact || r.Status != call.status {
			t.Errorf("%s(%s): %+v, %v", call.name, call.arguments, r, err)
		}
		if pictures := len(r.Media); (call.name == "picture") != (pictures == 1) {
			t.Errorf("%s: %d media", call.name, pictures)
		}
	}
	s.Key = "wrong"
	_, err = c.List(t.Context(), s)
	var auth *AuthError
	if !errors.As(err, &auth) || auth.Status != http.StatusUnauthorized {
		t.Errorf("wrong key: %v", err)
	}
}

func TestEverythingServer(t *testing.T) {
	script := environment(t, "MCP_EVERYTHING")
	for _, transport := range []struct{ name, path string }{{"streamableHttp", "/mcp"}, {"sse", "/sse"}} {
		t.Run(transport.name, func(t *testing.T) {
			address := start(t, "node", script, transport.name)
			c := New(Options{Call: 20 * time.Second})
			t.Cleanup(c.Close)
			everything(t, c, Server{ID: "ev", URL: address + transport.path, User: "u"})
		})
	}
}

func everything(t *testing.T, c *Client, s Server) {
	l, err := c.List(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tools) < 8 || l.Instructions == "" {
		t.Errorf("listing %+v", l)
	}
	call := func(name, arguments string, change func(*Request)) Result {
		t.Helper()
		r := Request{Name: name, Arguments: json.RawMessage(arguments)}
		for _, tool := range l.Tools {
			if tool.Name == name {
				r.Parameters = tool.Parameters
			}
		}
		if change != nil {
			change(&r)
		}
		result, err := c.Call(t.Context(), s, r)
		if err != nil {
			t.Errorf("%s: %v (%v)", name, err, errors.Unwrap(err))
		}
		return result
	}
	has(t, call("echo", `{"message":"1e5 007 é"}`, nil).Content, "1e5 007 é")
	has(t, call("get-sum", `{"a":"2","b":3}`, nil).Content, "5")
	if r := call("get-tiny-image", `{}`, nil); len(r.Media) != 1 || !r.Media[0].Shown || !strings.HasPrefix(r.Media[0].DataURI, "data:image/png;base64,") {
		t.Errorf("image: %d media, %s", len(r.Media), r.Content)
	}
	if r := call("get-structured-content", `{"location":"New York"}`, nil); strings.Count(r.Content, "temperature") != 1 {
		t.Errorf("structured: %s", r.Content)
	}
	has(t, call("get-resource-reference", `{"resourceType":"Text","resourceId":1}`, nil).Content, "esource")
	has(t, call("get-resource-links", `{"count":2}`, nil).Content, "[Resource: ")
	if r := call("get-sum", `{"a":"two"}`, nil); r.Status != Failed {
		t.Errorf("wrong arguments: %+v", r)
	}
	var steps []string
	long := call("trigger-long-running-operation", `{"duration":1,"steps":4}`, func(r *Request) {
		r.Progress = func(p Progress) { steps = append(steps, fmt.Sprintf("%v/%v", p.Done, p.Total)) }
	})
	has(t, long.Content, "completed")
	if !slices.Equal(steps, []string{"1/4", "2/4", "3/4", "4/4"}) {
		t.Errorf("progress %v", steps)
	}
	asked := ""
	answered := call("trigger-elicitation-request", `{}`, func(r *Request) {
		r.Elicit = func(_ context.Context, q Question) (Answer, error) {
			asked = q.Message + strconv.Itoa(len(q.Schema))
			return Answer{Action: "accept", Content: map[string]any{"name": "Ada", "check": true}}, nil
		}
	})
	has(t, answered.Content, "Ada")
	if asked == "" {
		t.Error("nobody was asked")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err = c.Call(ctx, s, Request{Name: "trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":10,"steps":5}`)})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(started) > 3*time.Second {
		t.Errorf("cancelled: %v after %s", err, time.Since(started))
	}
}
