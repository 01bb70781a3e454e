package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"toolrounds/shared/run"
)

// PlatformError is a failure of the platform under a step: the machine may repeat the step. Its name is what the machine's Retry
// knows it by.
type PlatformError struct{ Cause string }

func (e *PlatformError) Error() string { return e.Cause }

// Step makes a handler of a step's use case. What the use case returns as an error is the platform's: everything else is recorded.
func Step[In, Out any](use func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		out, err := use(ctx, in)
		if err != nil {
			return out, &PlatformError{Cause: err.Error()}
		}
		return out, nil
	}
}

// RunTool is the step of one call.
func (a *App) RunTool(ctx context.Context, in run.CallStep) (struct{}, error) {
	return struct{}{}, a.Runs.RunTool(ctx, in)
}

// Last is what the last states of the machine ask for.
type Last struct {
	run.Step
	Do string `json:"step"` // finish, background or continue
}

// End is the step of the last states.
func (a *App) End(ctx context.Context, in Last) (run.Finished, error) {
	switch in.Do {
	case "background":
		return run.Finished{Step: in.Step}, a.Runs.Background(ctx, in.Step)
	case "continue":
		return run.Finished{Step: in.Step}, a.Runs.Continue(ctx, in.Step)
	case "finish":
		return a.Runs.Finish(ctx, in.Step)
	}
	return run.Finished{}, fmt.Errorf("unknown step %q", in.Do)
}

// StatusChange is EventBridge's report on an execution; without a name in its detail it is the schedule's call.
type StatusChange struct {
	Detail Execution `json:"detail"`
}

// Execution is the one that a report is about.
type Execution struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Input  string `json:"input"`
}

// UnmarshalJSON takes the schedule's detail, which is not an object but the text "{}", for none.
func (e *Execution) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] != '{' {
		return nil
	}
	type plain Execution
	return json.Unmarshal(raw, (*plain)(e))
}

// Sweep ends the run of an execution that failed, or looks after all runs whose deadline has passed.
func (a *App) Sweep(ctx context.Context, in StatusChange) (struct{}, error) {
	if in.Detail.Name == "" {
		return struct{}{}, errors.Join(a.Runs.Sweep(ctx), a.Live.Ping(ctx))
	}
	var step run.Step
	if err := json.Unmarshal([]byte(in.Detail.Input), &step); err != nil {
		return struct{}{}, fmt.Errorf("read the execution's input: %w", err)
	}
	return struct{}{}, a.Runs.Abandoned(ctx, step, in.Detail.Status)
}

// AdminRequest is what operators invoke the admin function with.
type AdminRequest struct {
	Op       string `json:"op"` // create_admin
	Email    string `json:"email"`
	Name     string `json:"name"`
	Password string `json:"password"`
}

// AdminAnswer tells the account and its API key.
type AdminAnswer struct {
	ID     string `json:"id"`
	Email  string `json:"email"`
	APIKey string `json:"api_key"`
}

// Admin makes the first administrator. Only those whom IAM lets invoke the function get here.
func (a *App) Admin(ctx context.Context, in AdminRequest) (AdminAnswer, error) {
	if in.Op != "create_admin" {
		return AdminAnswer{}, errors.New(`op must be "create_admin"`)
	}
	u, key, err := a.Accounts.CreateAdmin(ctx, in.Email, in.Name, in.Password)
	if err != nil {
		return AdminAnswer{}, err
	}
	return AdminAnswer{ID: u.ID, Email: u.Email, APIKey: key}, nil
}
