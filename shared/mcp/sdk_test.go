package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAgainstTheSDK talks to the SDK's own server, over both transports: questions, what servers ask that nobody answers, lists that
// change meanwhile, and progress.
func TestAgainstTheSDK(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	type none struct{}
	say := func(s string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}, nil, nil
	}
	sdk.AddTool(server, &sdk.Tool{Name: "ask"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		schema := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)
		res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who?", RequestedSchema: schema})
		if err != nil {
			return say("refused")
		}
		return say(fmt.Sprint(res.Action, res.Content["name"]))
	})
	sdk.AddTool(server, &sdk.Tool{Name: "roots"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		//lint:ignore SA1019 servers still ask for roots, and must get an answer
		roots, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		return say(fmt.Sprint(len(roots.Roots), " roots"))
	})
	sdk.AddTool(server, &sdk.Tool{Name: "grow"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		server.AddTool(&sdk.Tool{Name: "grown", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 0.5, Message: "half"})
		if err != nil {
			return nil, nil, err
		}
		return say("grown")
	})
	get := func(*http.Request) *sdk.Server { return server }
	for name, handler := range map[string]http.Handler{
		"streamable": sdk.NewStreamableHTTPHandler(get, nil),
		"JSON":       sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{JSONResponse: true}),
		"stateless":  sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}),
		"SSE":        sdk.NewSSEHandler(get, nil),
	} {
		t.Run(name, func(t *testing.T) {
			peer := httptest.NewServer(handler)
			t.Cleanup(func() {
				peer.CloseClientConnections()
				peer.Close()
			})
			c := short(t, nil)
			s := Server{ID: "peer", URL: peer.URL, User: "u"}
			if l, err := c.List(t.Context(), s); err != nil || len(l.Tools) < 3 {
				t.Fatalf("%+v, %v", l, err)
			}
			call := func(r Request, want string) {
				t.Helper()
				if got, err := c.Call(t.Context(), s, r); err != nil || got.Content != want {
					t.Errorf("%s: %+v, %v, want %q", r.Name, got, err, want)
				}
			}
			call(Request{Name: "ask"}, "refused")
			if name == "JSON" || name == "stateless" {
				return // where a server cannot say anything but the answer
			}
			var last Progress
			call(Request{Name: "grow", Progress: func(p Progress) { last = p }}, "grown")
			if last.Message != "half" || last.Done != 0.5 {
				t.Errorf("progress %+v", last)
			}
			call(Request{Name: "roots"}, "0 roots")
			for _, a := range []Answer{{Action: "accept", Content: map[string]any{"name": "Ada"}}, {Action: "decline"}} {
				want := fmt.Sprint(a.Action, a.Content["name"])
				call(Request{Name: "ask", Elicit: func(_ context.Context, q Question) (Answer, error) {
					has(t, q.Message+string(q.Schema), "Who?{")
					return a, nil
				}}, want)
			}
			call(Request{Name: "ask", Elicit: func(context.Context, Question) (Answer, error) { return Answer{}, errors.New("gone") }}, "refused")
		})
	}
}
