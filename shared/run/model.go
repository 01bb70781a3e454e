package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
	"toolrounds/shared/turn"
)

// Asked is what CallModel tells the machine.
type Asked struct {
	Step
	Next  turn.Next  `json:"next"`
	Calls []CallStep `json:"calls"` // those of the round that have to be run
}

// CallStep names one call of a run.
type CallStep struct {
	Run   string `json:"run"`
	Chat  string `json:"chat"`
	Round int    `json:"round"`
	Index int    `json:"index"`
	Lost  string `json:"lost,omitempty"` // the machine gave up on the call: why
}

// How long things may take, and how often a model step shows that it lives.
const (
	ModelLimit  = 870 * time.Second      // one answer of a model; Lambda ends at 900 s
	stepLimit   = 900 * time.Second      // the whole model step
	leaseTime   = 3 * time.Second        // a claim lapses when it was not renewed for so long
	pulse       = 500 * time.Millisecond // renewal of the claim; also how soon a stop is seen
	logEvery    = 400 * time.Millisecond // how often streamed text is stored
	logFollowed = 80 * time.Millisecond  // the same, for somebody who waits for it
)

var (
	errStopped = errors.New("the run was stopped")
	errLost    = errors.New("another attempt took the run over")
	errTooLong = fmt.Errorf("the model did not finish its answer within %d seconds", int(ModelLimit.Seconds()))
)

// CallModel asks the model for one round and records what it answers. It may be repeated after a death: what an earlier try recorded is
// returned; otherwise the model is asked again, and what the dead one had streamed is forgotten.
func (s *Service) CallModel(ctx context.Context, step Step) (Asked, error) {
	over := Asked{Step: step, Next: turn.Finish, Calls: []CallStep{}}
	r, err := s.advance(ctx, step.Chat, step.Run, stepLimit, table.Change{
		Add: map[string]int64{attrAttempt: 1}, Set: map[string]any{attrLease: s.Now().Add(leaseTime).UnixMilli()},
	})
	if errors.Is(err, errGone) {
		return over, nil
	}
	if err != nil {
		return Asked{}, err
	}
	rec, err := s.gather(ctx, step.Run, false)
	if err != nil {
		return Asked{}, err
	}
	if rec.work == nil {
		return Asked{}, errors.New("the run was not prepared")
	}
	decision := r.record()
	decision.Committed = len(rec.rounds) > step.Round
	switch turn.Model(decision) {
	case turn.Leave, turn.End:
		return over, nil
	case turn.Replay:
		return s.next(step, rec, rec.rounds[step.Round])
	}
	a := &answer{Service: s, step: step, run: r, rec: rec, clock: newClock()}
	barred, err := a.barred(ctx)
	if err != nil {
		return Asked{}, err
	}
	if barred != nil {
		return s.recorded(ctx, step, r, rec, a.assemble(&openai.Round{Err: barred}, nil))
	}
	shown := func(*round) {}
	if !a.chooses() {
		if err := a.cite(ctx); err != nil {
			return Asked{}, err
		}
		shown = a.telling(ctx)
	}
	made := a.ask(ctx)
	if errors.Is(a.lost, errLost) {
		shown(nil)
		// Another try has claimed the run. Perhaps nobody hears it: only the one that is heard may say how the run goes on.
		return Asked{}, errLost
	}
	if ctx.Err() != nil {
		shown(nil)
		return Asked{}, context.Cause(ctx)
	}
	made.Over = !made.Choice && overLimit(step, made, s.Limits)
	return s.recorded(ctx, step, r, rec, made, shown)
}

// recorded commits what became of a round, tells those who saw it grow, and says what follows.
func (s *Service) recorded(ctx context.Context, step Step, r Run, rec *record, made round, shown ...func(*round)) (Asked, error) {
	err := s.commit(ctx, step, r, made)
	for _, tell := range shown {
		if err == nil {
			tell(&made)
		} else {
			tell(nil)
		}
	}
	if errors.Is(err, table.ErrCondition) {
		return s.afterRace(ctx, step)
	}
	if err != nil {
		return Asked{}, err
	}
	return s.next(step, rec, made)
}

// barred tells why the user may not ask the model any more: rights that are taken away end in the next round. What was accepted a
// moment ago was checked then.
func (a *answer) barred(ctx context.Context) (*fault.Error, error) {
	if a.step.Round == 0 {
		return nil, nil
	}
	req := a.rec.work.Request
	u, err := a.Accounts.User(ctx, req.User)
	if err == nil && !u.Active() {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return fault.New(fault.Forbidden, "The account may not be used any more."), nil
	}
	if err == nil {
		_, err = a.Models.Resolve(ctx, u, req.Model)
	}
	if errors.As(err, &f) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check rights: %w", err)
	}
	return nil, nil
}

func overLimit(step Step, made round, l Limits) bool {
	_, over := turn.After(step.Round, len(made.calls), 0, turn.Limits{Rounds: l.Rounds})
	return over
}

