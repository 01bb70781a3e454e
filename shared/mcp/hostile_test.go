package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// hostile is how servers behave that nobody should connect, and that somebody will.
var hostile = []struct {
	name string
	act  func(w http.ResponseWriter, r *http.Request, m message)
	kind Kind // of a call that ends so
}{
	{"slow to begin", func(_ http.ResponseWriter, r *http.Request, _ message) { <-r.Context().Done() }, Timeout},
	{"slow to end", func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, Timeout},
	{"huge", func(w http.ResponseWriter, _ *http.Request, m message) {
		reply(w, m, `{"tools":[],"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}]}`)
	}, TooLarge},
	{"huge event", func(w http.ResponseWriter, _ *http.Request, m message) {
		events(w)(answer(m, `{"tools":[],"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}]}`))
	}, TooLarge},
	{"endless body", func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		for err := error(nil); err == nil; _, err = w.Write(make([]byte, 4096)) {
		}
	}, TooLarge},
	{"endless events", func(w http.ResponseWriter, _ *http.Request, _ message) {
		for tell := events(w); tell(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("y", 2000) + `"}}`); {
		}
	}, TooLarge},
	{"endless comments", func(w http.ResponseWriter, _ *http.Request, _ message) {
		events(w)
		for err := error(nil); err == nil; _, err = fmt.Fprint(w, ": ping\n\n") {
		}
	}, TooLarge},
	{"silent stream", func(w http.ResponseWriter, r *http.Request, _ message) {
		events(w)(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
		<-r.Context().Done()
	}, Timeout},
	{"lying about its length", func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Length", "5000")
		reply(w, m, `{"content":[]}`)
	}, Lost},
	{"dying mid-answer", func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"con`, m.ID)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, Lost},
	{"dying in its stream", func(w http.ResponseWriter, _ *http.Request, _ message) {
		events(w)(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
		panic(http.ErrAbortHandler)
	}, Lost},
	{"ending its stream early", func(w http.ResponseWriter, _ *http.Request, _ message) { events(w) }, Lost},
	{"dying before it answers", func(http.ResponseWriter, *http.Request, message) { panic(http.ErrAbortHandler) }, Lost},
	{"HTML", func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<h1>Welcome</h1>")
	}, Protocol},
	{"broken JSON", func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,`)
	}, Protocol},
	{"wrong shapes", func(w http.ResponseWriter, _ *http.Request, m message) { reply(w, m, `{"content":"text","tools":7}`) }, Protocol},
	{"accepted without a result", func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(http.StatusAccepted) }, ""},
	{"redirecting as GET", func(w http.ResponseWriter, r *http.Request, _ message) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}, Protocol},
	{"redirecting in a circle", func(w http.ResponseWriter, r *http.Request, _ message) {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}, Protocol},
	{"redirecting to another host", func(w http.ResponseWriter, r *http.Request, _ message) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	}, Protocol},
	{"overloaded", func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(http.StatusServiceUnavailable) }, Unreachable},
	{"refusing", func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(http.StatusTeapot) }, Protocol},
}

func TestHostileServers(t *testing.T) {
	for _, h := range hostile {
		for _, method := range []string{"initialize", "tools/list", "tools/call"} {
			t.Run(h.name+"/"+method, func(t *testing.T) {
				t.Parallel()
				f := serve(t, during(method, h.act))
				limit := 20 * time.Second // which a busy machine may need for what is over in a moment otherwise
				if h.kind == Timeout || h.kind == "" {
					limit = time.Second
				}
				c := short(t, func(o *Options) { o.Connect, o.List, o.Call = limit, limit, limit })
				started := time.Now()
				var err error
				if method == "tools/call" {
					_, err = c.Call(t.Context(), f.of("u"), Request{Name: "x"})
				} else {
					_, err = c.List(t.Context(), f.of("u"))
				}
				if took := time.Since(started); took > limit+5*time.Second {
					t.Errorf("took %s", took)
				}
				var known *Error
				if !errors.As(err, &known) {
					t.Fatalf("got %v, which is no *Error", err)
				}
				has(t, err.Error(), "'srv'")
				if method == "tools/call" {
					if h.kind != "" && known.Kind != h.kind {
						t.Errorf("kind %s, want %s: %v", known.Kind, h.kind, known.Cause)
					}
					if n := f.count("tools/call"); n > 1 && h.name != "redirecting in a circle" {
						t.Errorf("called %d times", n)
					}
				}
			})
		}
	}
}

func TestNobodyThere(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, address := range map[string]string{"closed": gone.URL, "no host": "http://", "no scheme": "mcp.test/mcp", "file": "file:///etc/passwd", "broken": "http://a b"} {
		t.Run(name, func(t *testing.T) {
			_, err := short(t, nil).List(t.Context(), Server{ID: "srv", URL: address})
			var known *Error
			if !errors.As(err, &known) || known.Kind != Unreachable {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the address is told: %v", err)
			}
		})
	}
}

func TestCancelledCallTellsTheServer(t *testing.T) {
	calling := make(chan struct{})
	for name, act := range map[string]func(http.ResponseWriter, *http.Request, message){
		"before an answer": func(_ http.ResponseWriter, r *http.Request, _ message) { calling <- struct{}{}; <-r.Context().Done() },
		"in a stream": func(w http.ResponseWriter, r *http.Request, _ message) {
			events(w)(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			calling <- struct{}{}
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, during("tools/call", act))
			c := short(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-calling; cancel() }()
			_, err := c.Call(ctx, f.of("u"), Request{Name: "x"})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			var call, told message
			for _, m := range f.messages() {
				switch m.Method {
				case "tools/call":
					call = m
				case "notifications/cancelled":
					told = m
				}
			}
			has(t, string(told.Params), `"requestId":`+string(call.ID))
			if r := Failure(err); r.Status != Failed {
				t.Errorf("got %+v", r)
			}
		})
	}
}
