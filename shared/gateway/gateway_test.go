package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"toolrounds/shared/live"
)

// platform answers requests with the statuses it is given, the last one again and again, and remembers what it was asked.
type platform struct {
	mu       sync.Mutex
	statuses []int
	kind     string // X-Amzn-ErrorType of what is no success
	asked    []string
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	p.asked = append(p.asked, fmt.Sprintf("%s %s %s%s", r.Method, r.URL.EscapedPath(), r.Header.Get("X-Amz-Invocation-Type"), body))
	status := p.statuses[0]
	if len(p.statuses) > 1 {
		p.statuses = p.statuses[1:]
	}
	if status >= 300 && p.kind != "" {
		w.Header().Set("X-Amzn-ErrorType", p.kind)
	}
	w.WriteHeader(status)
}

func start(t *testing.T, kind string, statuses ...int) (*platform, aws.Config, string) {
	t.Helper()
	p := &platform{statuses: statuses, kind: kind}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, aws.Config{
		Region: "eu-north-1", Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""), BaseEndpoint: &s.URL,
	}, s.URL
}

func TestPost(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		statuses   []int
		tries      int
		gone, ok   bool
	}{
		{name: "delivered", statuses: []int{200}, tries: 1, ok: true},
		{name: "gone, by name", kind: "GoneException", statuses: []int{410}, tries: 1, gone: true},
		{name: "gone, by status alone", statuses: []int{410}, tries: 1, gone: true},
		{name: "throttled once", kind: "LimitExceededException", statuses: []int{429, 200}, tries: 2, ok: true},
		{name: "an outage for a moment", statuses: []int{503, 200}, tries: 2, ok: true},
		{name: "an outage is not tried for long", statuses: []int{503}, tries: 2},
		{name: "too large", kind: "PayloadTooLargeException", statuses: []int{413}, tries: 1},
		{name: "not allowed", kind: "ForbiddenException", statuses: []int{403}, tries: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, cfg, url := start(t, c.kind, c.statuses...)
			err := New(cfg, url+"/stage").Post(t.Context(), "a=", []byte(`42["x"]`))
			if errors.Is(err, live.ErrGone) != c.gone || (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			if len(p.asked) != c.tries || p.asked[0] != `POST /stage/@connections/a%3D 42["x"]` {
				t.Errorf("asked %q", p.asked)
			}
		})
	}
}

func TestClose(t *testing.T) {
	p, cfg, url := start(t, "", 204, 410)
	g := New(cfg, url)
	if err := g.Close(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := g.Close(t.Context(), "a"); !errors.Is(err, live.ErrGone) {
		t.Errorf("closed twice: %v", err)
	}
	if want := "DELETE /@connections/a "; p.asked[0] != want {
		t.Errorf("asked %q, want %q", p.asked[0], want)
	}
}

// A connection is given up when its post has no more time, not before and not after.
func TestPostEnds(t *testing.T) {
	_, cfg, url := start(t, "", 200)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(cfg, url).Post(ctx, "a", []byte("2")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGreet(t *testing.T) {
	p, cfg, _ := start(t, "", 202)
	if err := NewSelf(cfg, "socket").Greet(t.Context(), "a="); err != nil {
		t.Fatal(err)
	}
	if want := `POST /2015-03-31/functions/socket/invocations Event{"greet":"a="}`; p.asked[0] != want {
		t.Errorf("asked %q, want %q", p.asked[0], want)
	}
	_, cfg, _ = start(t, "AccessDeniedException", 403)
	if err := NewSelf(cfg, "socket").Greet(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "invoke the socket function") {
		t.Errorf("got %v", err)
	}
}