// afterRace decides for a try that came too late with its answer: the round is recorded, the run is over, or another try works on it.
func (s *Service) afterRace(ctx context.Context, step Step) (Asked, error) {
	r, err := s.load(ctx, step.Chat, step.Run)
	if errors.Is(err, errGone) || err == nil && r.Phase != turn.Open {
		return Asked{Step: step, Next: turn.Finish, Calls: []CallStep{}}, nil
	}
	if err != nil {
		return Asked{}, err
	}
	rec, err := s.gather(ctx, step.Run, false)
	if err != nil {
		return Asked{}, err
	}
	if len(rec.rounds) > step.Round {
		return s.next(step, rec, rec.rounds[step.Round])
	}
	return Asked{}, errLost
}

// next is what follows a recorded round.
func (s *Service) next(step Step, rec *record, made round) (Asked, error) {
	calls := len(made.calls)
	if made.Error != nil || made.Incomplete || !rec.work.Stream {
		calls = 0
	}
	next, _ := turn.After(step.Round, calls, step.Spent, turn.Limits{Rounds: s.Limits.Rounds, Events: s.Limits.Events})
	if made.Choice && !made.Incomplete { // the answer follows, whatever was chosen
		next = turn.Tools
	}
	out := Asked{Step: step, Next: next, Calls: []CallStep{}}
	if next == turn.Finish {
		return out, nil
	}
	for i, c := range made.calls {
		if c.result == nil {
			out.Calls = append(out.Calls, CallStep{Run: step.Run, Chat: step.Chat, Round: step.Round, Index: i})
		}
	}
	out.Step.Round++
	out.Step.Spent += turn.Events(len(out.Calls))
	return out, nil
}

// commit records a round and its calls, if the run is still this attempt's.
func (s *Service) commit(ctx context.Context, step Step, r Run, made round) error {
	waves := max(1, (len(made.calls)+sideBySide-1)/sideBySide)
	tools := time.Duration(waves) * (time.Duration(s.Limits.ToolSeconds)*time.Second + toolSlack)
	deadline := s.Now().Add(tools + slack).UnixMilli()
	expires := s.expires()
	own := table.Update(table.Run(step.Chat, step.Run), table.Change{
		Set: map[string]any{attrDeadline: deadline, attrLease: int64(0)}, Index: &[2]string{table.OpenRuns(shard(step.Run)), deadlineKey(deadline, step.Run)},
	}, table.Is(attrPhase, string(turn.Open)), table.Is(attrAttempt, r.Attempt))
	put := table.Put(table.Item{
		Key: table.Round(step.Run, step.Round), Expires: expires, Attr: map[string]any{attrDoc: table.MustJSON(made.roundDoc)},
	}, table.New())
	calls := make([]table.Op, len(made.calls))
	for i, c := range made.calls {
		item := table.Item{Key: table.Call(step.Run, step.Round, i), Expires: expires, Attr: map[string]any{attrDoc: table.MustJSON(c.callDoc)}}
		if c.result != nil {
			item.Attr[attrResult] = table.MustJSON(c.result)
		}
		calls[i] = table.Put(item)
	}
	fence := table.Check(table.Run(step.Chat, step.Run), table.Is(attrPhase, string(turn.Open)), table.Is(attrAttempt, r.Attempt))
	for len(calls) > maxTogether { // calls first: they count only once their round is there
		if err := s.Table.Transact(ctx, append([]table.Op{fence}, calls[:maxTogether]...)...); err != nil {
			return fmt.Errorf("record calls: %w", err)
		}
		calls = calls[maxTogether:]
	}
	if err := s.Table.Transact(ctx, append([]table.Op{own, put}, calls...)...); err != nil {
		return fmt.Errorf("record round %d: %w", step.Round, err)
	}
	return nil
}

// maxTogether is how many calls are recorded in one transaction with their round.
const maxTogether = 40

// sideBySide is how many calls the machine runs at once (MaxConcurrency of RunTools).
const sideBySide = 40

// toolSlack is what the machine and the container need around a call's own time.
const toolSlack = 60 * time.Second

// answer is one try to get a round from the model.
type answer struct {
	*Service
	step  Step
	run   Run
	rec   *record
	clock *clock

	mu      sync.Mutex // guards pending and untold
	pending []openai.Delta
	untold  []openai.Delta // for those who listen
	fresh   chan struct{}  // there is something untold; nil when nobody can listen
	renewed time.Time      // when the claim was last renewed, for telling
	batches int
	lost    error // errLost, errStopped or nil

	prefix string // what legacy tools wrote in front of the answer
}

