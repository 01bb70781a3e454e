package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// watch stores what was streamed, renews the claim, and cancels when the run is stopped or taken over.
func (a *answer) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	flush, renew := time.NewTicker(a.logEvery()), time.NewTicker(pulse)
	defer flush.Stop()
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
			if err := a.flush(ctx); err != nil && ctx.Err() == nil {
				logger(ctx, a.step).Warn("store streamed text", "error", err)
			}
		case <-renew.C:
			if err := a.renew(ctx); errors.Is(err, errStopped) || errors.Is(err, errLost) {
				cancel(err)
				return
			} else if err != nil && ctx.Err() == nil {
				logger(ctx, a.step).Warn("renew the claim", "error", err)
			}
		}
	}
}

func (a *answer) renew(ctx context.Context) error {
	change := table.Change{Set: map[string]any{attrLease: a.Now().Add(leaseTime).UnixMilli()}}
	r, err := a.advance(ctx, a.step.Chat, a.step.Run, 0, change, table.Is(attrAttempt, a.run.Attempt))
	switch {
	case errors.Is(err, errGone):
		return errLost
	case err != nil:
		return err
	case r.Phase != turn.Open, r.Attempt != a.run.Attempt:
		return errLost
	case r.Stop:
		return errStopped
	}
	a.mu.Lock()
	a.renewed = a.Now()
	a.mu.Unlock()
	return nil
}

// flush stores the pending deltas as one batch of the log, for those who read the message while it grows.
func (a *answer) flush(ctx context.Context) error {
	a.mu.Lock()
	batch := a.pending
	a.pending = nil
	a.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	raw, err := json.Marshal(logEntry{Deltas: batch})
	if err != nil {
		return fmt.Errorf("encode deltas: %w", err)
	}
	item := table.Item{
		Key: table.Log(a.step.Run, a.step.Round, a.run.Attempt, a.batches), Expires: a.Now().Add(time.Hour).Unix(),
		Attr: map[string]any{attrDoc: table.Blob(raw)},
	}
	a.batches++
	if _, err := a.Table.Apply(ctx, table.Put(item)); err != nil {
		return fmt.Errorf("store log: %w", err)
	}
	return nil
}

// logEvery is how often streamed text is stored: more often for a caller who gets it from the log as it comes.
func (a *answer) logEvery() time.Duration {
	if body := a.rec.work.Request.Body; Waits(body) && flag(body, "stream") {
		return logFollowed
	}
	return logEvery
}
