package dynamo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// How long a write that met another one is repeated, and the pauses between.
const (
	patience   = 3 * time.Second
	firstPause = 20 * time.Millisecond
	lastPause  = 400 * time.Millisecond
)

// backoff paces the repetitions of one call.
type backoff struct {
	until time.Time
	pause time.Duration
}

func newBackoff() *backoff { return &backoff{until: time.Now().Add(patience), pause: firstPause} }

// sleep waits before the next attempt. It returns an error that wraps cause when the patience is at its end, or the context's.
func (b *backoff) sleep(ctx context.Context, cause error) error {
	pause := b.pause/2 + rand.N(b.pause)
	if time.Now().Add(pause).After(b.until) {
		return fmt.Errorf("still so after %v: %w", patience, cause)
	}
	b.pause = min(2*b.pause, lastPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (while repeating after: %w)", ctx.Err(), cause)
	}
}
