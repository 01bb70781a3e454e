package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/fault"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// servers are tools of other servers that answer as the test says.
type servers struct {
	offers run.Offers
	err    error
	asked  run.Ask
	call   func(ctx context.Context, c run.ServerCall) (run.Result, error)
}

func (s *servers) Offer(_ context.Context, ask run.Ask) (run.Offers, error) {
	s.asked = ask
	return s.offers, s.err
}

func (s *servers) Call(ctx context.Context, c run.ServerCall) (run.Result, error) {
	if s.call == nil {
		return run.Result{Content: c.Entry.Provider + " " + c.Entry.Toolkit + "/" + c.Entry.Function + string(c.Arguments), Status: run.Completed}, nil
	}
	return s.call(ctx, c)
}

func offer(provider, id, prefix string, names ...string) run.Offer {
	o := run.Offer{ID: id, Provider: provider, Prefix: prefix}
	for _, n := range names {
		o.Functions = append(o.Functions, run.Function{Name: n, Spec: tool.Spec{Name: n, Description: "of " + id, Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}})
	}
	return o
}

// prepared is what Prepare made of the one run.
func (w *world) prepared(id string) (work run.Work, names string) {
	w.t.Helper()
	item, ok, err := table.One(context.Background(), &w.disk, table.Work(id))
	if err != nil || !ok {
		w.t.Fatal("no work", err)
	}
	if err := item.JSON("doc", &work); err != nil {
		w.t.Fatal(err)
	}
	var tools []struct{ Function tool.Spec }
	if err := json.Unmarshal(work.Tools, &tools); err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, t := range tools {
		all = append(all, t.Function.Name)
	}
	return work, strings.Join(all, " ")
}

func (w *world) message() chat.Message {
	w.t.Helper()
	r, ok, err := w.quiet().Chats.Message(context.Background(), chatID, message)
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
	return r.Message
}

func TestServersAreOffered(t *testing.T) {
	mcp := offer(run.MCP, "server:mcp:m", "m", "m_find")
	mcp.Functions[0].Name, mcp.Prompt = "find", "MCP server \"m\" instructions:\nBe kind."
	terminal := offer(run.Terminal, "terminal:t", "t", "slow", "shell")
	terminal.Prompt = "You have a computer."
	down := run.Offer{ID: "server:mcp:down", Provider: run.MCP, Problem: "Failed to connect to MCP server 'down'"}
	fake := &servers{offers: run.Offers{
		Tools:    []run.Offer{mcp, offer(run.OpenAPI, "server:b", "b", "add", "get"), down, offer(run.OpenAPI, "server:a", "a", "get")},
		Terminal: &terminal,
	}}
	script := []reply{{calls: []call{{"b_add", `{"x": 1}`}, {"m_find", `{}`}, {"shell", `{}`}, add(1, 2), {"nope", `{}`}}}, {text: "end"}}
	inWorld(t, definition(t), script, func(w *world) {
		w.servers = fake
		ids := []any{"server:mcp:m", "server:a", "kit", "server:b", "server:mcp:down", "server:a", "server:gone"}
		accepted := w.mustAccept(with("tool_ids", ids), with("terminal_id", "t"))
		w.settle()
		o := w.ended()
		work, names := w.prepared(accepted.Runs[0])
		if first, rest, _ := strings.Cut(names, " "); first != "get" || !strings.HasSuffix(rest, "b_add b_get m_find slow shell") || strings.Count(names, "slow") != 1 {
			t.Errorf("offered: %s", names)
		}
		if e := work.Table["slow"]; e.Provider != run.Terminal {
			t.Errorf("a terminal's function wins: %+v", e)
		}
		system, _ := work.Messages[0].(map[string]any)
		if system["content"] != "MCP server \"m\" instructions:\nBe kind.\nYou have a computer." {
			t.Errorf("system message %v", system)
		}
		for _, want := range []string{`openapi server:b/add{\"x\":1}`, "mcp server:mcp:m/find{}", "terminal terminal:t/shell{}", `Tool \"nope\" not found`} {
			if !strings.Contains(o.Output, want) {
				t.Errorf("no %s in %s", want, o.Output)
			}
		}
		history, _ := w.message()["statusHistory"].([]any)
		status, _ := history[0].(map[string]any)
		if status["action"] != "tool_connection" || status["description"] != down.Problem || status["error"] != true || status["done"] != true {
			t.Errorf("status %v", status)
		}
		if fake.asked.Terminal != "t" || len(fake.asked.ToolIDs) != 6 || fake.asked.User.ID != owner {
			t.Errorf("asked for %+v", fake.asked)
		}
	})
}

