package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryPolicy(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	tests := []struct {
		name    string
		attempt int
		spent   time.Duration
		outcome outcome
		wait    time.Duration
		again   bool
	}{
		{"500", 0, 0, outcome{status: 500}, 0, false},
		{"500 with a time", 0, 0, outcome{status: 500, retryAfter: "1"}, 0, false},
		{"404", 0, 0, outcome{status: 404}, 0, false},
		{"502", 0, 0, outcome{status: 502}, 300 * time.Millisecond, true},
		{"503 again", 1, 300 * time.Millisecond, outcome{status: 503}, 600 * time.Millisecond, true},
		{"504, enough", 2, 900 * time.Millisecond, outcome{status: 504}, 0, false},
		{"503 with a time", 0, 0, outcome{status: 503, retryAfter: "3"}, 3 * time.Second, true},
		{"429", 0, 0, outcome{status: 429}, 0, false},
		{"429 with a time", 0, 0, outcome{status: 429, retryAfter: " 2 "}, 2 * time.Second, true},
		{"429 with a fraction", 0, 0, outcome{status: 429, retryAfter: "0.25"}, 250 * time.Millisecond, true},
		{"429 with a date", 0, 0, outcome{status: 429, retryAfter: "Fri, 02 Jan 2026 03:04:09 GMT"}, 4 * time.Second, true},
		{"429 with a date that has passed", 0, 0, outcome{status: 429, retryAfter: "Fri, 02 Jan 2026 03:04:00 GMT"}, 0, true},
		{"429 with too long a time", 0, 0, outcome{status: 429, retryAfter: "9"}, 0, false},
		{"429 with too long a time in all", 1, 5 * time.Second, outcome{status: 429, retryAfter: "4"}, 0, false},
		{"429 with an endless time", 0, 0, outcome{status: 429, retryAfter: "1e300"}, 0, false},
		{"429 with nonsense", 0, 0, outcome{status: 429, retryAfter: "soon"}, 0, false},
		{"429 with a negative time", 0, 0, outcome{status: 429, retryAfter: "-1"}, 0, false},
		{"refused", 0, 0, outcome{err: refused}, 300 * time.Millisecond, true},
		{"other error", 0, 0, outcome{err: io.ErrUnexpectedEOF}, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wait, again := DefaultRetry().next(test.attempt, test.spent, test.outcome, now)
			if wait != test.wait || again != test.again {
				t.Errorf("got %v, %v; want %v, %v", wait, again, test.wait, test.again)
			}
			if _, again := (RetryPolicy{}).next(test.attempt, test.spent, test.outcome, now); again {
				t.Error("the zero policy repeats")
			}
		})
	}
}

// script is a provider that answers with each response once, then with the last; it needs no network, so time can be unreal.
type script struct {
	responses []http.Response
	bodies    []string
	sent      int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.bodies = append(s.bodies, string(raw))
	resp := s.responses[min(s.sent, len(s.responses)-1)]
	s.sent++
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	resp.Body = io.NopCloser(strings.NewReader(sse("stop", saying("hi"))))
	return &resp, nil
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := http.Header{"Retry-After": {"3"}}
		s := &script{responses: []http.Response{{StatusCode: 429, Header: later}, {StatusCode: 503}, {StatusCode: 200}}}
		c := New(Config{BaseURL: "http://provider", HTTP: &http.Client{Transport: s}})
		start := time.Now()
		round, err := c.Stream(t.Context(), []byte("body"), StreamOptions{}, nil)
		if err != nil || round.Text() != "hi" || s.sent != 3 || strings.Join(s.bodies, ",") != "body,body,body" {
			t.Errorf("%v after %d requests with %q", err, s.sent, s.bodies)
		}
		if took := time.Since(start); took != 3600*time.Millisecond {
			t.Errorf("took %v", took)
		}

		s = &script{responses: []http.Response{{StatusCode: 429, Header: later}}}
		c = New(Config{BaseURL: "http://provider", HTTP: &http.Client{Transport: s}})
		resp, err := c.Do(t.Context(), nil)
		if err != nil || resp.StatusCode != 429 || s.sent != 1 {
			t.Errorf("raw: %v, %d requests", err, s.sent)
		}
		resp.Body.Close()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Complete(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ends the pause: %v", err)
		}
	})
}
