package turn_test

import (
	"fmt"
	"testing"

	"toolrounds/shared/turn"
)

// The explorer tries a turn out in every order of things: each step of the machine begins, does its work, dies, loses its answer, or
// is delivered twice and comes late; a stop is asked for at any moment; executions are aborted, their reports lost, the sweeper
// passes. What each of them does is what package turn decides, and the conditions of the writes are those of package run. It keeps
// every state it has seen, so what it says holds for all schedules of the given size (design, promises.md, layer 1).

// rules are the decisions under test; a test replaces one to see that the explorer notices.
type rules struct {
	model    func(turn.Record) turn.Action
	call     func(turn.Record) turn.Action
	after    func(round, calls, spent int, l turn.Limits) (turn.Next, bool)
	propose  func(complete bool) turn.Outcome
	outcomes func(turn.Record, turn.Outcome) turn.Outcome
	stop     func(turn.Record, int64) turn.Action
	sweep    func(turn.Record, int64) turn.Action
}

func decisions() rules {
	return rules{turn.Model, turn.Call, turn.After, turn.Propose, turn.Outcomes, turn.Stop, turn.Sweep}
}

// size is what is explored: the calls that the model makes in each round, and how much may go wrong.
type size struct {
	calls      [3]int
	limits     turn.Limits
	faults     int8
	background bool
}

func TestEveryOrder(t *testing.T) {
	for _, s := range []size{
		{calls: [3]int{0}, limits: turn.Limits{Rounds: 3}, faults: 4, background: true},
		{calls: [3]int{1}, limits: turn.Limits{Rounds: 3}, faults: 3, background: true},
		{calls: [3]int{3}, limits: turn.Limits{Rounds: 3}, faults: 2},
		{calls: [3]int{2, 3}, limits: turn.Limits{Rounds: 3}, faults: 1},
		{calls: [3]int{3, 3, 3}, limits: turn.Limits{Rounds: 2}, faults: 1},                    // the limit ends it
		{calls: [3]int{1, 1}, limits: turn.Limits{Rounds: 3, Events: 20}, faults: 2},           // goes on in a new execution
		{calls: [3]int{1, 2}, limits: turn.Limits{Rounds: 1}, faults: 2, background: true},     // the last round's calls stay unanswered
		{calls: [3]int{1, 1, 0}, limits: turn.Limits{Rounds: -1}, faults: 2, background: true}, // no limit
	} {
		t.Run(fmt.Sprintf("%v-%d-faults", s.calls, s.faults), func(t *testing.T) {
			t.Parallel()
			e := explore(decisions(), s)
			if e.problem != "" {
				t.Fatalf("%s\n%s", e.problem, e.path)
			}
			if e.states < 500 {
				t.Errorf("only %d states: the model lost its interleavings", e.states)
			}
			for _, o := range []turn.Outcome{turn.Answered, turn.Failed, turn.Stopped} {
				if over := s.calls[2] > 0 || s.limits.Rounds == 1; !e.outcomes[o] && !(over && o == turn.Answered) {
					t.Errorf("no schedule ends with %s", o)
				}
			}
			t.Logf("%d states", e.states)
		})
	}
}

