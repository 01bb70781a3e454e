// Package turn decides, and does nothing else. A turn is one completion: rounds of one model answer and the tool calls it asks for,
// until the model is done, the limit is reached, something fails or somebody stops it. Every step of the machine reads the turn's
// record, asks this package what follows, and writes the record back under a condition; the package itself knows no clock, no
// store and no network, so all interleavings of steps, crashes, stops and repeats can be tried out by a test.
//
// What it keeps (design, promises P1, P2, P4-P7): a turn ends exactly once and the first end wins; after a stop nothing new begins;
// a call has one result; a step that is repeated finds what the first try recorded.
package turn

import "fmt"

// Phase is how far a turn is.
type Phase string

// The phases. An ended turn has its final message; it is closed once its background tasks are done, too.
const (
	Open   Phase = "open"
	Ended  Phase = "ended"
	Closed Phase = "closed"
)

// Outcome is how a turn ended.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answer"
	Failed   Outcome = "error"
	Stopped  Outcome = "stopped"
)

// Record is what a step knows of its turn when it decides.
type Record struct {
	Phase     Phase
	Stop      bool  // somebody asked it to stop
	Started   bool  // a step of the machine has begun
	Starts    int   // how often the machine was told to start it
	Committed bool  // the round in question is already recorded
	Result    bool  // the call in question already has its result
	Deadline  int64 // the time by which the current step should have written again
	Lease     int64 // the time until which a living writer holds the turn
}

// Limits bound a turn.
type Limits struct {
	Rounds int // executed tool rounds; negative: no limit
	Events int // history events of one execution after which a new one goes on
}

// Action is what a step does next.
type Action string

// The actions.
const (
	Leave  Action = "leave"  // nothing to do: the turn ended without this step
	Replay Action = "replay" // the work was done by an earlier try: return what it recorded
	Work   Action = "work"   // do the step's work
	End    Action = "end"    // end the turn
	Start  Action = "start"  // tell the machine to run the turn (again)
	Close  Action = "close"  // drop what is left of an ended turn
	Wait   Action = "wait"   // somebody else is about to do it
)

// Model decides what a model step does when it begins.
func Model(r Record) Action {
	switch {
	case r.Phase != Open:
		return Leave
	case r.Stop:
		return End
	case r.Committed:
		return Replay
	}
	return Work
}

// Call decides what a tool step does when it begins. A stopped turn begins no call.
func Call(r Record) Action {
	switch {
	case r.Phase != Open, r.Stop:
		return Leave
	case r.Result:
		return Replay
	}
	return Work
}

// Next is what the machine does after a model step.
type Next string

// The machine's choices.
const (
	Tools    Next = "tools"    // run the round's calls, then ask the model again
	Continue Next = "continue" // the same, in a new execution of the machine
	Finish   Next = "finish"
)

// LimitReached is the text of the error that ends a turn at its limit.
func LimitReached(limit int) string {
	return fmt.Sprintf("Tool-call limit reached (%d iterations).", limit)
}

// After decides what follows a recorded round that was number round, counted from 0, asked for calls tool calls, and left the
// execution with spent history events. Over says that the limit is what ends the turn: the round's calls stay unanswered.
func After(round, calls, spent int, l Limits) (next Next, over bool) {
	switch {
	case calls == 0:
		return Finish, false
	case l.Rounds >= 0 && round >= l.Rounds:
		return Finish, true
	case l.Events > 0 && spent+Events(calls) > l.Events:
		return Continue, false
	}
	return Tools, false
}

// Events is how many history events one round with that many calls costs the machine: 11 for the round, 7 for each call
// (statemachine/README.md).
func Events(calls int) int { return 11 + 7*calls }

// Outcomes decides how a turn ends that is asked to end: a stop wins over an error or an answer that was not recorded before it.
func Outcomes(r Record, proposed Outcome) Outcome {
	if r.Stop {
		return Stopped
	}
	return proposed
}

// Propose decides how a turn should end as far as its rounds go. Complete says that the last one is an answer without calls, recorded
// whole. Then it is the answer, whatever went wrong after it; without it nothing but an error may end the turn.
func Propose(complete bool) Outcome {
	if complete {
		return Answered
	}
	return Failed
}

// Stop decides what the one who asks for a stop does, after the flag is set: wait for the writer that holds the turn, or end it.
func Stop(r Record, now int64) Action {
	switch {
	case r.Phase != Open:
		return Leave
	case r.Lease > now:
		return Wait
	}
	return End
}

// MaxStarts is how often the machine is told to start a turn of which no step ever began.
const MaxStarts = 3

// Sweep decides what becomes of a turn that nobody seems to work on.
func Sweep(r Record, now int64) Action {
	switch {
	case r.Phase == Closed, r.Deadline > now:
		return Leave
	case r.Phase == Ended:
		return Close
	case !r.Started && r.Starts < MaxStarts:
		return Start
	}
	return End
}
