package turn_test

import (
	"strings"
	"testing"

	"toolrounds/shared/turn"
)

func TestModel(t *testing.T) {
	for _, c := range []struct {
		name string
		in   turn.Record
		want turn.Action
	}{
		{"open", turn.Record{Phase: turn.Open}, turn.Work},
		{"recorded by an earlier try", turn.Record{Phase: turn.Open, Committed: true}, turn.Replay},
		{"stopped", turn.Record{Phase: turn.Open, Stop: true}, turn.End},
		{"stopped and recorded", turn.Record{Phase: turn.Open, Stop: true, Committed: true}, turn.End},
		{"ended", turn.Record{Phase: turn.Ended}, turn.Leave},
		{"closed by a stop", turn.Record{Phase: turn.Closed, Stop: true}, turn.Leave},
		{"deleted", turn.Record{}, turn.Leave},
	} {
		if got := turn.Model(c.in); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCall(t *testing.T) {
	for _, c := range []struct {
		name string
		in   turn.Record
		want turn.Action
	}{
		{"open", turn.Record{Phase: turn.Open}, turn.Work},
		{"has its result", turn.Record{Phase: turn.Open, Result: true}, turn.Replay},
		{"stopped", turn.Record{Phase: turn.Open, Stop: true}, turn.Leave},
		{"ended", turn.Record{Phase: turn.Ended}, turn.Leave},
		{"closed", turn.Record{Phase: turn.Closed}, turn.Leave},
	} {
		if got := turn.Call(c.in); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		name                string
		round, calls, spent int
		limits              turn.Limits
		next                turn.Next
		over                bool
	}{
		{"an answer", 0, 0, 0, turn.Limits{Rounds: 5}, turn.Finish, false},
		{"calls", 0, 2, 0, turn.Limits{Rounds: 5}, turn.Tools, false},
		{"the last round that may run tools", 4, 1, 0, turn.Limits{Rounds: 5}, turn.Tools, false},
		{"one more", 5, 1, 0, turn.Limits{Rounds: 5}, turn.Finish, true},
		{"an answer at the limit is one", 5, 0, 0, turn.Limits{Rounds: 5}, turn.Finish, false},
		{"no tools allowed", 0, 1, 0, turn.Limits{Rounds: 0}, turn.Finish, true},
		{"no limit", 9999, 1, 0, turn.Limits{Rounds: -1}, turn.Tools, false},
		{"the history is just long enough", 3, 2, 75, turn.Limits{Rounds: 5, Events: 100}, turn.Tools, false},
		{"the history would grow too long", 3, 2, 76, turn.Limits{Rounds: 5, Events: 100}, turn.Continue, false},
		{"the limit of rounds comes first", 5, 2, 76, turn.Limits{Rounds: 5, Events: 100}, turn.Finish, true},
	} {
		next, over := turn.After(c.round, c.calls, c.spent, c.limits)
		if next != c.next || over != c.over {
			t.Errorf("%s: %s %v, want %s %v", c.name, next, over, c.next, c.over)
		}
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		stop, complete bool
		want           turn.Outcome
	}{
		{false, true, turn.Answered}, {false, false, turn.Failed}, {true, true, turn.Stopped}, {true, false, turn.Stopped},
	} {
		if got := turn.Outcomes(turn.Record{Stop: c.stop}, turn.Propose(c.complete)); got != c.want {
			t.Errorf("stop %v, complete %v: %s, want %s", c.stop, c.complete, got, c.want)
		}
	}
	if got := turn.LimitReached(256); !strings.Contains(got, "256") {
		t.Errorf("the error of the limit hides it: %q", got)
	}
}

func TestStop(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name string
		in   turn.Record
		want turn.Action
	}{
		{"a writer holds it", turn.Record{Phase: turn.Open, Lease: now + 1}, turn.Wait},
		{"its claim has just lapsed", turn.Record{Phase: turn.Open, Lease: now}, turn.End},
		{"nobody holds it", turn.Record{Phase: turn.Open}, turn.End},
		{"ended", turn.Record{Phase: turn.Ended, Lease: now + 1}, turn.Leave},
		{"closed", turn.Record{Phase: turn.Closed}, turn.Leave},
	} {
		if got := turn.Stop(c.in, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSweep(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name string
		in   turn.Record
		want turn.Action
	}{
		{"in time", turn.Record{Phase: turn.Open, Deadline: now + 1}, turn.Leave},
		{"ended, in time", turn.Record{Phase: turn.Ended, Deadline: now + 1}, turn.Leave},
		{"late, never begun", turn.Record{Phase: turn.Open, Deadline: now, Starts: 1}, turn.Start},
		{"started often enough", turn.Record{Phase: turn.Open, Deadline: now, Starts: turn.MaxStarts}, turn.End},
		{"late, begun", turn.Record{Phase: turn.Open, Deadline: now, Starts: 1, Started: true}, turn.End},
		{"background tasks are late", turn.Record{Phase: turn.Ended, Deadline: now, Started: true}, turn.Close},
		{"closed", turn.Record{Phase: turn.Closed}, turn.Leave},
	} {
		if got := turn.Sweep(c.in, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