// Each broken decision must be noticed.
func TestBrokenDecisions(t *testing.T) {
	without := func(decide func(turn.Record) turn.Action, change func(*turn.Record)) func(turn.Record) turn.Action {
		return func(r turn.Record) turn.Action { change(&r); return decide(r) }
	}
	ignoreStop := func(r *turn.Record) { r.Stop = false }
	pretendOpen := func(r *turn.Record) { r.Phase = turn.Open }
	for name, broken := range map[string]func(*rules){
		"a model step begins after a stop":        func(r *rules) { r.model = without(turn.Model, ignoreStop) },
		"a model step begins after the end":       func(r *rules) { r.model = without(turn.Model, pretendOpen) },
		"a round is asked for twice":              func(r *rules) { r.model = without(turn.Model, func(r *turn.Record) { r.Committed = false }) },
		"a call begins after a stop":              func(r *rules) { r.call = without(turn.Call, ignoreStop) },
		"a call begins after the end":             func(r *rules) { r.call = without(turn.Call, pretendOpen) },
		"a call that has its result runs":         func(r *rules) { r.call = without(turn.Call, func(r *turn.Record) { r.Result = false }) },
		"an answer wins over a stop":              func(r *rules) { r.outcomes = func(_ turn.Record, o turn.Outcome) turn.Outcome { return o } },
		"half an answer counts as one":            func(r *rules) { r.propose = func(bool) turn.Outcome { return turn.Answered } },
		"an answer is thrown away":                func(r *rules) { r.propose = func(bool) turn.Outcome { return turn.Failed } },
		"a stop does not end":                     func(r *rules) { r.stop = lazy },
		"the sweeper ends nothing":                func(r *rules) { r.sweep = func(turn.Record, int64) turn.Action { return turn.Leave } },
		"the sweeper closes nothing":              func(r *rules) { r.sweep = except(turn.Close) },
		"the sweeper does not start what is lost": func(r *rules) { r.sweep = except(turn.Start) },
		"the sweeper starts for ever":             func(r *rules) { r.sweep = altered(func(r *turn.Record) { r.Starts = 0 }) },
		"the limit of rounds is not kept": func(r *rules) {
			r.after = func(round, calls, spent int, l turn.Limits) (turn.Next, bool) {
				return turn.After(round, calls, spent, turn.Limits{Rounds: -1})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := decisions()
			broken(&r)
			for _, s := range []size{
				{calls: [3]int{1}, limits: turn.Limits{Rounds: 3}, faults: 3, background: true},
				{calls: [3]int{1, 1}, limits: turn.Limits{Rounds: 0}, faults: 1},
			} {
				if explore(r, s).problem != "" {
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

func lazy(turn.Record, int64) turn.Action { return turn.Leave }

func except(never turn.Action) func(turn.Record, int64) turn.Action {
	return func(r turn.Record, now int64) turn.Action {
		if a := turn.Sweep(r, now); a != never {
			return a
		}
		return turn.Leave
	}
}

func altered(change func(*turn.Record)) func(turn.Record, int64) turn.Action {
	return func(r turn.Record, now int64) turn.Action { change(&r); return turn.Sweep(r, now) }
}

// explored is what an exploration found: the first problem, if any, with the steps that lead to it.
type explored struct {
	states   int
	outcomes map[turn.Outcome]bool
	problem  string
	path     string
}

// explore visits every state that can be reached, breadth first, so that the path to a problem is a shortest one.
func explore(r rules, s size) explored {
	begin := world{Phase: turn.Open, PC: accepted, Starts: 1, Faults: s.faults}
	type from struct {
		world world
		step  string
	}
	seen := map[world]from{begin: {}}
	sure := map[world][]world{} // what happens in the end if nothing more goes wrong
	e := explored{outcomes: map[turn.Outcome]bool{}}
	fail := func(w world, problem string) explored {
		e.problem, e.states = problem, len(seen)
		for w != begin {
			f := seen[w]
			e.path, w = fmt.Sprintf("%s\n%s", f.step, e.path), f.world
		}
		return e
	}
	for queue := []world{begin}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		if w.Wrong != "" {
			return fail(w, w.Wrong)
		}
		for _, n := range (&explorer{r, s}).steps(w) {
			if n.world == w {
				continue
			}
			if _, known := seen[n.world]; !known {
				seen[n.world] = from{w, n.name}
				queue = append(queue, n.world)
			}
			if !n.chance {
				sure[w] = append(sure[w], n.world)
			}
		}
		if len(sure[w]) == 0 && w.Phase != turn.Closed {
			return fail(w, "P1, P7: nothing more happens and the turn is "+string(w.Phase))
		}
		if w.Phase == turn.Closed {
			e.outcomes[w.Outcome] = true
		}
	}
	if w, ok := cycle(sure); ok {
		return fail(w, "P1: it goes round in circles")
	}
	e.states = len(seen)
	return e
}

// cycle finds a state that leads back to itself.
func cycle(next map[world][]world) (world, bool) {
	incoming := map[world]int{}
	for w, to := range next {
		incoming[w] += 0
		for _, n := range to {
			incoming[n]++
		}
	}
	var free []world
	for w, n := range incoming {
		if n == 0 {
			free = append(free, w)
		}
	}
	left := len(incoming)
	for ; len(free) > 0; left-- {
		w := free[len(free)-1]
		free = free[:len(free)-1]
		for _, n := range next[w] {
			if incoming[n]--; incoming[n] == 0 {
				free = append(free, n)
			}
		}
	}
	if left == 0 {
		return world{}, false
	}
	for w, n := range incoming {
		if n > 0 {
			return w, true
		}
	}
	return world{}, false
}