// ask asks the model and returns the round, whatever became of it.
func (a *answer) ask(ctx context.Context) round {
	work := a.rec.work
	body := work.body(a.rec.rounds, a.Limits.ResultChars)
	opts := openai.StreamOptions{PriorCallIDs: a.rec.priorCalls(), KnownTools: work.names(), NewID: func() string { return a.ItemID("call") }}
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(ModelLimit, func() { cancel(errTooLong) })
	defer timer.Stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(asking, cancel)
	}()
	var got *openai.Round
	var reply *Reply
	var chosen []choice
	if a.chooses() {
		got = &openai.Round{}
		chosen, got.Err = a.choose(asking, work)
	} else if work.Stream && work.Mode == Prompted {
		got = a.prompted(func(sink func(openai.Delta) error) *openai.Round {
			got, _ := a.Provider.Stream(asking, body, opts, sink)
			return got
		})
	} else if work.Stream {
		got, _ = a.Provider.Stream(asking, body, opts, a.begin())
		got.Blocks = a.prefixed(got.Blocks)
	} else {
		got, reply = a.whole(asking, body, opts)
	}
	cause := context.Cause(asking)
	cancel(nil)
	<-watched
	if errors.Is(cause, errLost) || errors.Is(cause, errStopped) {
		a.lost = cause
	} else if errors.Is(cause, errTooLong) {
		got.Err = errTooLong
	}
	if a.chooses() {
		return a.chosen(chosen)
	}
	return a.assemble(got, reply)
}

// whole asks for an answer in one piece. Its calls are not run: the caller gets them as they are (spec/http.md D1).
func (a *answer) whole(ctx context.Context, body []byte, opts openai.StreamOptions) (*openai.Round, *Reply) {
	c, err := a.Provider.Complete(ctx, body)
	if err != nil {
		return &openai.Round{Err: err, Finish: openai.FinishError}, nil
	}
	got := c.Round(opts)
	got.Calls = nil
	got.Blocks = a.prefixed(got.Blocks)
	return got, &Reply{Status: c.Status, Type: "application/json", Body: withSourcesKey(c.Body, a.rec.sources())}
}

func (a *answer) assemble(got *openai.Round, reply *Reply) round {
	made := round{roundDoc: roundDoc{Usage: got.Usage, Reply: reply}}
	if got.Finish == openai.FinishLength {
		made.Finish = got.Finish
	}
	status := Completed
	if errors.Is(a.lost, errStopped) {
		status, made.Incomplete = Incomplete, true
	} else if got.Err != nil {
		var r *Reply
		made.Error, r = failure(got.Err)
		if made.Reply == nil {
			made.Reply = r
		}
	}
	made.Items = a.items(a.step.Run, a.step.Round, got.Blocks, a.clock, status, len(got.Calls) > 0)
	if made.Error == nil {
		for _, c := range got.Calls {
			made.calls = append(made.calls, a.call(c, made.Incomplete))
		}
	}
	made.Calls = len(made.calls)
	return made
}

// call turns one call of the model into one to be run: its arguments made sound, or, if it cannot be run, answered at once.
func (a *answer) call(c openai.Call, stopped bool) callRecord {
	made := callRecord{callDoc: callDoc{ID: c.ID, Name: c.Name, Arguments: c.Arguments}}
	if stopped {
		return made
	}
	entry, known := a.rec.work.Table[c.Name]
	clean, bad := tool.ParseArguments(c.Name, c.Arguments)
	if bad == nil {
		made.Arguments = clean
	}
	switch {
	case !known:
		made.result = a.refusal("Error: Tool \"" + c.Name + "\" not found.")
	case bad != nil:
		made.result = a.refusal(bad.Error())
	default:
		made.Entry = &entry
	}
	return made
}

// refusal is the result of a call that is not run.
func (s *Service) refusal(why string) *Result {
	return &Result{Content: why, Status: FailedCall, ItemID: s.ItemID("fco")}
}

// failure is how a model's failure stands on the message, and what a waiting caller gets of it (spec/http.md D5).
func failure(err error) (any, *Reply) {
	var status *openai.StatusError
	if errors.As(err, &status) {
		kind := status.Header.Get("Content-Type")
		if kind == "" {
			kind = "application/json"
		}
		return status.Message, &Reply{Status: status.Status, Type: kind, Body: status.Body}
	}
	var frame *openai.FrameError
	if errors.As(err, &frame) {
		var v any
		if table.Decode(frame.Object, &v) != nil {
			v = frame.Message
		}
		return v, nil
	}
	var known *fault.Error
	if !errors.As(err, &known) {
		known = fault.New(fault.Invalid, err.Error())
	}
	code, detail := fault.Status(known)
	return detail, &Reply{Status: code, Type: "application/json", Body: table.MustJSON(map[string]any{"detail": detail})}
}

// sink takes what the model streams.
func (a *answer) sink(d openai.Delta) error {
	a.clock.see(d, a.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = joined(a.pending, d)
	if a.fresh != nil {
		a.untold = joined(a.untold, d)
		select {
		case a.fresh <- struct{}{}:
		default: // it is known already
		}
	}
	return nil
}

// joined adds a delta to those that wait: one that goes on where the last one ended becomes part of it.
func joined(waiting []openai.Delta, d openai.Delta) []openai.Delta {
	if n := len(waiting); n > 0 && waiting[n-1].Kind == d.Kind && waiting[n-1].Block == d.Block && waiting[n-1].Call == d.Call &&
		(d.Kind == openai.Text || d.Kind == openai.Reasoning || d.Kind == openai.CallArguments) {
		waiting[n-1].Text += d.Text
		return waiting
	}
	if d.Kind == openai.Snapshot { // it replaces everything before it
		waiting = nil
	}
	return append(waiting, d)
}