func TestTerminalThatIsNotThere(t *testing.T) {
	const why = "Terminal unavailable: Terminal server 't' is unavailable"
	inWorld(t, definition(t), nil, func(w *world) {
		w.servers = &servers{err: fault.New(fault.Unavailable, why)}
		accepted := w.mustAccept(with("terminal_id", "t"), with("session_id", nil))
		w.settle()
		if o := w.ended(); o.Error != why || len(w.asked) != 0 {
			t.Errorf("%+v, the model was asked %d times", o, len(w.asked))
		}
		reply, closed, err := w.quiet().Wait(context.Background(), chatID, accepted.Runs[0])
		if err != nil || !closed || reply == nil || reply.Status != 503 || string(reply.Body) != `{"detail":"`+why+`"}` {
			t.Errorf("%+v, %v, %v", reply, closed, err)
		}
	})
}

func TestServerCalls(t *testing.T) {
	for name, c := range map[string]struct {
		call   func(context.Context, run.ServerCall) (run.Result, error)
		result string // what the result item holds
		status int    // entries of the history
	}{
		"taken away": {func(context.Context, run.ServerCall) (run.Result, error) {
			return run.Result{}, fault.New(fault.NotFound, fault.TextNotFound)
		}, `Error: Tool \"get\" is not available any more.`, 0},
		"silent": {func(ctx context.Context, _ run.ServerCall) (run.Result, error) {
			<-ctx.Done()
			return run.Result{}, context.Cause(ctx)
		}, "Error: the tool did not finish within 600 seconds.", 0},
		"with a file": {func(context.Context, run.ServerCall) (run.Result, error) {
			return run.Result{Content: "f", Status: run.Completed, Files: []any{map[string]any{"type": "audio", "url": "data:audio/wav;base64,AAAA"}}}, nil
		}, `"files":[{"type":"audio","url":`, 0},
		"told": {func(_ context.Context, c run.ServerCall) (run.Result, error) {
			for i := range 50 {
				c.Tell(fmt.Sprintf("%d of 50", i), false)
				time.Sleep(100 * time.Millisecond)
			}
			c.Tell("done", true)
			return run.Result{Content: "t", Status: run.Completed}, nil
		}, `"text":"t"`, 6},
	} {
		inWorld(t, definition(t), []reply{{calls: []call{{"get", `{}`}}}, {text: "end"}}, func(w *world) {
			w.servers = &servers{offers: run.Offers{Tools: []run.Offer{offer(run.OpenAPI, "server:a", "a", "get")}}, call: c.call}
			w.mustAccept(with("tool_ids", []any{"server:a"}))
			w.settle()
			if o := w.ended(); o.Content != "end" || !strings.Contains(o.Output, c.result) || o.Status != c.status {
				t.Errorf("%s: %+v", name, o)
			}
		})
	}
}

// A stop reaches a call that another server does not answer.
func TestStopOfServerCall(t *testing.T) {
	inWorld(t, definition(t), []reply{{calls: []call{{"get", `{}`}}}, {text: "end"}}, func(w *world) {
		cancelled := false
		w.servers = &servers{offers: run.Offers{Tools: []run.Offer{offer(run.OpenAPI, "server:a", "a", "get")}}, call: func(ctx context.Context, _ run.ServerCall) (run.Result, error) {
			<-ctx.Done()
			cancelled = true
			return run.Result{}, context.Cause(ctx)
		}}
		w.mustAccept(with("tool_ids", []any{"server:a"}))
		time.Sleep(20 * time.Second)
		w.stop()
		w.settle()
		if !cancelled {
			t.Error("the call goes on")
		}
	})
}
