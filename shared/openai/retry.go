package openai

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RetryPolicy bounds how often a request is sent again. The zero value never sends again.
//
// A request is repeated only before any of its answer has been used, and only where the provider cannot have worked on it or says
// itself when to come back: connection refused, 502, 503, 504, and 429 with a Retry-After. A plain 500 is not repeated (it is as
// a rule the request's own fault and may have been billed), nor a 429 that names no time (an exhausted quota looks like that).
type RetryPolicy struct {
	Max   int           // how many times a request is repeated at most
	Base  time.Duration // the first pause where the provider names none; it doubles each time
	Total time.Duration // the sum of all pauses; a Retry-After that does not fit is not waited for
}

// DefaultRetry is two repetitions and eight seconds of pauses in all.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{Max: 2, Base: 300 * time.Millisecond, Total: 8 * time.Second}
}

// outcome is what became of one attempt: a status, or an error before there was one.
type outcome struct {
	status     int
	retryAfter string // the header
	err        error
}

// next decides whether to repeat after the attempt-th try (0 is the first) that ended in o, when spent has already been paused.
func (p RetryPolicy) next(attempt int, spent time.Duration, o outcome, now time.Time) (wait time.Duration, again bool) {
	if attempt >= p.Max {
		return 0, false
	}
	named, isNamed := retryAfter(o.retryAfter, now)
	switch {
	case o.err != nil:
		if !errors.Is(o.err, syscall.ECONNREFUSED) {
			return 0, false
		}
		isNamed = false
	case o.status == http.StatusTooManyRequests:
		if !isNamed {
			return 0, false
		}
	case o.status != http.StatusBadGateway && o.status != http.StatusServiceUnavailable && o.status != http.StatusGatewayTimeout:
		return 0, false
	}
	wait = named
	if !isNamed {
		wait = p.Base << min(attempt, 16)
	}
	if wait < 0 || spent+wait > p.Total {
		return 0, false
	}
	return wait, true
}

// retryAfter reads the header: seconds (also with a fraction) or a date.
func retryAfter(header string, now time.Time) (wait time.Duration, ok bool) {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0, false
	}
	if s, err := strconv.ParseFloat(header, 64); err == nil {
		if math.IsNaN(s) || s < 0 {
			return 0, false
		}
		if s > 1e6 { // beyond any bound, and beyond what a Duration can hold
			s = 1e6
		}
		return time.Duration(s * float64(time.Second)), true
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

// pause waits unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
