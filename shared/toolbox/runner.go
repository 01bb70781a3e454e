package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// Spills keeps results that are too large for an answer of Lambda.
type Spills interface {
	PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error)
	Get(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

// Runner runs calls of runs in the container. It implements run.Container.
type Runner struct {
	Client *Client
	Spills Spills // nil: large results are cut
}

// Call implements run.Container. What the container cannot do is a failed result; an error is the platform's and may be tried again.
func (r *Runner) Call(ctx context.Context, inv run.Invocation) (run.Result, error) {
	req := CallRequest{
		UserID: inv.User.ID, Function: inv.Function, Arguments: inv.Arguments, Key: inv.Key, User: json.RawMessage(table.MustJSON(inv.User.Record())),
		Tool: Tool{
			ID: inv.Toolkit.ID, Version: inv.Toolkit.Version, Source: inv.Toolkit.Source, Valves: inv.Toolkit.Valves, UserValves: inv.Toolkit.UserValves,
		},
		Context: contextOf(inv.Context), Limits: Limits{Seconds: inv.Seconds},
	}
	if inv.BrokerURL != "" {
		req.Broker = &Broker{URL: inv.BrokerURL, Token: inv.Token}
	}
	key := "tmp/spill/" + inv.Key
	if r.Spills != nil {
		url, err := r.Spills.PresignPut(ctx, key, time.Duration(inv.Seconds)*time.Second+5*time.Minute)
		if err != nil {
			return run.Result{}, err
		}
		req.SpillURL = url
	}
	got, err := r.Client.Call(ctx, req)
	if failed, ok := asResult(err); ok {
		return failed, nil
	}
	if err != nil {
		return run.Result{}, err
	}
	if got.Result.Spilled {
		if got.Result, err = r.fetch(ctx, key); err != nil {
			return run.Result{}, err
		}
	}
	return resultOf(got)
}

// asResult turns what a tool brought upon itself into its result.
func asResult(err error) (run.Result, bool) {
	var refused *tool.ContainerError
	var crash *CrashError
	var large *TooLargeError
	switch {
	case errors.As(err, &crash) && crash.TimedOut():
		return failedResult("Error: the tool timed out."), true
	case errors.As(err, &large):
		return failedResult("Error: the call is too large for the tool container: " + large.Error()), true
	case errors.As(err, &refused):
		return failedResult("Error: " + refused.Message), true
	}
	return run.Result{}, false
}

func failedResult(text string) run.Result { return run.Result{Content: text, Status: run.FailedCall} }

func (r *Runner) fetch(ctx context.Context, key string) (Result, error) {
	raw, err := r.Spills.Get(ctx, key)
	if err != nil {
		return Result{}, fmt.Errorf("read spilled result: %w", err)
	}
	var result Result
	if err := json.Unmarshal(raw, &result); err != nil {
		return Result{}, fmt.Errorf("decode spilled result: %w", err)
	}
	if err := r.Spills.Delete(ctx, key); err != nil {
		return Result{}, fmt.Errorf("delete spilled result: %w", err)
	}
	return result, nil
}

func resultOf(got CallResult) (run.Result, error) {
	result := run.Result{Content: got.Result.Content, Status: string(got.Result.Status), Embeds: got.Result.Embeds, Images: got.Result.Images}
	for _, raw := range got.Result.Files {
		var f any
		if err := table.Decode(raw, &f); err != nil {
			return run.Result{}, fmt.Errorf("decode file of a result: %w", err)
		}
		result.Files = append(result.Files, f)
	}
	for _, e := range got.Events {
		var event map[string]any
		if err := table.Decode(e.Event, &event); err != nil || event == nil {
			continue // the container passes on whatever a tool emits; only objects are events
		}
		result.Events = append(result.Events, run.Event{At: e.At, N: e.N, Event: event})
	}
	return result, nil
}

func contextOf(c map[string]any) Context {
	raw := func(name string) json.RawMessage {
		if v, ok := c[name]; ok && v != nil {
			return json.RawMessage(table.MustJSON(v))
		}
		return nil
	}
	str := func(name string) *string {
		if s, ok := c[name].(string); ok {
			return &s
		}
		return nil
	}
	chatID, _ := c["chat_id"].(string)
	return Context{
		Metadata: raw("metadata"), Messages: raw("messages"), Files: raw("files"), Model: raw("model"), OAuthToken: raw("oauth_token"),
		ChatID: chatID, MessageID: str("message_id"), SessionID: str("session_id"),
	}
}
