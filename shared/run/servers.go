package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/event"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// Servers knows the tools of other servers: OpenAPI, MCP and terminal servers.
type Servers interface {
	// Offer lists the functions that are asked for. What the user may not use, and what is unknown, is left out; a server that does not
	// answer is an Offer with a Problem, or is left out. A terminal that cannot be used is fault.Unavailable.
	Offer(ctx context.Context, ask Ask) (Offers, error)
	// Call calls a function with the rights that the user has now; without them it is fault.NotFound. Whatever the server does is a
	// result. Other errors are the context's, and the platform's.
	Call(ctx context.Context, call ServerCall) (Result, error)
}

// Ask is what a request asks of other servers.
type Ask struct {
	User          access.User
	Chat, Message string
	ToolIDs       []string
	Terminal      string // id, "" for none
}

// Offers is what other servers offer.
type Offers struct {
	Tools    []Offer // in the order of the tool ids
	Terminal *Offer  // nil for none
}

// Offer is what one server offers.
type Offer struct {
	ID        string // the tool id; of terminals terminal:ID
	Provider  string // OpenAPI, MCP or Terminal
	Prefix    string // goes before a name that is taken
	Functions []Function
	Prompt    string // for the system prompt
	Problem   string // what the user is told when the server is not there
}

// Function is one function of a server.
type Function struct {
	Name string    // as the server calls it
	Spec tool.Spec // as the model is offered it
}

// ServerCall is one call of a server's function.
type ServerCall struct {
	Ask
	Entry      Entry
	Name       string          // as the model called it
	Arguments  json.RawMessage // an object
	Parameters json.RawMessage // the schema that the model was offered
	// Tell shows the user how far the call is. It may be nil.
	Tell func(status string, done bool)
	// Put asks the user a question of the server. It may be nil: nobody can be asked.
	Put func(ctx context.Context, e event.Event) (json.RawMessage, error)
}

// Providers of functions besides Python.
const (
	OpenAPI  = "openapi"
	MCP      = "mcp"
	Terminal = "terminal"
)

// offering collects the functions that a model is offered, under the names that are free.
type offering struct {
	table map[string]Entry
	specs []tool.Spec
}

func (o *offering) add(spec tool.Spec, prefix string, e Entry) {
	spec.Name = free(o.table, spec.Name, prefix)
	o.table[spec.Name] = e
	o.specs = append(o.specs, spec)
}

func (o *offering) addAll(offer Offer) {
	for _, f := range offer.Functions {
		o.add(f.Spec, offer.Prefix, Entry{Provider: offer.Provider, Toolkit: offer.ID, Function: f.Name})
	}
}

// replace adds functions that win over those of the same name.
func (o *offering) replace(offer Offer) {
	for _, f := range offer.Functions {
		o.specs = slices.DeleteFunc(o.specs, func(s tool.Spec) bool { return s.Name == f.Spec.Name })
		delete(o.table, f.Spec.Name)
	}
	o.addAll(offer)
}

func (o *offering) tools() json.RawMessage {
	if len(o.specs) == 0 {
		return nil
	}
	all := make([]any, len(o.specs))
	for i, spec := range o.specs {
		all[i] = map[string]any{"type": "function", "function": spec}
	}
	return json.RawMessage(table.MustJSON(all))
}

// offer fills in the functions that the model may call (spec/http.md D3.2): toolkits and OpenAPI servers in the order of the request's
// tool ids, then MCP servers, then the terminal. A request that brings its own tools gets just those.
func (s *Service) offer(ctx context.Context, u access.User, req Request, w *Work) error {
	if own, ok := req.Body["tools"]; ok && own != nil {
		w.Tools = []byte(table.MustJSON(own))
		return nil
	}
	ids := strs(list(req.Body, "tool_ids"))
	toolkits, err := s.Tools.Readable(ctx, u, ids)
	if err != nil {
		return fmt.Errorf("read tools: %w", err)
	}
	elsewhere, err := s.elsewhere(ctx, Ask{User: u, Chat: req.Chat, Message: req.Message, ToolIDs: ids, Terminal: text(req.Body, "terminal_id")})
	if err != nil {
		return err
	}
	o := offering{table: w.Table}
	done := map[string]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		for _, tk := range toolkits {
			if tk.ID == id {
				for _, spec := range tk.Offered {
					o.add(spec, tk.ID, Entry{Provider: Python, Toolkit: tk.ID, Function: spec.Name})
				}
			}
		}
		for _, offer := range elsewhere.Tools {
			if offer.ID == id && offer.Provider == OpenAPI {
				o.addAll(offer)
			}
		}
	}
	var prompts []string
	for _, offer := range elsewhere.Tools {
		if offer.Provider == MCP {
			o.addAll(offer)
		}
		prompts = append(prompts, offer.Prompt)
		if offer.Problem != "" && len(w.problems) < maxTogether {
			w.problems = append(w.problems, offer.Problem)
		}
	}
	if elsewhere.Terminal != nil {
		o.replace(*elsewhere.Terminal)
		prompts = append(prompts, elsewhere.Terminal.Prompt)
	}
	w.Tools = o.tools()
	w.Messages = withPrompts(w.Messages, prompts)
	return nil
}

