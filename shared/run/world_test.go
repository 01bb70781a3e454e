package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/app"
	"toolrounds/shared/chat"
	"toolrounds/shared/memory"
	"toolrounds/shared/openai"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/statemachine/asl"
)

// world is everything around a run: the table, the machine with its real definition, a model that follows a script, a container, and
// processes that can die. It runs in a synctest bubble, so waiting takes no time.
//
// Every Lambda invocation and every request is a process of its own. Whatever a process does with the world outside passes edge, which
// counts it and may let it fail, lose its answer, or let the process die there; a dead process does nothing any more.
type world struct {
	t      *testing.T
	disk   memory.Table
	def    *asl.Definition
	script []reply
	limits run.Limits

	mu         sync.Mutex
	ops        int
	log        []string                        // every edge, "process operation"
	fault      func(n int, op string) mode     // decides what happens at an edge
	pause      func(n int)                     // is called at an edge, before it is passed
	executions map[string]*execution           // by name
	alive      int                             // executions that run, and reports on their way
	ids        int                             //
	calls      map[string]int                  // how often the container ran each key
	asked      [][]any                         // the messages of each request to the model
	stopped    bool                            // a stop was acknowledged
	finals     map[table.Key]int               // how often a message was given its end
	results    map[table.Key]int               // how often a call was given its result
	begunLate  []string                        // what began after the stop
	content    func(inv run.Invocation) string // of big results
	invoked    int                             // invocations so far
	servers    run.Servers                     // of other tools; nil: none
	late       func(n int) time.Duration       // how late the n-th one begins, unheard; 0: in time
	modelTools bool                            // a model's own tools are added
}

// mode is what happens at an edge.
type mode int

const (
	pass     mode = iota
	fail          // nothing is done, an error comes back
	lose          // it is done, an error comes back
	die           // the process dies before
	dieAfter      // it is done, the process dies before it knows
	stray         // the caller loses sight of the process and takes it for dead; it goes on
	frozen        // as stray, and all of it stands still for a while before it goes on
)

var modes = map[mode]string{fail: "fails", lose: "loses its answer", die: "dies before", dieAfter: "dies after", stray: "goes on unheard", frozen: "stands still unheard"}

var (
	errFault = errors.New("the service is unavailable")
	errDead  = errors.New("this process is dead")
)

type execution struct {
	cancel context.CancelFunc
	asl.Execution
}

// newWorld must be called in a synctest bubble.
func newWorld(t *testing.T, def *asl.Definition, script ...reply) *world {
	return &world{
		t: t, def: def, script: slices.Clone(script), limits: run.Limits{Rounds: 8, ToolSeconds: 600, ResultChars: 2000, Events: 20_000},
		executions: map[string]*execution{}, calls: map[string]int{}, finals: map[table.Key]int{}, results: map[table.Key]int{},
	}
}

// process is one invocation of a function, or one request.
type process struct {
	*world
	name   string
	cancel context.CancelFunc
	after  bool // it began after a stop was acknowledged

	mu   sync.Mutex
	died chan struct{}
	lost chan struct{} // the caller does not hear it any more
	thaw time.Time     // until then it stands still
}

func (w *world) process(name string) (context.Context, *process) {
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	return ctx, &process{world: w, name: name, cancel: cancel, after: w.stopped, died: make(chan struct{}), lost: make(chan struct{}, 1)}
}

func (p *process) dead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead() {
		close(p.died)
		p.cancel()
	}
}

// edge is where the process touches the world.
func (p *process) edge(op string, do func() error) error {
	p.mu.Lock()
	still := time.Until(p.thaw)
	p.mu.Unlock()
	time.Sleep(still)
	if p.dead() {
		return errDead
	}
	w := p.world
	w.mu.Lock()
	w.ops++
	n, decide, pause := w.ops, w.fault, w.pause
	w.log = append(w.log, p.name+" "+op)
	w.mu.Unlock()
	if pause != nil {
		pause(n)
	}
	m := pass
	if decide != nil {
		m = decide(n, p.name+" "+op)
	}
	switch m {
	case fail:
		return errFault
	case lose:
		_ = do()
		return errFault
	case die:
		p.die()
		return errDead
	case dieAfter:
		_ = do()
		p.die()
		return errDead
	case stray, frozen:
		select {
		case p.lost <- struct{}{}:
		default:
		}
		if m == frozen {
			p.mu.Lock()
			p.thaw = time.Now().Add(10 * time.Second)
			p.mu.Unlock()
			time.Sleep(10 * time.Second)
		}
	}
	return do()
}

// service is the product as this process has it.
func (p *process) service() *run.Service {
	t := &edgeTable{p}
	return &run.Service{
		Table: t, Chats: &chat.Store{Table: t, Now: time.Now}, Accounts: accounts{}, Models: models{}, Tools: toolkits{},
		Provider: openai.New(openai.Config{
			BaseURL: "http://model/v1", FirstByte: 5 * time.Minute, Idle: 5 * time.Minute, HTTP: &http.Client{Transport: &provider{p}},
		}),
		Container: &container{p}, Files: files{}, Servers: p.servers, Machine: &machine{p}, Limits: p.limits, ModelTools: p.modelTools,
		Now:    time.Now,
		NewID:  func() string { return p.id("run") },
		ItemID: p.id,
	}
}

func (w *world) id(prefix string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("%s-%06d", prefix, w.ids)
}

