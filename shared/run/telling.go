package run

import (
	"context"
	"time"

	"toolrounds/shared/event"
)

// telling shows what the model streams to those who listen, while ask takes it. The function it returns waits until everything taken
// is shown, and then shows what the round has come to; nil for a round that was not recorded.
//
// The first piece goes out at once. While one batch is on its way the next one gathers, so the rate adapts to the connections: at most
// one batch each pace, fewer when posting takes longer.
func (a *answer) telling(ctx context.Context) (shown func(*round)) {
	if a.Live == nil {
		return func(*round) {}
	}
	f, n := a.feed(a.run), a.narrator(a.step, a.rec)
	a.fresh, a.renewed = make(chan struct{}, 1), a.Now()
	over, told := make(chan struct{}), make(chan struct{})
	if a.run.Attempt > int64(a.step.Round)+1 && f.Heard(ctx) { // an earlier try may have shown more than what counts now
		if now := n.output(); len(now) > 0 {
			f.Publish(ctx, Show{Events: []event.Event{event.Output(now)}, Whole: a.sofar(a.run)})
		}
	}
	show := func() {
		a.mu.Lock()
		batch, fenced := a.untold, a.Now().Sub(a.renewed) > leaseTime
		a.untold = nil
		a.mu.Unlock()
		events := n.tell(batch, a.Now())
		if len(events) == 0 || fenced { // who has lost the claim may no longer speak
			return
		}
		f.Publish(ctx, Show{Events: events, Whole: func(context.Context) []event.Event { return n.whole() }})
	}
	go func() {
		defer close(told)
		for {
			select {
			case <-over:
				show()
				return
			case <-a.fresh:
				show()
			}
			select {
			case <-over:
			case <-time.After(pace):
			}
		}
	}()
	return func(made *round) {
		close(over)
		<-told
		if made == nil || made.Incomplete || made.Choice {
			return
		}
		events := n.end(*made)
		if made.Reply != nil && !a.rec.work.Stream && made.Error == nil {
			if v, ok := replied(made.Reply); ok {
				events = append([]event.Event{event.New(event.Completion, v)}, events...)
			}
		}
		if len(events) > 0 {
			f.Publish(ctx, Show{Events: events, Whole: a.sofar(a.run)})
		}
	}
}

// pace is the shortest time between two batches of streamed text.
const pace = 100 * time.Millisecond