// elsewhere asks other servers when the request asks for some.
func (s *Service) elsewhere(ctx context.Context, ask Ask) (Offers, error) {
	ask.ToolIDs = slices.DeleteFunc(slices.Clone(ask.ToolIDs), func(id string) bool { return !strings.HasPrefix(id, "server:") })
	if s.Servers == nil || len(ask.ToolIDs) == 0 && ask.Terminal == "" {
		return Offers{}, nil
	}
	offers, err := s.Servers.Offer(ctx, ask)
	if err != nil {
		return Offers{}, fmt.Errorf("ask tool servers: %w", err)
	}
	return offers, nil
}

// withPrompts adds to the system message what servers say about their tools.
func withPrompts(messages []any, prompts []string) []any {
	prompts = slices.DeleteFunc(slices.Clone(prompts), func(p string) bool { return p == "" })
	if len(prompts) == 0 {
		return messages
	}
	more := map[string]any{"role": "system", "content": strings.Join(prompts, "\n")}
	return withSystem(append(slices.Clone(messages), any(more)), func(p string) string { return p })
}

// problemEvents are the statuses that tell of servers that are not there. Their time is that of the request and their place before all
// rounds, so that a step that is repeated stores the same ones.
func (w *Work) problemEvents() []Event {
	var all []Event
	for i, p := range w.problems {
		all = append(all, Event{At: w.Request.Accepted, N: i, Event: event.New("status", map[string]any{
			"action": "tool_connection", "description": p, "error": true, "done": true,
		})})
	}
	return all
}

// beforeRounds is the round, for the keys of events, of what happens before there is any: it sorts before all.
const beforeRounds = -1

// storeProblems are the writes of those events.
func (s *Service) storeProblems(run string, events []Event) []table.Op {
	var ops []table.Op
	for _, e := range events {
		ops = append(ops, table.Put(table.Item{
			Key: table.Event(run, e.At, beforeRounds, 0, e.N), Expires: s.expires(), Attr: map[string]any{attrDoc: table.MustJSON(e)},
		}))
	}
	return ops
}

// callServer calls a function of another server.
func (s *Service) callServer(ctx context.Context, u access.User, step CallStep, w *Work, c callRecord) (*Result, error) {
	call := ServerCall{
		Ask:   Ask{User: u, Chat: w.Request.Chat, Message: w.Request.Message, Terminal: text(w.Request.Body, "terminal_id")},
		Entry: *c.Entry, Name: c.Name, Arguments: json.RawMessage(c.Arguments),
	}
	for _, spec := range w.specs() {
		if spec.Name == c.Name {
			call.Parameters = spec.Parameters
		}
	}
	if w.Request.Run != "" {
		call.Tell = s.progress(ctx, step)
		if s.Questions != nil && w.Request.Message != "" {
			t, n := s.ticket(step, w, u), 0
			call.Put = func(ctx context.Context, e event.Event) (json.RawMessage, error) {
				n++
				return s.Questions.Put(ctx, t, n-1, e, s.Working)
			}
		}
	}
	result, err := s.Servers.Call(ctx, call)
	if err != nil {
		return nil, err
	}
	for i, f := range result.Files { // what came along as data is kept as a file
		file, _ := f.(map[string]any)
		if url := text(file, "url"); strings.HasPrefix(url, "data:") {
			if url, err = s.Files.Save(ctx, u.ID, url); err != nil {
				return nil, fmt.Errorf("store file: %w", err)
			}
			result.Files[i] = map[string]any{"type": file["type"], "url": url}
		}
	}
	return &result, nil
}

// progress shows how far a call is, as statuses of its own. It shows a few a second at most.
func (s *Service) progress(ctx context.Context, step CallStep) func(string, bool) {
	n, last := 0, time.Time{}
	return func(status string, done bool) {
		now := s.Now()
		if n >= maxTold && !done || !done && n > 0 && now.Sub(last) < tellEvery {
			return
		}
		told := Event{At: now.UnixMilli(), N: n, Event: event.New("status", map[string]any{"description": status, "done": done})}
		n, last = n+1, now
		if err := s.Emit(ctx, Ticket{Run: step.Run, Chat: step.Chat, Round: step.Round, Index: step.Index}, []Event{told}); err != nil && ctx.Err() == nil {
			logger(ctx, Step{Run: step.Run, Chat: step.Chat, Round: step.Round}).Warn("tell how far a call is", "error", err)
		}
	}
}

const (
	maxTold   = 200
	tellEvery = time.Second
)
