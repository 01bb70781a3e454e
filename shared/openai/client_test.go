package openai

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// provider serves one handler and gives a client for it and the number of requests so far.
func provider(t *testing.T, cfg Config, h http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	cfg.BaseURL = server.URL + "/v1"
	return New(cfg), &n
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func TestRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, sse("stop", saying("x")))
	}))
	defer server.Close()
	c := New(Config{BaseURL: server.URL + "/v1/?api-version=7", Key: "k", Headers: map[string]string{"X-Team": "a", "User-Agent": "b"}})
	if _, err := c.Stream(t.Context(), []byte(`{"n":1}`), StreamOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if got.URL.String() != "/v1/chat/completions?api-version=7" || string(body) != `{"n":1}` {
		t.Errorf("%s with %s", got.URL, body)
	}
	for name, want := range map[string]string{"Authorization": "Bearer k", "X-Team": "a", "User-Agent": "b", "Content-Type": "application/json", "Accept-Encoding": "identity"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
}

func TestStatusErrors(t *testing.T) {
	tests := []struct {
		name, body, message string
		status              int
	}{
		{"message", `{"error":{"message":"model down","type":"x"}}`, "model down", 500},
		{"error as text", `{"error":"no such model"}`, "no such model", 404},
		{"detail", `{"detail":"Unauthorized"}`, "Unauthorized", 401},
		{"list", `[{"error":{"message":"bad key"}}]`, "bad key", 400},
		{"nested", `{"error":{"error":{"message":"deep"}}}`, "deep", 400},
		{"text", "slow\ndown", "slow down", 429},
		{"page", "<html>Bad Gateway</html>", "<html>Bad Gateway</html>", 500},
		{"nothing", "", "Not Found", 404},
		{"unknown status", "", "no message", 599},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, n := provider(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			round, err := c.Stream(t.Context(), nil, StreamOptions{}, nil)
			var e *StatusError
			if !errors.As(err, &e) || e.Status != test.status || e.Message != test.message || string(e.Body) != test.body {
				t.Errorf("stream: %#v", err)
			}
			if round.Finish != FinishError || round.Err != err {
				t.Errorf("round %+v", round)
			}
			whole, err := c.Complete(t.Context(), nil)
			if !errors.As(err, &e) || whole.Status != test.status || string(whole.Body) != test.body {
				t.Errorf("complete: %#v, %#v", whole, err)
			}
			raw, err := c.Do(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Body.Close()
			if body, _ := io.ReadAll(raw.Body); raw.StatusCode != test.status || string(body) != test.body {
				t.Errorf("raw: %d %s", raw.StatusCode, body)
			}
			if n.Load() != 3 {
				t.Errorf("%d requests for three calls", n.Load())
			}
		})
	}
}

func TestCutConnection(t *testing.T) {
	for _, how := range []string{"cut", "reset"} {
		t.Run(how, func(t *testing.T) {
			c, n := provider(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "data: "+hi+"\n\n")
				flush(w)
				time.Sleep(10 * time.Millisecond)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					panic(err)
				}
				if how == "reset" {
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				conn.Close()
			})
			round, err := c.Stream(t.Context(), nil, StreamOptions{}, nil)
			var e *TransportError
			if !errors.As(err, &e) || round.Text() != "hi" || round.Finish != FinishError || n.Load() != 1 {
				t.Errorf("%q, %v, %d requests", round.Text(), err, n.Load())
			}
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := New(Config{BaseURL: "http://" + l.Addr().String(), Retry: &RetryPolicy{Max: 1, Base: time.Millisecond, Total: time.Second}})
	round, err := c.Stream(t.Context(), nil, StreamOptions{}, nil)
	var e *TransportError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "refused") || round.Finish != FinishError {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{BaseURL: "://"}).Complete(t.Context(), nil); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	const bound = 40 * time.Millisecond
	silent := func(start string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if start != "" {
				_, _ = io.WriteString(w, start)
			}
			flush(w)
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}
	}
	tests := []struct {
		name, start, text string
		cfg               Config
		first             bool
	}{
		{"no body", "", "", Config{FirstByte: bound}, true},
		{"silence in the middle", "data: " + hi + "\n\n", "hi", Config{FirstByte: time.Minute, Idle: bound}, false},
		{"the first bound does not go on", "data: " + hi + "\n\n", "hi", Config{FirstByte: bound, Idle: 2 * bound}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, _ := provider(t, test.cfg, silent(test.start))
			round, err := c.Stream(t.Context(), nil, StreamOptions{}, nil)
			var e *TimeoutError
			if !errors.As(err, &e) || e.First != test.first || round.Text() != test.text || !e.Timeout() {
				t.Errorf("%q, %v", round.Text(), err)
			}
		})
	}
	t.Run("no header", func(t *testing.T) {
		c, _ := provider(t, Config{FirstByte: bound}, func(_ http.ResponseWriter, r *http.Request) {
			select { // the body is not read, so the server does not notice that the client has gone
			case <-r.Context().Done():
			case <-time.After(10 * bound):
			}
		})
		_, err := c.Complete(t.Context(), nil)
		var e *TimeoutError
		if !errors.As(err, &e) || !e.First || e.After != bound {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a slow sink is no silence", func(t *testing.T) {
		c, _ := provider(t, Config{Idle: bound}, answer(sse("stop", saying("a"), saying("b"))))
		_, err := c.Stream(t.Context(), nil, StreamOptions{}, func(Delta) error { time.Sleep(2 * bound); return nil })
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("cancelled by the caller", func(t *testing.T) {
		c, _ := provider(t, Config{}, silent("data: "+hi+"\n\n"))
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		round, err := c.Stream(ctx, nil, StreamOptions{}, func(Delta) error { cancel(stopped); return nil })
		if !errors.Is(err, stopped) || round.Text() != "hi" {
			t.Errorf("%q, %v", round.Text(), err)
		}
	})
}

func TestCompressed(t *testing.T) {
	body := sse("stop", saying("hi"))
	pack := func(w io.WriteCloser, b *bytes.Buffer) string {
		_, _ = io.WriteString(w, body)
		w.Close()
		return b.String()
	}
	var g, z bytes.Buffer
	zipped, deflated := pack(gzip.NewWriter(&g), &g), pack(zlib.NewWriter(&z), &z)
	tests := []struct{ name, encoding, body, fail string }{
		{"gzip", "gzip", zipped, ""},
		{"gzip, no header", "", zipped, ""},
		{"only the header", "gzip", body, ""},
		{"deflate", "deflate", deflated, ""},
		{"unknown", "br", body, "content encoding br is not supported"},
		{"broken", "deflate", "xx", "unpack the answer"},
		{"cut", "gzip", zipped[:len(zipped)/2], "connection to the model failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, _ := provider(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				_, _ = io.WriteString(w, test.body)
			})
			round, err := c.Stream(t.Context(), nil, StreamOptions{}, nil)
			if test.fail == "" && (err != nil || round.Text() != "hi") {
				t.Errorf("%q, %v", round.Text(), err)
			}
			if test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	const body = `{"choices":[{"message":{"content":"<think>x</think>hi","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}}],"usage":{"total_tokens":3}}`
	c, _ := provider(t, Config{}, answer(body))
	whole, err := c.Complete(t.Context(), nil)
	if err != nil || string(whole.Body) != body || whole.Status != 200 {
		t.Fatalf("%+v, %v", whole, err)
	}
	r := whole.Round(StreamOptions{PriorCallIDs: []string{"a"}, NewID: counter()})
	want := []Call{{ID: generated(1), Name: "f", Arguments: "{}"}}
	if r.Err != nil || r.Text() != "hi" || r.Reasoning() != "x" || !reflect.DeepEqual(r.Calls, want) || r.Usage["total_tokens"] != json.Number("3") {
		t.Errorf("%+v", r)
	}
	c, _ = provider(t, Config{}, answer(`{"choices":[`))
	whole, err = c.Complete(t.Context(), nil)
	var e *FormatError
	if err != nil || !errors.As(whole.Round(StreamOptions{}).Err, &e) {
		t.Errorf("%v, %+v", err, whole.Round(StreamOptions{}))
	}
}

func TestModels(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"standard", `{"object":"list","data":[{"id":"a","created":12345678901234567890},{"id":""},{"x":1},7]}`, `[{"created":12345678901234567890,"id":"a"}]`},
		{"empty", `{"data":[]}`, `[]`},
		{"Ollama", `{"models":[{"name":"a","size":1}]}`, `[{"id":"a","name":"a","size":1}]`},
		{"bare", `[{"model":"a"},"b"]`, `[{"id":"a","model":"a"},{"id":"b"}]`},
		{"no list", `{"data":null}`, ""},
		{"no JSON", `<html>`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, _ := provider(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/v1/models" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				_, _ = io.WriteString(w, test.body)
			})
			models, err := c.Models(t.Context())
			var e *FormatError
			if test.want == "" {
				if !errors.As(err, &e) {
					t.Errorf("got %v, %v", models, err)
				}
				return
			}
			if got, _ := json.Marshal(models); err != nil || string(got) != test.want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// The connection of a finished stream serves the next request.
func TestConnectionReuse(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(answer(sse("stop", saying("x"))))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := New(Config{BaseURL: server.URL, HTTP: server.Client()})
	for range 3 {
		if _, err := c.Stream(t.Context(), nil, StreamOptions{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for three requests one after another", n)
	}
}
