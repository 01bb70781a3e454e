package turn_test

import "toolrounds/shared/turn"

// modelStep is the machine at CallModel.
func (e *explorer) modelStep(w world, will, fault offer, fails func(string, func(*world), func(*world)), giveUp func(*world)) {
	if w.Heard.Attempt == 0 {
		will("a model step begins", func(n *world) { e.modelBegins(n, &n.Heard, n.Round, true) })
		fails("a model step cannot begin", giveUp, func(*world) {})
		if w.Stray.Attempt == 0 {
			fault("a model step is under way, the machine repeats it", func(n *world) { n.Stray = worker{-1, n.Round} })
		}
		return
	}
	will("a model step records its round", func(n *world) { e.commit(n, n.Heard, true, false); n.Heard = worker{} })
	fails("a model step dies", giveUp, func(n *world) { n.Heard, n.Held = worker{}, false })
	fails("a model step records its round, its answer is lost", giveUp, func(n *world) {
		e.commit(n, n.Heard, false, false)
		n.Heard = worker{}
	})
	if w.Stray.Attempt == 0 {
		fault("the machine loses sight of a model step", func(n *world) { n.Stray, n.Heard = n.Heard, worker{} })
	}
	if w.Stop {
		will("a model step sees the stop", func(n *world) { e.commit(n, n.Heard, true, true); n.Heard = worker{} })
	}
}

// modelBegins claims the turn and does what is decided.
func (e *explorer) modelBegins(n *world, who *worker, round int8, heard bool) {
	*who = worker{}
	if n.Phase == turn.Open {
		n.Attempt++
		n.Held, n.Late = true, false
	}
	r := n.record()
	r.Committed = n.Rounds > round
	switch e.model(r) {
	case turn.Work:
		if n.Phase != turn.Open {
			n.wrong("P2, P7: a model step works on a turn that is %s", n.Phase)
		}
		if n.Stop {
			n.wrong("P6: a model step begins after a stop")
		}
		if r.Committed {
			n.wrong("P12: a recorded round is asked for again")
		}
		*who = worker{n.Attempt, round}
		return
	case turn.Replay:
		if heard {
			e.follow(n, round)
		}
	default:
		if heard {
			n.PC = finish
		}
	}
	n.Held = false
}

// commit records a round on the condition that the turn is open and still this attempt's.
func (e *explorer) commit(n *world, who worker, heard, cut bool) {
	if n.Phase == turn.Open && n.Attempt == who.Attempt {
		n.Rounds++
		n.Cut = cut
		n.Held, n.Late = false, false
		if n.Rounds != who.Round+1 {
			n.wrong("P12: round %d was recorded as number %d", who.Round, n.Rounds-1)
		}
		if heard && cut {
			n.PC = finish
		} else if heard {
			e.follow(n, who.Round)
		}
		return
	}
	switch {
	case !heard:
	case n.Rounds > who.Round:
		e.follow(n, who.Round)
	case n.Phase != turn.Open:
		n.PC = finish
	default: // somebody else has claimed the turn and may never be heard: the machine tries again
	}
}

// follow is what the machine does after a recorded round.
func (e *explorer) follow(n *world, round int8) {
	calls := e.calls[round]
	if n.Cut && n.Rounds == round+1 {
		calls = 0
	}
	then, _ := e.after(int(round), calls, int(n.Spent), e.limits)
	if then == turn.Finish {
		n.PC = finish
		return
	}
	n.PC, n.Then, n.Round = tools, then, round
	n.Spent += int8(turn.Events(calls))
	n.BegunNow = [3]int8{}
	for k := range n.Calls {
		n.Calls[k] = over
		if k < calls && n.Results[round]&(1<<k) == 0 {
			n.Calls[k] = waiting
		}
	}
}

// toolSteps are the calls of the round, each on its own.
func (e *explorer) toolSteps(w world, will, fault offer) {
	ready := true
	for k, c := range w.Calls {
		id := string(rune('1' + k))
		switch c {
		case waiting:
			ready = false
			will("call "+id+" begins", func(n *world) { n.Calls[k] = e.callBegins(n, int(n.Round), k) })
			fault("call "+id+" cannot begin", func(n *world) { n.Calls[k] = lost })
		case running:
			ready = false
			will("call "+id+" records its result", func(n *world) { n.record1(n.Round, k); n.Calls[k] = over })
			fault("call "+id+" dies, repeated", func(n *world) { n.Calls[k] = waiting })
			fault("call "+id+" dies, given up", func(n *world) { n.Calls[k] = lost })
			fault("call "+id+" records, its answer is lost", func(n *world) { n.record1(n.Round, k); n.Calls[k] = waiting })
			if !w.StrayTool.On {
				fault("the machine loses sight of call "+id, func(n *world) {
					n.StrayTool, n.Calls[k] = late{true, n.Round, int8(k)}, waiting
				})
			}
		case lost:
			ready = false
			will("the loss of call "+id+" is recorded", func(n *world) {
				r := n.record()
				r.Result = n.Results[n.Round]&(1<<k) != 0
				if e.call(r) == turn.Work {
					n.record1(n.Round, k)
				}
				n.Calls[k] = over
			})
			fault("the loss of call "+id+" is lost, too", func(n *world) { n.Calls[k] = over })
		}
	}
	if ready {
		will("the round is over", func(n *world) {
			n.PC, n.Round, n.Calls = model, n.Round+1, [3]int8{}
			if n.Then == turn.Continue {
				n.PC = goOn
			}
			n.Then = ""
		})
	}
}

func (e *explorer) callBegins(n *world, round, k int) int8 {
	r := n.record()
	r.Result = n.Results[round]&(1<<k) != 0
	if e.call(r) != turn.Work {
		return over
	}
	if n.Phase != turn.Open {
		n.wrong("P2, P7: a call begins in a turn that is %s", n.Phase)
	}
	if n.Stop {
		n.wrong("P6: a call begins after a stop")
	}
	if r.Result {
		n.wrong("P5: a call that has its result begins again")
	}
	n.BegunNow[k]++
	if spent := e.faults - n.Faults; n.BegunNow[k] > 1+spent {
		n.wrong("P5: a call began %d times, and only %d things went wrong", n.BegunNow[k], spent)
	}
	return running
}

// record1 records a result on the condition that there is none: the first one stays (P4).
func (w *world) record1(round int8, k int) { w.Results[round] |= 1 << k }

// strays are steps that the machine does not listen to any more.
func (e *explorer) strays(w world, will offer) {
	switch {
	case w.Stray.Attempt < 0:
		will("a repeated model step begins late", func(n *world) { e.modelBegins(n, &n.Stray, w.Stray.Round, false) })
	case w.Stray.Attempt > 0:
		will("a stray model step records its round", func(n *world) { e.commit(n, n.Stray, false, false); n.Stray = worker{} })
		will("a stray model step ends", func(n *world) { n.Stray = worker{} })
	}
	if w.StrayTool.On {
		will("a stray call records its result", func(n *world) {
			n.record1(n.StrayTool.Round, int(n.StrayTool.Call))
			n.StrayTool = late{}
		})
	}
}
