package run_test

import (
	"context"
	"strings"
	"testing"

	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// A stop at each edge, while the step waits there or goes on beside it. Once it is acknowledged the run has ended, and no step that
// begins afterwards asks the model or runs a tool (P6).
func TestStopAtEveryEdge(t *testing.T) {
	def := definition(t)
	for _, s := range []scenario{scenarios()[0], scenarios()[1], {"slow", []reply{{calls: []call{{"slow", `{"a":1,"b":2}`}}}, {text: "never"}}, 20_000, nil}} {
		t.Run(s.name, func(t *testing.T) {
			want, edges := s.undisturbed(t, def)
			stopped := 0
			for n := range edges {
				for _, beside := range []bool{false, true} {
					inWorld(t, def, s.script, func(w *world) {
						w.limits.Events = s.events
						w.pause = func(at int) {
							if at != n+1 {
								return
							}
							if beside {
								go w.stop()
							} else {
								w.stop()
							}
						}
						w.mustAccept(s.request...)
						w.settle()
						o := w.ended()
						if len(w.begunLate) > 0 {
							t.Errorf("edge %d (%s): begun after the stop: %v", n, edges[n], w.begunLate)
						}
						if o.Error != "" || !strings.HasPrefix(want.Content, strings.TrimSpace(o.Content)) {
							t.Errorf("edge %d (%s), beside %v: %+v", n, edges[n], beside, o)
						}
						if o.Content != want.Content {
							stopped++
						}
					})
				}
			}
			if stopped == 0 {
				t.Error("no stop came in time")
			}
		})
	}
}

// stop asks for a stop and looks at once whether it keeps what it says.
func (w *world) stop() {
	var ids []string
	err := w.client("stop", func(ctx context.Context, s *run.Service) (err error) {
		ids, err = s.Stop(ctx, owner, chatID)
		return err
	})
	if err != nil {
		w.t.Errorf("stop: %v", err)
		return
	}
	if len(ids) == 0 {
		return // nothing was open yet, or any more
	}
	if open := w.open(); len(open) > 0 {
		w.t.Errorf("P6: open after a stop: %v", open)
	}
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	if o := w.outcome(); !o.Done {
		w.t.Errorf("P6: the message is open after a stop: %+v", o)
	}
}

// The one who asked for a stop dies once it is noted. The stop holds: whoever ends the run next ends it as stopped, and nothing begins.
func TestStopWhoseAskerDies(t *testing.T) {
	def := definition(t)
	s := scenarios()[0]
	_, edges := s.undisturbed(t, def)
	noted := 0
	for n := range edges {
		inWorld(t, def, s.script, func(w *world) {
			set := false
			w.fault = func(_ int, op string) mode {
				if strings.HasPrefix(op, "stop write") {
					set = true
					return dieAfter
				}
				return pass
			}
			w.pause = func(at int) {
				if at == n+1 {
					_ = w.client("stop", func(ctx context.Context, s *run.Service) error {
						_, err := s.Stop(ctx, owner, chatID)
						return err
					})
					if set && len(w.open()) > 0 {
						w.mu.Lock()
						w.stopped = true
						w.mu.Unlock()
					}
				}
			}
			accepted := w.mustAccept()
			w.settle()
			o := w.ended()
			if !w.stopped {
				return
			}
			noted++
			item, _, err := table.One(context.Background(), &w.disk, table.Run(chatID, accepted.Runs[0]))
			if got := turn.Outcome(item.String("outcome")); err != nil || got != turn.Stopped || o.Error != "" {
				t.Errorf("edge %d (%s): it ended with %q, %v: %+v", n, edges[n], got, err, o)
			}
			if len(w.begunLate) > 0 {
				t.Errorf("edge %d (%s): begun after the stop: %v", n, edges[n], w.begunLate)
			}
		})
	}
	if noted < len(edges)/2 {
		t.Errorf("only %d of %d stops were noted", noted, len(edges))
	}
}
