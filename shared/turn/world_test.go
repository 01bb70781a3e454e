package turn_test

import (
	"fmt"

	"toolrounds/shared/turn"
)

// pc is where the machine is.
type pc int8

const (
	accepted  pc = iota // the record is written, the machine not told yet
	unstarted           // nobody will tell it
	prepare
	model
	tools
	goOn // tell a new execution
	finish
	background
	done
	broken // the execution failed or was aborted
)

// Where a call of the round under way is.
const (
	waiting int8 = iota
	running
	lost // the machine gives up on it
	over
)

// The one who asked for a stop.
const (
	nobody int8 = iota
	asking
	gone
)

// worker is a model step: in flight with the attempt it claimed, or delivered but not begun (attempt -1), or none (0).
type worker struct{ Attempt, Round int8 }

// late is a tool step that nobody listens to any more.
type late struct {
	On          bool
	Round, Call int8
}

// world is one state of a turn and of everything that works on it.
type world struct {
	// the record
	Phase                       turn.Phase
	Outcome                     turn.Outcome
	Stop, Started, Held         bool
	Starts, Attempt, Generation int8
	Rounds                      int8    // recorded
	Cut                         bool    // the last of them was cut by a stop
	Results                     [3]int8 // bits
	Late                        bool    // the deadline has passed

	// the machine
	PC           pc
	Round, Spent int8
	Problem      bool
	Heard        worker // the step whose answer the machine awaits
	Calls        [3]int8
	Then         turn.Next
	Report       int8 // an execution's bad end that is still to be told: its generation + 1
	Stray        worker
	StrayTool    late
	Asker        int8
	Acknowledged bool
	Faults       int8
	BegunNow     [3]int8
	Wrong        string
}

// next is something that may happen. Chance marks what need not: faults, and a stop.
type next struct {
	name   string
	world  world
	chance bool
}

type explorer struct {
	rules
	size
}

func (w *world) record() turn.Record {
	r := turn.Record{Phase: w.Phase, Stop: w.Stop, Started: w.Started, Starts: int(w.Starts), Deadline: 2}
	if w.Late {
		r.Deadline = 0
	}
	if w.Held {
		r.Lease = 2
	}
	return r
}

const now = 1

func (w *world) wrong(format string, args ...any) {
	if w.Wrong == "" {
		w.Wrong = fmt.Sprintf(format, args...)
	}
}

// steps are all that may happen next.
func (e *explorer) steps(w world) []next {
	var out []next
	add := func(name string, chance bool, change func(*world)) {
		n := w
		change(&n)
		out = append(out, next{name, n, chance})
	}
	will := func(name string, change func(*world)) { add(name, false, change) }
	fault := func(name string, change func(*world)) {
		if w.Faults > 0 {
			add(name, true, func(n *world) { n.Faults--; change(n) })
		}
	}
	e.machine(w, will, fault)
	e.strays(w, will)
	e.others(w, will, fault)
	if w.Phase != turn.Closed && w.Asker == nobody {
		add("stop is asked for", true, func(n *world) {
			if n.Phase == turn.Ended {
				n.Phase, n.Asker, n.Acknowledged = turn.Closed, gone, true
				return
			}
			n.Stop, n.Asker = true, asking
		})
	}
	return out
}

type offer func(string, func(*world))

// machine is what the execution does next.
func (e *explorer) machine(w world, will, fault offer) {
	// A step that failed is repeated, or given up when it was repeated often enough.
	fails := func(name string, giveUp func(*world), effect func(*world)) {
		fault(name+", repeated", effect)
		fault(name+", given up", func(n *world) { effect(n); giveUp(n) })
	}
	toFinish := func(n *world) { n.PC, n.Problem = finish, true }
	nothing := func(*world) {}
	switch w.PC {
	case accepted:
		will("the machine starts", func(n *world) { n.PC = prepare })
		fault("the start is lost", func(n *world) { n.PC = unstarted })
	case prepare:
		will("prepare", func(n *world) { e.prepared(n) })
		fails("prepare dies", toFinish, nothing)
		fails("prepare's answer is lost", toFinish, func(n *world) { e.prepared(n); n.PC = prepare })
	case model:
		e.modelStep(w, will, fault, fails, toFinish)
	case tools:
		e.toolSteps(w, will, fault)
	case goOn:
		will("a new execution", func(n *world) {
			if n.Phase == turn.Open {
				n.Generation, n.PC, n.Spent, n.Late = n.Generation+1, prepare, 0, false
			} else {
				n.PC = done
			}
		})
		fails("continue dies", toFinish, nothing)
	case finish:
		end := func(n *world) {
			if n.Phase == turn.Open {
				e.end(n)
			}
			n.PC = done
			if n.Phase == turn.Ended {
				n.PC = background
			}
		}
		fail := func(n *world) { n.PC, n.Report = broken, n.Generation+1 }
		will("finish", end)
		fails("finish dies", fail, nothing)
		fails("finish's answer is lost", fail, func(n *world) { end(n); n.PC = finish })
	case background:
		closed := func(n *world) {
			n.PC = done
			if n.Phase == turn.Ended {
				n.Phase = turn.Closed
			}
		}
		will("background", closed)
		fails("background dies", func(n *world) { n.PC, n.Report = broken, n.Generation+1 }, nothing)
	}
	if w.PC >= prepare && w.PC < done {
		fault("the execution is aborted", e.abort)
	}
}

