package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// TextStopped is the result of a call whose run was stopped while it ran.
const TextStopped = "Error: the run was stopped."

// RunTool runs one call and records its result, once: a call that has its result already is not run again. It is run again after a
// death before the result was recorded, with the same idempotency key (promise P5). An error means that the platform failed, and
// that the machine may try again.
func (s *Service) RunTool(ctx context.Context, step CallStep) error {
	runKey, workKey := table.Run(step.Chat, step.Run), table.Work(step.Run)
	callKey := table.Call(step.Run, step.Round, step.Index)
	found, err := s.Table.Get(ctx, runKey, workKey, callKey)
	if err != nil {
		return fmt.Errorf("read call: %w", err)
	}
	callItem, ok := found[callKey]
	runItem, alive := found[runKey]
	if !ok || !alive {
		return nil // the chat was deleted, or everything has expired
	}
	r, err := runOf(runItem)
	if err != nil {
		return err
	}
	c, err := callOf(callItem)
	if err != nil {
		return err
	}
	decision := r.record()
	decision.Result = c.result != nil
	if turn.Call(decision) != turn.Work {
		return nil
	}
	if step.Lost != "" {
		return s.answer(ctx, callKey, s.refusal("Error: the tool could not be run: "+step.Lost))
	}
	var w Work
	if err := found[workKey].JSON(attrDoc, &w); err != nil {
		return err
	}
	result, err := s.call(ctx, step, &w, c)
	if err != nil {
		return err
	}
	if r.Mode == Legacy {
		asEvents(result, s.Now())
	}
	if err := s.emit(ctx, s.feed(r), r, step, result.Events); err != nil && !errors.Is(err, ErrOver) {
		return err
	}
	if err := s.answer(ctx, callKey, result); err != nil {
		return err
	}
	s.results(ctx, r, step)
	return nil
}

// answer records a call's result; the first one stays.
func (s *Service) answer(ctx context.Context, call table.Key, result *Result) error {
	if result.ItemID == "" {
		result.ItemID = s.ItemID("fco")
	}
	_, err := s.Table.Apply(ctx, table.Update(call, table.Change{Set: map[string]any{attrResult: table.MustJSON(result)}}, table.No(attrResult)))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("record result: %w", err)
	}
	return nil
}

// call runs the tool with the rights that the user has now.
func (s *Service) call(ctx context.Context, step CallStep, w *Work, c callRecord) (*Result, error) {
	u, err := s.Accounts.User(ctx, w.Request.User)
	if err == nil && !u.Active() {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return s.refusal("Error: the account may not run tools any more."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read user: %w", err)
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.Request.Run != "" { // without a run, only the caller can stop it
		go s.watchStop(watched, cancel, step)
	}
	var result *Result
	if c.Entry.Provider == Python || s.Servers == nil {
		result, err = s.callToolkit(watched, u, step, w, c)
	} else {
		limited, done := context.WithTimeoutCause(watched, time.Duration(s.Limits.ToolSeconds)*time.Second, errSlowTool)
		defer done()
		if result, err = s.callServer(limited, u, step, w, c); errors.Is(context.Cause(limited), errSlowTool) && err != nil {
			return s.refusal(fmt.Sprintf("Error: the tool did not finish within %d seconds.", s.Limits.ToolSeconds)), nil
		}
	}
	switch {
	case errors.Is(context.Cause(watched), errStopped):
		return &Result{Content: TextStopped, Status: FailedCall}, nil
	case errors.As(err, &f): // deleted, or not allowed any more
		return s.refusal("Error: Tool \"" + c.Name + "\" is not available any more."), nil
	case err != nil:
		return nil, err
	}
	for _, img := range result.Images {
		url, err := s.Files.Save(ctx, u.ID, img)
		if err != nil {
			return nil, fmt.Errorf("store image: %w", err)
		}
		result.ImageURLs = append(result.ImageURLs, url)
	}
	return result, nil
}

var errSlowTool = errors.New("the tool took too long")

// callToolkit runs a function of a toolkit in the container.
func (s *Service) callToolkit(ctx context.Context, u access.User, step CallStep, w *Work, c callRecord) (*Result, error) {
	toolkit, err := s.Tools.Load(ctx, u, c.Entry.Toolkit)
	if err != nil {
		return nil, fmt.Errorf("load tool: %w", err)
	}
	token, broker := "", ""
	if s.Broker != nil && w.Request.BaseURL != "" && w.Request.Message != "" {
		if token, err = s.Broker.Ticket(ctx, s.ticket(step, w, u), time.Duration(s.Limits.ToolSeconds)*time.Second+toolSlack); err != nil {
			return nil, fmt.Errorf("make ticket: %w", err)
		}
		broker = w.Request.BaseURL + BrokerPath
	}
	result, err := s.Container.Call(ctx, Invocation{
		Token: token, BrokerURL: broker,
		Toolkit: toolkit, Function: c.Entry.Function, Arguments: c.Arguments, Key: fmt.Sprintf("%s/%d/%d", step.Run, step.Round, step.Index),
		User: u, Context: w.context(u), Seconds: s.Limits.ToolSeconds,
	})
	if err != nil {
		return nil, fmt.Errorf("call container: %w", err)
	}
	return &result, nil
}

// ticket names a call and whom it may ask.
func (s *Service) ticket(step CallStep, w *Work, u access.User) Ticket {
	return Ticket{
		Run: step.Run, Chat: step.Chat, Message: w.Request.Message, Round: step.Round, Index: step.Index, User: u.ID,
		Session: w.Request.Session(), Wait: w.Request.waits(),
	}
}

// watchStop cancels a call when its run is stopped, ended or deleted.
func (s *Service) watchStop(ctx context.Context, cancel context.CancelCauseFunc, step CallStep) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r, err := s.load(ctx, step.Chat, step.Run)
			if errors.Is(err, errGone) || err == nil && (r.Stop || r.Phase != turn.Open) {
				cancel(errStopped)
				return
			}
		}
	}
}

// context is what the container injects into the call, as a value of its own.
func (w *Work) context(u access.User) map[string]any {
	messageID := any(w.Request.Message)
	if w.Request.Message == "" {
		messageID = nil
	}
	return map[string]any{
		"metadata": w.Metadata, "messages": w.Messages, "files": orEmpty(list(w.Request.Body, "files")), "model": w.Model,
		"oauth_token": nil, "chat_id": w.Request.Chat, "message_id": messageID, "session_id": w.Metadata["session_id"],
		"base_url": w.Request.BaseURL,
	}
}
