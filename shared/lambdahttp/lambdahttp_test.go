package lambdahttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"toolrounds/shared/lambdahttp"
)

// event is the recorded one, changed by edit.
func event(t *testing.T, edit func(*events.APIGatewayProxyRequest)) events.APIGatewayProxyRequest {
	t.Helper()
	raw, err := os.ReadFile("testdata/completion.json")
	if err != nil {
		t.Fatal(err)
	}
	var e events.APIGatewayProxyRequest
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&e)
	}
	return e
}

type answer struct {
	status  int
	header  http.Header
	cookies []string
	body    string
	err     error // of the body
}

// both serves the event streamed and buffered.
func both(t *testing.T, h http.Handler, e events.APIGatewayProxyRequest, check func(t *testing.T, a answer, streamed bool)) {
	t.Helper()
	t.Run("streamed", func(t *testing.T) {
		out, err := lambdahttp.Stream(h)(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(out.Body)
		out.Close()
		check(t, answer{out.StatusCode, out.MultiValueHeaders, out.Cookies, string(body), err}, true)
	})
	t.Run("buffered", func(t *testing.T) {
		out, err := lambdahttp.Buffered(h)(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header(out.MultiValueHeaders)
		check(t, answer{out.StatusCode, header, header["Set-Cookie"], out.Body, nil}, false)
	})
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var body string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = r, string(b)
	})
	both(t, h, event(t, nil), func(t *testing.T, a answer, _ bool) {
		if a.status != 200 || a.body != "" || a.err != nil {
			t.Errorf("a handler that writes nothing: %+v", a)
		}
		if got.Method != "POST" || got.URL.EscapedPath() != "/api/v1/chats/a%2Fb%23c%20d/%C3%A4" || got.URL.Path != "/api/v1/chats/a/b#c d/ä" {
			t.Errorf("%s %s (%s)", got.Method, got.URL.EscapedPath(), got.URL.Path)
		}
		if q := got.URL.Query(); !slices.Equal(q["q"], []string{"a", "b"}) || q.Get("text") != "a&b=c d+e" || len(q) != 2 {
			t.Errorf("query %v", q)
		}
		if got.RequestURI != got.URL.RequestURI() {
			t.Errorf("request URI %s", got.RequestURI)
		}
		if body != `{"text":"ä"}` || got.ContentLength != int64(len(body)) {
			t.Errorf("body %q, %d bytes", body, got.ContentLength)
		}
		if !slices.Equal(got.Header["X-List"], []string{"one", "two"}) || got.Header.Get("authorization") != "Bearer sk-test" || got.Header.Get("Host") != "" {
			t.Errorf("headers %v", got.Header)
		}
		if c, err := got.Cookie("theme"); err != nil || c.Value != "dark" {
			t.Errorf("cookie %v, %v", c, err)
		}
		if ip, _, err := net.SplitHostPort(got.RemoteAddr); ip != "203.0.113.7" || err != nil {
			t.Errorf("remote address %s", got.RemoteAddr)
		}
		if got.Host != "abc123.execute-api.eu-central-1.amazonaws.com" {
			t.Errorf("host %s", got.Host)
		}
		want := lambdahttp.Gateway{
			RequestID: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", Stage: "v1", Domain: got.Host, SourceIP: "203.0.113.7",
			BaseURL: "https://abc123.execute-api.eu-central-1.amazonaws.com/v1",
		}
		if g, ok := lambdahttp.From(got.Context()); !ok || g != want {
			t.Errorf("gateway %+v", g)
		}
		if got.Context().Err() == nil {
			t.Error("the request's context outlives its answer")
		}
	})
}