func (e *explorer) prepared(n *world) {
	if n.Phase == turn.Open {
		n.Started, n.Late = true, false
	}
	n.PC = finish
	if e.model(n.record()) == turn.Work {
		n.PC = model
	}
}

// abort ends the execution; what it had begun goes on, unheard.
func (e *explorer) abort(n *world) {
	n.PC, n.Report = broken, n.Generation+1
	if n.Heard.Attempt != 0 && n.Stray.Attempt == 0 {
		n.Stray = n.Heard
	}
	n.Heard = worker{}
	for k, c := range n.Calls {
		if c == running && !n.StrayTool.On {
			n.StrayTool = late{true, n.Round, int8(k)}
		}
		n.Calls[k] = waiting
	}
}

// end ends the turn as what is recorded says.
func (e *explorer) end(n *world) {
	complete := n.Rounds > 0 && !n.Cut && e.calls[n.Rounds-1] == 0
	outcome := e.outcomes(n.record(), e.propose(complete))
	switch {
	case n.Outcome != "":
		n.wrong("P2: ended twice")
	case n.Stop && outcome != turn.Stopped:
		n.wrong("P2: a stop that came first lost to %s", outcome)
	case outcome == turn.Answered && !complete:
		n.wrong("P1: it ends with half an answer")
	case !n.Stop && complete && outcome != turn.Answered:
		n.wrong("P12: a whole answer is thrown away")
	case e.limits.Rounds >= 0 && int(n.Rounds) > e.limits.Rounds+1:
		n.wrong("more rounds than the limit allows")
	}
	n.Outcome, n.Phase, n.Late = outcome, turn.Closed, false
	if outcome == turn.Answered && e.background {
		n.Phase = turn.Ended
	}
}

// others are the one who asked for a stop, the report of an execution, and the sweeper.
func (e *explorer) others(w world, will, fault offer) {
	if w.Asker == asking {
		act := func(n *world) {
			n.Asker = gone
			switch e.stop(n.record(), now) {
			case turn.Leave:
				if n.Phase == turn.Ended {
					n.Phase = turn.Closed
				}
			default: // waited for the writer in vain, if there is one
				e.end(n)
				if n.PC >= prepare && n.PC < done {
					e.abort(n)
				}
			}
			if n.Acknowledged = true; n.Phase == turn.Open {
				n.wrong("P6: a stop is acknowledged and the turn is open")
			}
		}
		will("the stop is carried out", act)
		fault("the one who asked dies", func(n *world) { n.Asker = gone })
	}
	if w.Report > 0 {
		will("the bad end of an execution is reported", func(n *world) {
			if n.Phase == turn.Ended {
				n.Phase = turn.Closed
			} else if n.Phase == turn.Open && n.Report == n.Generation+1 {
				e.end(n)
			}
			n.Report = 0
		})
		fault("the report is lost", func(n *world) { n.Report = 0 })
	}
	late := func(n *world) { n.Late = true }
	if idle := w.PC == unstarted || w.PC == broken || w.PC == done; w.Phase != turn.Closed && !w.Late && idle {
		will("the deadline passes", late)
	} else if w.Phase != turn.Closed && !w.Late {
		fault("the machine is slow, the deadline passes", late)
	}
	if w.Late {
		will("the sweeper passes", func(n *world) {
			switch e.sweep(n.record(), now) {
			case turn.Start:
				n.Starts, n.Late = n.Starts+1, false
				if n.PC == unstarted || n.PC == accepted {
					n.PC = prepare
				}
			case turn.End:
				if !n.Started && n.PC == unstarted {
					n.wrong("P1: a turn that nobody started is given up at once")
				}
				e.end(n)
			case turn.Close:
				n.Phase = turn.Closed
			}
		})
	}
}
