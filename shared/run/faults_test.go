package run_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/table"
	"toolrounds/statemachine/asl"
)

// scenario is a run that faults are tried on.
type scenario struct {
	name    string
	script  []reply
	events  int
	request []func(map[string]any)
}

func scenarios() []scenario {
	all := map[string]any{"title_generation": true, "tags_generation": true, "follow_up_generation": true}
	many := make([]call, 45) // more than are recorded in one transaction
	for i := range many {
		many[i] = add(i, i)
	}
	return []scenario{
		{"two rounds", twoRounds(), 20_000, nil},
		{"background tasks", []reply{{calls: []call{add(1, 2)}}, {text: "the sum is {{result}}"}}, 20_000, []func(map[string]any){with("background_tasks", all)}},
		{"continued", []reply{{calls: []call{add(1, 2)}}, {calls: []call{add(3, 4)}}, {text: "the sum is {{result}}"}}, 20, nil},
		{"legacy", []reply{{text: "from the sources"}}, 20_000, []func(map[string]any){calling("legacy")}},
		{"prompted", prompted(), 20_000, []func(map[string]any){calling("prompt")}},
		{"many calls", []reply{{calls: many}, {calls: []call{add(1, 2)}}, {text: "the sum is {{result}}"}}, 20_000, nil},
	}
}

// undisturbed is how a scenario goes when nothing happens, and its edges.
func (s scenario) undisturbed(t *testing.T, def *asl.Definition) (o outcome, edges []string) {
	t.Helper()
	inWorld(t, def, s.script, func(w *world) {
		w.limits.Events = s.events
		w.mustAccept(s.request...)
		w.settle()
		o, edges = w.ended(), w.log
	})
	if o.Content == "" || o.Error != "" {
		t.Fatalf("undisturbed: %+v", o)
	}
	for i, e := range edges { // the sweeper's own are behind the end
		if strings.HasPrefix(e, "sweep") {
			return o, edges[:i]
		}
	}
	return o, edges
}

// disturbed lets a scenario run with faults and checks what must hold whatever they are.
func (s scenario) disturbed(t *testing.T, def *asl.Definition, fault func(n int, op string) mode) (o outcome, recorded bool) {
	t.Helper()
	inWorld(t, def, s.script, func(w *world) {
		w.limits.Events, w.fault = s.events, fault
		_, err := w.accept(s.request...)
		w.settle()
		if runs := w.finals[table.Message(chatID, message)]; err != nil && runs == 0 {
			if o = w.outcome(); o.Done || o.Output != "null" || len(w.open()) > 0 || len(w.asked) > 0 {
				t.Errorf("a refused request left something behind: %+v", o)
			}
			return
		}
		o, recorded = w.ended(), true
	})
	return o, recorded
}

// Every read, write and call of every step fails, loses its answer, or is where the process dies; one in each run. The run must end
// with the very answer of an undisturbed one (P12): the platform's failures are repeated, and one is never too many.
func TestOneFault(t *testing.T) {
	def := definition(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			want, edges := s.undisturbed(t, def)
			tried := 0
			for n := 1; n <= len(edges); n++ {
				if s.name == "many calls" && strings.HasPrefix(edges[n-1], "tool ") && n%61 != 0 {
					continue // 45 times the same
				}
				for m, what := range modes {
					tried++
					hit := ""
					got, recorded := s.disturbed(t, def, func(at int, op string) mode {
						if at == n {
							hit = op
							return m
						}
						return pass
					})
					if !recorded {
						continue
					}
					if broken := strings.HasSuffix(hit, " model") && (m == fail || m == lose); broken && (got.Error != "" || s.name == "legacy") {
						continue // the model itself failed, and the message says so; without a choice the answer comes without tools
					}
					if strings.HasPrefix(hit, "finish") { // a background task that fails is left out
						got.Title = want.Title
					}
					if got != want {
						t.Errorf("edge %d (%s) %s:%s", n, hit, what, differs(got, want))
					}
				}
			}
			t.Logf("%d edges, %d runs", len(edges), tried)
		})
	}
}

// Each invocation of a function reaches it late: the machine has given it up by then and goes on with a second one. The newest claim
// holds, and what the other one does changes nothing.
func TestLateInvocation(t *testing.T) {
	def := definition(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			want, _ := s.undisturbed(t, def)
			for _, late := range []time.Duration{900, 1001, 1300, 2500, 9000} {
				for n, invocations := 1, 1; n <= invocations; n++ {
					inWorld(t, def, s.script, func(w *world) {
						w.limits.Events = s.events
						w.late = func(at int) time.Duration {
							if at == n {
								return late * time.Millisecond
							}
							return 0
						}
						w.mustAccept(s.request...)
						w.settle()
						if got := w.ended(); got != want {
							t.Errorf("invocation %d begins %d ms late:%s", n, late, differs(got, want))
						}
						if invocations = w.invoked; invocations > 12 {
							invocations = 12
						}
					})
				}
			}
		})
	}
}