func TestRoutesEscapedIDs(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/chats/{id}/messages/{message}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q", r.PathValue("id"), r.PathValue("message"))
	})
	for path, want := range map[string]string{
		"/api/v1/chats/a%2Fb/messages/x":     `"a/b" "x"`,
		"/api/v1/chats/a b/messages/ä?c":     `"a b" "ä?c"`, // as a gateway passes it that decodes
		"/api/v1/chats/100%/messages/%":      `"100%" "%"`,
		"/api/v1/chats/a%20b/messages/x#y":   `"a b" "x#y"`,
		"/api/v1/chats/a+b:c@d/messages/x~y": `"a+b:c@d" "x~y"`,
		"/api/v1/chats/%25/messages/x":       `"%" "x"`,
		"api/v1/chats/a/messages/b":          `"a" "b"`,
	} {
		both(t, mux, event(t, func(e *events.APIGatewayProxyRequest) { e.Path = path }), func(t *testing.T, a answer, _ bool) {
			if a.status != 200 || a.body != want {
				t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*events.APIGatewayProxyRequest)
		want string
	}{
		"custom domain": {func(e *events.APIGatewayProxyRequest) { e.RequestContext.DomainName = "tools.example.org" }, "https://tools.example.org"},
		"none":          {func(e *events.APIGatewayProxyRequest) { e.RequestContext.DomainName = "" }, ""},
		"forged host": {func(e *events.APIGatewayProxyRequest) { e.MultiValueHeaders["Host"] = []string{"evil.example"} },
			"https://abc123.execute-api.eu-central-1.amazonaws.com/v1"},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g, _ := lambdahttp.From(r.Context()); g.BaseURL != c.want {
				t.Errorf("%s: base URL %q, want %q", name, g.BaseURL, c.want)
			}
		})
		both(t, h, event(t, c.edit), func(*testing.T, answer, bool) {})
	}
	if _, ok := lambdahttp.From(t.Context()); ok {
		t.Error("a gateway where there is none")
	}
}

func TestSingleValues(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Query().Get("q"), r.Header.Get("X-List"))
	})
	e := event(t, func(e *events.APIGatewayProxyRequest) {
		e.MultiValueHeaders, e.MultiValueQueryStringParameters = nil, nil
	})
	both(t, h, e, func(t *testing.T, a answer, _ bool) {
		if a.body != "btwo" {
			t.Errorf("%q", a.body)
		}
	})
}

func TestAnswer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("X-Many", "1")
		w.Header().Add("X-Many", "2")
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot) // too late
		w.Header().Set("X-Late", "1")
		io.WriteString(w, "<p>ä</p>")
	})
	both(t, h, event(t, nil), func(t *testing.T, a answer, streamed bool) {
		if a.status != http.StatusCreated || a.body != "<p>ä</p>" || !slices.Equal(a.header["X-Many"], []string{"1", "2"}) {
			t.Errorf("%+v", a)
		}
		if !slices.Equal(a.cookies, []string{"a=1", "b=2"}) || streamed && a.header["Set-Cookie"] != nil {
			t.Errorf("cookies %v, headers %v", a.cookies, a.header)
		}
		if streamed && a.header["X-Late"] != nil {
			t.Error("a header that was set after the status went out")
		}
	})
	for method, write := range map[string]int{"HEAD": 200, "GET": http.StatusNoContent, "PUT": http.StatusNotModified} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(write)
			if n, err := io.WriteString(w, "nothing"); n != 7 || err != nil {
				t.Errorf("%s: %d, %v", method, n, err)
			}
		})
		both(t, h, event(t, func(e *events.APIGatewayProxyRequest) { e.HTTPMethod = method }), func(t *testing.T, a answer, _ bool) {
			if a.status != write || a.body != "" || a.err != nil {
				t.Errorf("%s: %+v", method, a)
			}
		})
	}
	detect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html></html>") })
	both(t, detect, event(t, nil), func(t *testing.T, a answer, _ bool) {
		if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("type %v", a.header)
		}
	})
}