// invoke runs a Lambda function: in a process of its own, at most for its limit of time.
func (w *world) invoke(name string, limit time.Duration, handler func(context.Context, *app.App) (any, error)) (any, error) {
	ctx, p := w.process(name)
	type answer struct {
		value any
		err   error
	}
	answered := make(chan answer, 1)
	var late time.Duration
	if w.late != nil {
		w.mu.Lock()
		w.invoked++
		late = w.late(w.invoked)
		w.mu.Unlock()
	}
	if late > 0 {
		p.lost <- struct{}{}
	}
	go func() {
		time.Sleep(late)
		defer p.cancel()
		v, err := handler(ctx, &app.App{Runs: p.service()})
		answered <- answer{v, err}
	}()
	select {
	case <-p.died:
		return nil, &asl.Error{Name: "Runtime.ExitError", Cause: "signal: killed"}
	case <-p.lost:
		return nil, &asl.Error{Name: "Lambda.Unknown", Cause: "the connection to the function was lost"}
	case <-time.After(limit):
		p.die()
		return nil, &asl.Error{Name: "Sandbox.Timedout", Cause: limit.String()}
	case a := <-answered:
		if p.dead() {
			return nil, &asl.Error{Name: "Runtime.ExitError", Cause: "signal: killed"}
		}
		return a.value, a.err
	}
}

// function is a Lambda function that serves a step as its main.go does.
func function[In, Out any](w *world, name string, limit time.Duration, use func(*app.App) func(context.Context, In) (Out, error)) asl.Task {
	return func(payload json.RawMessage) (any, error) {
		return w.invoke(name, limit, func(ctx context.Context, a *app.App) (any, error) {
			var in In
			if err := json.Unmarshal(payload, &in); err != nil {
				return nil, err
			}
			return app.Step(use(a))(ctx, in)
		})
	}
}

// tasks are the functions of the machine.
func (w *world) tasks() map[string]asl.Task {
	return map[string]asl.Task{
		"PrepareFunctionArn": function(w, "prepare", time.Minute, func(a *app.App) func(context.Context, run.Step) (run.Prepared, error) { return a.Runs.Prepare }),
		"ModelFunctionArn":   function(w, "model", 15*time.Minute, func(a *app.App) func(context.Context, run.Step) (run.Asked, error) { return a.Runs.CallModel }),
		"ToolFunctionArn":    function(w, "tool", 690*time.Second, func(a *app.App) func(context.Context, run.CallStep) (struct{}, error) { return a.RunTool }),
		"FinishFunctionArn":  function(w, "finish", 5*time.Minute, func(a *app.App) func(context.Context, app.Last) (run.Finished, error) { return a.End }),
	}
}

// start begins an execution, unless there was one of that name.
func (w *world) start(name string, input any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.executions[name] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &execution{cancel: cancel}
	w.executions[name] = e
	w.alive++
	go func() {
		m := asl.Machine{Definition: w.def, Tasks: w.tasks()}
		_, err := m.Run(ctx, &e.Execution, input)
		cancel()
		var bad *asl.Error
		if errors.As(err, &bad) {
			w.report(name, input, bad)
		}
		w.mu.Lock()
		w.alive--
		w.mu.Unlock()
	}()
}

// report is EventBridge's: an execution that ended badly is told to the sweeper, again after a failure.
func (w *world) report(name string, input any, bad *asl.Error) {
	status := "FAILED"
	if bad.Name == "Aborted" {
		status = "ABORTED"
	}
	raw, _ := json.Marshal(input)
	detail := map[string]any{"detail": map[string]any{"name": name, "status": status, "input": string(raw)}}
	payload, _ := json.Marshal(detail)
	for range 5 {
		time.Sleep(time.Second)
		if _, err := w.sweeper()(payload); err == nil {
			return
		}
		time.Sleep(time.Minute)
	}
}

// sweeper is the sweep function, as far as runs go.
func (w *world) sweeper() asl.Task {
	return function(w, "sweep", 2*time.Minute, func(a *app.App) func(context.Context, app.StatusChange) (struct{}, error) {
		return func(ctx context.Context, in app.StatusChange) (struct{}, error) {
			if in.Detail.Name == "" {
				return struct{}{}, a.Runs.Sweep(ctx)
			}
			var step run.Step
			if err := json.Unmarshal([]byte(in.Detail.Input), &step); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, a.Runs.Abandoned(ctx, step, in.Detail.Status)
		}
	})
}

// settle lets time pass, with the sweeper every minute, until no execution runs and nothing is open.
func (w *world) settle() {
	w.t.Helper()
	for range 60 {
		time.Sleep(time.Minute)
		if _, err := w.sweeper()(json.RawMessage(`{}`)); err != nil {
			continue
		}
		w.mu.Lock()
		alive := w.alive
		w.mu.Unlock()
		if alive == 0 && len(w.open()) == 0 {
			time.Sleep(20 * time.Minute) // strays come to their ends
			return
		}
	}
	w.t.Errorf("after an hour: %d executions run, open runs %v", w.alive, w.open())
}

// quiet is the product without a fault, for looking.
func (w *world) quiet() *run.Service {
	s := (&process{world: &world{t: w.t}, died: make(chan struct{}), cancel: func() {}}).service()
	s.Table = &w.disk
	s.Chats.Table = &w.disk
	return s
}

func (w *world) open() []string {
	w.t.Helper()
	ids, err := w.quiet().AllOpen(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

const (
	owner   = "user-1"
	chatID  = "chat-1"
	message = "message-2"
)

var user = access.User{ID: owner, Name: "Ada", Email: "ada@example.com", Role: access.RoleUser}