// Faults in pairs and more: the run ends once, with the answer or with an error that says something.
func TestManyFaults(t *testing.T) {
	def := definition(t)
	for _, s := range scenarios()[:3] {
		t.Run(s.name, func(t *testing.T) {
			want, edges := s.undisturbed(t, def)
			answers, failures := 0, 0
			for seed := range uint64(150) {
				random := rand.New(rand.NewPCG(seed, 1))
				faults := map[int]mode{}
				for range 2 + random.IntN(5) {
					faults[1+random.IntN(len(edges)*5/4)] = mode(1 + random.IntN(len(modes)))
				}
				got, recorded := s.disturbed(t, def, func(n int, _ string) mode { return faults[n] })
				switch {
				case !recorded:
				case got.Error == "" && got.Content == want.Content:
					answers++
				case got.told():
					failures++
				default:
					t.Errorf("seed %d, faults %v: neither the answer nor an error: %+v", seed, faults, got)
				}
			}
			if answers < 80 {
				t.Errorf("%d answers, %d errors: the faults do more harm than they should", answers, failures)
			}
			t.Logf("%d answers, %d errors", answers, failures)
		})
	}
}

// A platform that fails for good: whichever function never works, the run ends with an error that says so.
func TestFunctionThatNeverWorks(t *testing.T) {
	def := definition(t)
	s := scenarios()[0]
	for _, function := range []string{"prepare", "model", "tool", "finish"} {
		for m, what := range modes {
			t.Run(function+" "+what, func(t *testing.T) {
				o, recorded := s.disturbed(t, def, func(_ int, op string) mode {
					if strings.HasPrefix(op, function+" ") {
						return m
					}
					return pass
				})
				if !recorded {
					t.Fatal("not recorded")
				}
				if !o.told() && o.Content != answer {
					t.Errorf("neither the answer nor an error: %+v", o)
				}
			})
		}
	}
}

// A model that is asked again answers something else. What the dead try has left of its round is forgotten: no call of it is run, shown
// to the model, or stored.
func TestModelChangesItsMind(t *testing.T) {
	def := definition(t)
	many := make([]call, 95)
	for i := range many {
		many[i] = add(i, i)
	}
	slow := call{"slow", `{"a":1,"b":2}`} // the run still goes on when a frozen try thaws
	s := scenario{"", []reply{{calls: many}, {calls: []call{slow}}, {text: "the sum is {{result}}"}}, 20_000, nil}
	_, edges := s.undisturbed(t, def)
	tried := 0
	for n, edge := range edges {
		if !strings.HasPrefix(edge, "model transact") {
			continue
		}
		for m, what := range modes {
			tried++
			inWorld(t, def, s.script, func(w *world) {
				w.fault = func(at int, _ string) mode {
					if at == n+1 {
						w.script[0].calls = many[:1]
						return m
					}
					return pass
				}
				w.mustAccept()
				w.settle()
				o := w.ended()
				made, shown := strings.Count(o.Output, `"type":"function_call"`), len(w.asked[len(w.asked)-1])-3
				if made != shown || made != len(w.calls) || o.told() {
					t.Errorf("edge %d (%s) %s: %d calls are stored, %d shown to the model, %d run: %s", n+1, edge, what, made, shown, len(w.calls), o.Error)
				}
			})
		}
	}
	if tried < 3*len(modes) {
		t.Errorf("only %d tries", tried)
	}
}

// An execution is aborted at each edge (an operator, StopExecution): the rule that sees it ends the run.
func TestAborted(t *testing.T) {
	def := definition(t)
	s := scenarios()[0]
	want, edges := s.undisturbed(t, def)
	for n := range edges {
		inWorld(t, def, s.script, func(w *world) {
			w.pause = func(at int) {
				if at != n+1 {
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.executions {
					e.cancel()
				}
				if len(w.executions) > 0 {
					go func() { // long before its deadline
						time.Sleep(10 * time.Second)
						if open := w.open(); len(open) > 0 {
							t.Errorf("edge %d (%s): open ten seconds later", n, edges[n])
						}
					}()
				}
			}
			w.mustAccept()
			w.settle()
			if o := w.ended(); o.Error == "" && o.Content != want.Content {
				t.Errorf("edge %d (%s): neither the answer nor an error: %+v", n, edges[n], o)
			}
		})
	}
}

// A chat is deleted at each edge of its run: nothing of it comes back.
func TestDeleteAtEveryEdge(t *testing.T) {
	def := definition(t)
	for _, s := range scenarios()[:3] {
		t.Run(s.name, func(t *testing.T) {
			_, edges := s.undisturbed(t, def)
			for n := range edges {
				inWorld(t, def, s.script, func(w *world) {
					w.limits.Events = s.events
					w.pause = func(at int) {
						if at == n+1 {
							w.remove()
						}
					}
					accepted, err := w.accept(s.request...)
					w.settle()
					keys := []string{table.Chat(chatID).PK}
					if err == nil {
						keys = append(keys, table.Work(accepted.Runs[0]).PK)
					}
					for _, pk := range keys {
						left, err := table.All(context.Background(), &w.disk, table.Query{PK: pk})
						if err != nil || len(left) > 0 {
							t.Errorf("edge %d (%s): after the chat was deleted there is %v, %v", n, edges[n], names(left), err)
						}
					}
				})
			}
		})
	}
}

func (w *world) remove() {
	s := w.quiet()
	s.Machine = &machine{&process{world: w, died: make(chan struct{}), cancel: func() {}}}
	tree, err := s.Chats.Tree(context.Background(), chatID)
	if err != nil || tree == nil {
		w.t.Errorf("delete: %v, %v", tree, err)
		return
	}
	if err := s.Chats.Delete(context.Background(), chatID, purger{w}); err != nil {
		w.t.Error(err)
	}
	if err := s.Forget(context.Background(), tree, purger{w}); err != nil {
		w.t.Error(err)
	}
}

func names(items []table.Item) []string {
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprint(i.PK, "/", i.SK))
	}
	return out
}
