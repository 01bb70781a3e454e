package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Task is what a Lambda function does with a payload. The name of an error's type is the name that Retry and Catch know, as with the
// Go runtime of Lambda; an *Error names itself.
type Task func(payload json.RawMessage) (any, error)

// Error is a failure by name: of a state, or of an execution.
type Error struct{ Name, Cause string }

func (e *Error) Error() string { return e.Name + ": " + e.Cause }

// Machine carries out a definition. Its clock is the process's: under synctest waiting takes no time.
type Machine struct {
	Definition *Definition
	Tasks      map[string]Task // by the name of the substitution, such as ModelFunctionArn
}

// Execution is what an execution has done so far.
type Execution struct {
	mu     sync.Mutex
	events int
	path   []string
}

// Events is the number of history events.
func (e *Execution) Events() int { e.mu.Lock(); defer e.mu.Unlock(); return e.events }

// Path is the states entered, in order.
func (e *Execution) Path() []string { e.mu.Lock(); defer e.mu.Unlock(); return slices.Clone(e.path) }

func (e *Execution) count(n int) { e.mu.Lock(); defer e.mu.Unlock(); e.events += n }

func (e *Execution) enter(state string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events++
	e.path = append(e.path, state)
}

// Run carries out one execution. When the context ends, it is aborted: nothing more is begun, and what a task is doing goes on unheard.
// The error is an *Error: that of a Fail state or of a failure that nothing caught, or Aborted.
func (m *Machine) Run(ctx context.Context, e *Execution, input any) (any, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	e.count(2) // ExecutionStarted and its end
	return m.run(ctx, e, m.Definition, value)
}

func (m *Machine) run(ctx context.Context, e *Execution, d *Definition, input any) (any, error) {
	for name := d.StartAt; ; {
		state, ok := d.States[name]
		if !ok {
			return nil, &Error{"States.Runtime", "no state " + name}
		}
		if ctx.Err() != nil {
			return nil, &Error{"Aborted", "stopped before " + name}
		}
		e.enter(name)
		if state.Type == "Fail" {
			return nil, &Error{state.Error, state.Cause}
		}
		output, next, err := m.step(ctx, e, state, input)
		if err != nil {
			return nil, err
		}
		e.count(1) // StateExited
		if state.Type == "Succeed" || state.End {
			return output, nil
		}
		name, input = next, output
	}
}

// step carries out one state and says what follows.
func (m *Machine) step(ctx context.Context, e *Execution, s *State, input any) (output any, next string, err error) {
	var result any
	switch s.Type {
	case "Succeed", "Pass":
		output, err = shaped(s.Output, input, map[string]any{"input": input})
		return output, s.Next, err
	case "Choice":
		next, err = choose(s, input)
		return input, next, err
	case "Task":
		result, err = m.retried(ctx, e, s, func() (any, error) { return m.task(ctx, e, s, input) })
	case "Map":
		result, err = m.retried(ctx, e, s, func() (any, error) { return m.each(ctx, e, s, input) })
	default:
		err = &Error{"States.Runtime", "type " + s.Type}
	}
	var failed *Error
	if errors.As(err, &failed) && failed.Name != "Aborted" {
		for _, c := range s.Catch {
			if matches(c.ErrorEquals, failed.Name) {
				told := map[string]any{"Error": failed.Name, "Cause": failed.Cause}
				output, err = shaped(c.Output, told, map[string]any{"input": input, "errorOutput": told})
				return output, c.Next, err
			}
		}
	}
	if err != nil {
		return nil, "", err
	}
	output, err = shaped(s.Output, result, map[string]any{"input": input, "result": result})
	return output, s.Next, err
}

// shaped is a state's output: as its expression says, or the value that stands without one.
func shaped(text string, otherwise any, states map[string]any) (any, error) {
	if text == "" {
		return otherwise, nil
	}
	v, err := evaluate(text, states)
	if err != nil {
		return nil, &Error{"States.QueryEvaluationError", err.Error()}
	}
	if _, none := v.(undefined); none {
		return nil, &Error{"States.QueryEvaluationError", text + " gives nothing"}
	}
	return v, nil
}