func TestBinary(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte{0xff, 0, 1}) })
	out, err := lambdahttp.Buffered(h)(t.Context(), event(t, nil))
	if err != nil || !out.IsBase64Encoded || out.Body != "/wAB" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestBadEvent(t *testing.T) {
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("called") })
	both(t, h, event(t, func(e *events.APIGatewayProxyRequest) { e.Body = "?" }), func(t *testing.T, a answer, _ bool) {
		if a.status != 400 || a.body != `{"detail":"Bad Request"}` {
			t.Errorf("%+v", a)
		}
	})
}

func TestPanic(t *testing.T) {
	before := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "17")
		panic("before")
	})
	both(t, before, event(t, nil), func(t *testing.T, a answer, _ bool) {
		if a.status != 500 || a.body != `{"detail":"Internal Server Error"}` || a.header.Get("Content-Length") != "" || a.err != nil {
			t.Errorf("%+v", a)
		}
	})
	amid := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	both(t, amid, event(t, nil), func(t *testing.T, a answer, streamed bool) {
		if streamed && (a.status != 200 || a.body != "half" || a.err == nil) || !streamed && a.status != 500 {
			t.Errorf("%+v", a)
		}
	})
}

// TestPrelude reads what the Lambda runtime sends: JSON, eight zero bytes, the body.
func TestPrelude(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "body") })
	out, err := lambdahttp.Stream(h)(t.Context(), event(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	prelude, body, ok := bytes.Cut(raw, make([]byte, 8))
	var head struct{ StatusCode int }
	if err := json.Unmarshal(prelude, &head); !ok || err != nil || head.StatusCode != 200 || string(body) != "body" {
		t.Errorf("%q, %v", raw, err)
	}
}

// TestStreams checks that each write arrives while the handler still runs.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			for i := range 3 {
				time.Sleep(time.Second)
				fmt.Fprintf(w, "%d;", i)
			}
		})
		start := time.Now()
		out, err := lambdahttp.Stream(h)(t.Context(), event(t, nil))
		if err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		for i := range 3 {
			p := make([]byte, 10)
			n, err := out.Body.Read(p)
			if string(p[:n]) != fmt.Sprintf("%d;", i) || err != nil || time.Since(start) != time.Duration(i+1)*time.Second {
				t.Errorf("%q, %v after %v", p[:n], err, time.Since(start))
			}
		}
		if _, err := out.Body.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
	})
}

// TestReaderLeaves checks that a handler learns that nobody reads, and that Close waits for its last words, but not for ever.
func TestReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := io.WriteString(w, "x"); err != nil {
					break
				}
			}
			<-r.Context().Done()
			time.Sleep(time.Second)
			ended = true
		})
		out, err := lambdahttp.Stream(h)(t.Context(), event(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		out.Body.Read(make([]byte, 1))
		out.Close()
		if !ended {
			t.Error("Close did not wait")
		}
		hangs := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			time.Sleep(time.Hour)
		})
		out, err = lambdahttp.Stream(hangs)(t.Context(), event(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		out.Close()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Close took %v", d)
		}
		time.Sleep(2 * time.Hour) // the bubble ends with its goroutines
	})
}

// TestDeadline has a reader that neither reads nor closes: the write ends with Lambda's time, also that of a panic's answer.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.HandlerFunc{
			"write": func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.WriteString(w, "x"); err == nil {
					t.Error("a write that nobody read")
				}
			},
			"panic": func(http.ResponseWriter, *http.Request) { panic("early") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			out, err := lambdahttp.Stream(h)(ctx, event(t, nil))
			if err != nil {
				t.Fatal(name, err)
			}
			time.Sleep(2 * time.Minute)
			if _, err := io.ReadAll(out.Body); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the body ends with %v", name, err)
			}
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Hour) })
		if _, err := lambdahttp.Stream(silent)(ctx, event(t, nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a handler that says nothing: %v", err)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestLargeBody(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", 1<<17)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, want) })
	both(t, h, event(t, nil), func(t *testing.T, a answer, _ bool) {
		if a.body != want {
			t.Errorf("%d bytes", len(a.body))
		}
	})
}
