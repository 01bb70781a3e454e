package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/mcp"
	"toolrounds/shared/openapi"
	"toolrounds/shared/run"
	"toolrounds/shared/tool"
)

// Times of what is done before a run begins, or while somebody looks at a list.
const (
	offerTime = 20 * time.Second
	lookTime  = 8 * time.Second
)

// Offer implements run.Servers. Servers are asked side by side.
func (s *Service) Offer(ctx context.Context, ask run.Ask) (run.Offers, error) {
	who := Who{User: ask.User, Chat: ask.Chat, Message: ask.Message}
	var offers run.Offers
	var wanted []Connection
	if len(ask.ToolIDs) > 0 {
		all, err := s.usable(ctx, ask.User)
		if err != nil {
			return offers, err
		}
		seen := map[string]bool{}
		for _, id := range ask.ToolIDs {
			i := slices.IndexFunc(all, func(c Connection) bool { return c.ToolID() == id })
			if i >= 0 && !seen[id] {
				seen[id] = true
				wanted = append(wanted, all[i])
			}
		}
	}
	terminal, asked, err := s.terminal(ctx, ask.User, ask.Terminal)
	if err != nil {
		return offers, err
	}
	limited, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	made := make([]*run.Offer, len(wanted))
	var wg sync.WaitGroup
	for i, c := range wanted {
		wg.Go(func() { made[i] = s.offer(limited, c, who) })
	}
	if asked {
		offers.Terminal, err = s.offerTerminal(limited, terminal, who)
	}
	wg.Wait()
	if ctx.Err() != nil {
		return run.Offers{}, context.Cause(ctx)
	}
	for _, o := range made {
		if o != nil {
			offers.Tools = append(offers.Tools, *o)
		}
	}
	return offers, err
}

// offer is what one tool server offers; nil when it is an OpenAPI server that is not there.
func (s *Service) offer(ctx context.Context, c Connection, who Who) *run.Offer {
	o := &run.Offer{ID: c.ToolID(), Prefix: c.ID, Provider: run.OpenAPI}
	if c.Type != typeMCP {
		d, err := s.documentOf(ctx, c, who)
		if err != nil {
			warn(c, who, err)
			return nil
		}
		o.Functions = functions(c, d.Specs())
		return o
	}
	o.Provider = run.MCP
	at, err := s.mcp(ctx, c, who)
	var listing mcp.Listing
	if err == nil {
		listing, err = s.MCP.List(ctx, at)
	}
	var auth *mcp.AuthError
	switch {
	case errors.As(err, &auth):
		o.Problem = fmt.Sprintf("Sign-in needed: MCP server '%s' did not accept who asks", c.ID)
		warn(c, who, err)
		return o
	case err != nil:
		o.Problem = fmt.Sprintf("Failed to connect to MCP server '%s'", c.ID)
		warn(c, who, err)
		return o
	}
	for _, t := range listing.Tools {
		o.Functions = append(o.Functions, run.Function{
			Name: t.Name, Spec: tool.Spec{Name: t.Offered, Description: t.Description, Parameters: t.Parameters},
		})
	}
	if listing.Instructions != "" {
		o.Prompt = fmt.Sprintf("MCP server \"%s\" instructions:\n%s", c.ID, listing.Instructions)
	}
	return o
}

func warn(c Connection, who Who, err error) {
	slog.Warn("ask a tool server", "server", c.ToolID(), "user", who.User.ID, "chat", who.Chat, "error", err)
}

func (s *Service) documentOf(ctx context.Context, c Connection, who Who) (*openapi.Document, error) {
	at, err := s.openapi(ctx, c, who)
	if err != nil {
		return nil, err
	}
	return s.OpenAPI.Document(ctx, at)
}

// functions are the specs that the connection's filter lets through.
func functions(c Connection, specs []tool.Spec) []run.Function {
	var all []run.Function
	for _, spec := range specs {
		if passes(c.Filter, spec.Name) {
			all = append(all, run.Function{Name: spec.Name, Spec: spec})
		}
	}
	return all
}

// Call implements run.Servers.
func (s *Service) Call(ctx context.Context, call run.ServerCall) (run.Result, error) {
	who := Who{User: call.User, Chat: call.Chat, Message: call.Message}
	if call.Entry.Provider == run.Terminal {
		return s.callTerminal(ctx, call, who)
	}
	c, ok, err := s.find(ctx, call.User, call.Entry.Toolkit)
	if err != nil {
		return run.Result{}, err
	}
	if !ok || !passes(c.Filter, call.Entry.Function) {
		return run.Result{}, fault.New(fault.NotFound, fault.TextNotFound)
	}
	if c.Type == typeMCP {
		return s.callMCP(ctx, c, call, who)
	}
	return s.callOpenAPI(ctx, c, call, who)
}

func (s *Service) callOpenAPI(ctx context.Context, c Connection, call run.ServerCall, who Who) (run.Result, error) {
	at, err := s.openapi(ctx, c, who)
	if err != nil {
		return run.Result{}, err
	}
	got, err := s.OpenAPI.Call(ctx, at, openapi.Request{Function: call.Entry.Function, Name: call.Name, Arguments: call.Arguments})
	if err != nil {
		return run.Result{}, err
	}
	made := run.Result{Content: got.Content, Status: run.Completed, Embeds: got.Embeds, Images: got.Images}
	if got.Failed {
		made.Status = run.FailedCall
	}
	for _, uri := range got.Files {
		made.Files = append(made.Files, map[string]any{"type": "file", "url": uri})
	}
	return made, nil
}

func (s *Service) callMCP(ctx context.Context, c Connection, call run.ServerCall, who Who) (run.Result, error) {
	at, err := s.mcp(ctx, c, who)
	if err != nil {
		return run.Result{}, err
	}
	told := false
	request := mcp.Request{Name: call.Entry.Function, Arguments: call.Arguments, Parameters: call.Parameters}
	if call.Tell != nil {
		request.Progress = func(p mcp.Progress) {
			told = true
			call.Tell(progress(call.Name, p), false)
		}
	}
	if call.Put != nil {
		request.Elicit = elicit(c, call.Put)
	}
	got, err := s.MCP.Call(ctx, at, request)
	if ctx.Err() != nil {
		return run.Result{}, context.Cause(ctx)
	}
	if told {
		call.Tell(call.Name, true)
	}
	if err != nil {
		warn(c, who, err)
		got = mcp.Failure(err)
	}
	made := run.Result{Content: got.Content, Status: got.Status}
	for _, m := range got.Media {
		if m.Kept {
			made.Files = append(made.Files, map[string]any{"type": m.Type, "url": m.DataURI})
		}
		if m.Shown {
			made.Images = append(made.Images, m.DataURI)
		}
	}
	return made, nil
}

// progress is how far a call is, in words.
func progress(name string, p mcp.Progress) string {
	text := name
	if p.Message != "" {
		text += ": " + p.Message
	}
	switch {
	case p.Total > 0:
		text += fmt.Sprintf(" (%.0f %%)", min(100, 100*p.Done/p.Total))
	case p.Message == "":
		text += fmt.Sprintf(" (%g)", p.Done)
	}
	return text
}