func choose(s *State, input any) (string, error) {
	for _, c := range s.Choices {
		v, err := shaped(c.Condition, nil, map[string]any{"input": input})
		if err != nil {
			return "", err
		}
		if v == true {
			return c.Next, nil
		}
	}
	if s.Default == "" {
		return "", &Error{"States.NoChoiceMatched", ""}
	}
	return s.Default, nil
}

// retried does something until it succeeds or no Retry is left for its error.
func (m *Machine) retried(ctx context.Context, e *Execution, s *State, do func() (any, error)) (any, error) {
	tried := make([]int, len(s.Retry))
	for {
		result, err := do()
		var failed *Error
		if !errors.As(err, &failed) || failed.Name == "Aborted" {
			return result, err
		}
		i := slices.IndexFunc(s.Retry, func(r Retry) bool { return matches(r.ErrorEquals, failed.Name) })
		if i < 0 || tried[i] >= s.Retry[i].attempts() {
			return nil, err
		}
		pause := float64(max(1, s.Retry[i].IntervalSeconds)) * math.Pow(max(1, s.Retry[i].BackoffRate), float64(tried[i]))
		tried[i]++
		select {
		case <-ctx.Done():
			return nil, &Error{"Aborted", "stopped between two tries"}
		case <-time.After(time.Duration(pause * float64(time.Second))):
		}
	}
}

func (r Retry) attempts() int {
	if r.MaxAttempts == nil {
		return 3
	}
	return *r.MaxAttempts
}

// matches tells whether an error is among those named. States.ALL is all but those that nothing catches.
func matches(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, "States.ALL") && name != "States.DataLimitExceeded" && name != "States.Runtime"
}

// limit is the most that a state may hand on, in bytes.
const limit = 256 << 10

func (m *Machine) task(ctx context.Context, e *Execution, s *State, input any) (any, error) {
	payload, err := shaped(s.Arguments.Payload, nil, map[string]any{"input": input})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, &Error{"States.Runtime", err.Error()}
	}
	task, ok := m.Tasks[s.Function()]
	if !ok {
		return nil, &Error{"States.Runtime", "no function " + s.Function()}
	}
	type answer struct {
		value any
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		value, err := task(raw)
		answered <- answer{value, err}
	}()
	e.count(3) // TaskScheduled, TaskStarted, and TaskSucceeded or TaskFailed
	timeout := time.NewTimer(time.Duration(s.TimeoutSeconds) * time.Second)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return nil, &Error{"Aborted", "stopped in the middle of a task"}
	case <-timeout.C:
		return nil, &Error{"States.Timeout", fmt.Sprintf("after %d s", s.TimeoutSeconds)}
	case a := <-answered:
		if a.err != nil {
			return nil, named(a.err)
		}
		return result(a.value)
	}
}

// result is a task's answer as the state sees it.
func result(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{"States.Runtime", err.Error()}
	}
	if len(raw) > limit {
		return nil, &Error{"States.DataLimitExceeded", fmt.Sprintf("%d bytes", len(raw))}
	}
	var payload any
	if err := json.Unmarshal(raw, &payload); err != nil {
		return nil, &Error{"States.Runtime", err.Error()}
	}
	return map[string]any{"Payload": payload, "StatusCode": float64(200)}, nil
}

// named gives an error the name that the Go runtime of Lambda reports: that of its type.
func named(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return &Error{t.Name(), err.Error()}
}

// each carries out a Map: MaxConcurrency items at once; the first failure ends it.
func (m *Machine) each(ctx context.Context, e *Execution, s *State, input any) (any, error) {
	value, err := shaped(s.Items, nil, map[string]any{"input": input})
	if err != nil {
		return nil, err
	}
	items, ok := value.([]any)
	if !ok {
		return nil, &Error{"States.QueryEvaluationError", fmt.Sprintf("Items is a %T", value)}
	}
	e.count(2) // MapStateStarted, and MapStateSucceeded or MapStateFailed
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, max(1, min(s.MaxConcurrency, len(items))))
	outputs, failures := make([]any, len(items)), make([]error, len(items))
	var wait sync.WaitGroup
	for i, item := range items {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			e.count(2) // MapIterationStarted and its end
			if outputs[i], failures[i] = m.run(ctx, e, s.ItemProcessor, item); failures[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	for _, err := range failures {
		if failed, ok := errors.AsType[*Error](err); ok && failed.Name != "Aborted" {
			return nil, err
		}
	}
	return outputs, errors.Join(failures...)
}
