package server

import (
	"context"
	"encoding/json"
	"errors"

	"toolrounds/shared/event"
	"toolrounds/shared/mcp"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// The answers to an MCP server's question.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// elicit puts a server's questions to the user, as tools' questions are put. Where nobody can be asked, or nobody answers, the server is
// told that the question was cancelled.
func elicit(c Connection, put func(context.Context, event.Event) (json.RawMessage, error)) mcp.Elicit {
	return func(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
		data := map[string]any{"server": c.ID, "server_name": c.Name, "message": q.Message}
		if q.URL != "" {
			data["mode"], data["url"] = "url", q.URL
		} else {
			data["mode"], data["requested_schema"] = "form", q.Schema
		}
		raw, err := put(ctx, event.New(event.Elicitation, data))
		switch {
		case ctx.Err() != nil:
			return mcp.Answer{}, context.Cause(ctx)
		case errors.Is(err, run.ErrOver):
			return mcp.Answer{}, err
		case err != nil:
			return mcp.Answer{Action: cancel}, nil
		}
		return answered(raw), nil
	}
}

// answered reads what a client answered: {"action", "content"} as the protocol has it, the content alone, or yes or no.
func answered(raw json.RawMessage) mcp.Answer {
	var v any
	if table.Decode(raw, &v) != nil {
		return mcp.Answer{Action: cancel}
	}
	switch v := v.(type) {
	case bool:
		if v {
			return mcp.Answer{Action: accept, Content: map[string]any{}}
		}
		return mcp.Answer{Action: decline}
	case map[string]any:
		content, _ := v["content"].(map[string]any)
		switch action := text(v, "action"); {
		case action == accept:
			return mcp.Answer{Action: accept, Content: content}
		case action == decline, action == cancel:
			return mcp.Answer{Action: action}
		case v["error"] != nil:
			return mcp.Answer{Action: cancel}
		}
		return mcp.Answer{Action: accept, Content: v}
	}
	return mcp.Answer{Action: cancel}
}
