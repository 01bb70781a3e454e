package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/model"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Prepared is what Prepare tells the machine.
type Prepared struct {
	Step
	Next turn.Next `json:"next"` // turn.Tools: ask the model; turn.Finish: the run ended or cannot begin
}

// prepareLimit is the time that the step may take.
const prepareLimit = 60 * time.Second

// Prepare turns the request into what the rounds need: messages, tools, parameters. It may be repeated.
func (s *Service) Prepare(ctx context.Context, step Step) (Prepared, error) {
	over := Prepared{Step: step, Next: turn.Finish}
	r, err := s.advance(ctx, step.Chat, step.Run, prepareLimit, table.Change{Set: map[string]any{attrStarted: true}})
	if errors.Is(err, errGone) {
		return over, nil
	}
	if err != nil {
		return Prepared{}, err
	}
	if turn.Model(r.record()) != turn.Work {
		return over, nil
	}
	req, err := s.request(ctx, step.Run)
	if err != nil {
		return Prepared{}, err
	}
	work, err := s.prepare(ctx, req)
	var f *fault.Error
	if errors.As(err, &f) { // rights may have been taken since the request was accepted
		over.Error = fmt.Sprint(f.Detail)
		return over, s.refuse(ctx, step, f)
	}
	if err != nil {
		return Prepared{}, err
	}
	s.begun(ctx, s.feed(r), r, req)
	item := table.Item{Key: table.Work(step.Run), Expires: s.expires(), Attr: map[string]any{attrDoc: table.MustJSON(work)}}
	// Only while the run is open: nothing of a chat that was deleted comes back.
	problems := work.problemEvents()
	err = s.Table.Transact(ctx, append(s.storeProblems(step.Run, problems), table.Update(table.Run(step.Chat, step.Run), table.Change{
		Set: map[string]any{attrMode: string(work.Mode)},
	}, table.Is(attrPhase, string(turn.Open))), table.Put(item))...)
	if errors.Is(err, table.ErrCondition) {
		return over, nil
	}
	if err != nil {
		return Prepared{}, fmt.Errorf("store work: %w", err)
	}
	if len(problems) > 0 {
		s.show(ctx, s.feed(r), func() Show { return Show{Events: inOrder(problems), Whole: s.sofar(r)} })
	}
	return Prepared{Step: step, Next: turn.Tools}, nil
}

// refuse notes what a caller who waits is answered when the run cannot begin.
func (s *Service) refuse(ctx context.Context, step Step, f *fault.Error) error {
	status, detail := fault.Status(f)
	reply := Reply{Status: status, Type: "application/json", Body: table.MustJSON(map[string]any{"detail": detail})}
	_, err := s.advance(ctx, step.Chat, step.Run, 0, table.Change{Set: map[string]any{attrReply: table.MustJSON(reply)}})
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// request reads what was accepted.
func (s *Service) request(ctx context.Context, run string) (Request, error) {
	item, ok, err := table.One(ctx, s.Table, table.Request(run))
	if err != nil {
		return Request{}, fmt.Errorf("read request: %w", err)
	}
	if !ok {
		return Request{}, fault.New(fault.NotFound, "The request of this run has expired.")
	}
	var req Request
	if err := item.JSON(attrDoc, &req); err != nil {
		return Request{}, err
	}
	return req, nil
}

func (s *Service) prepare(ctx context.Context, req Request) (*Work, error) {
	u, err := s.Accounts.User(ctx, req.User)
	if err != nil {
		return nil, err
	}
	m, err := s.Models.Resolve(ctx, u, req.Model)
	if err != nil {
		return nil, err
	}
	folder, err := s.folder(ctx, u, req)
	if err != nil {
		return nil, err
	}
	req = req.withTools(folder.Tools())
	if s.ModelTools {
		req = req.withTools(strs(list(m.Meta, "toolIds")))
	}
	params := object(req.Body, "params")
	w := &Work{Request: req, Upstream: m.Upstream, Body: parameters(m.Params, params), Stream: req.Chat != "", Model: m.Listed, Table: map[string]Entry{}}
	if v, ok := req.Body["stream"].(bool); ok {
		w.Stream = v
	}
	if v, ok := m.Params["stream_response"].(bool); ok {
		w.Stream = v
	}
	for k, v := range req.Body {
		if !slices.Contains(serverFields, k) && !slices.Contains([]string{"model", "messages", "stream", "tools"}, k) {
			w.Body[k] = v
		}
	}
	if Waits(req.Body) { // the caller's choice is how it gets the answer, not how the model gives it
		w.Stream = true
	}
	if _, set := w.Body["stream_options"]; !set && w.Stream && (flag(object(m.Meta, "capabilities"), "usage") || Waits(req.Body)) {
		w.Body["stream_options"] = map[string]any{"include_usage": true}
	}
	if w.Messages, err = s.messages(ctx, req); err != nil {
		return nil, err
	}
	replace := func(p string) string { return fill(p, u, object(req.Body, "variables"), s.Now()) }
	w.Messages = withSystem(w.Messages, replace, text(m.Params, "system"), folder.Prompt())
	if err := s.offer(ctx, u, req, w); err != nil {
		return nil, err
	}
	w.Metadata = metadata(req, m, params)
	if mode := calling(m, params); len(w.Table) > 0 && mode != native {
		w.Mode = mode
	}
	w.settle()
	return w, nil
}

// messages are the conversation so far: as sent, or, in the browser's flow, as stored.
func (s *Service) messages(ctx context.Context, req Request) ([]any, error) {
	if !req.Browser || !req.Saved {
		return list(req.Body, "messages"), nil
	}
	tree, err := s.Chats.Tree(ctx, req.Chat)
	if err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, fault.New(fault.NotFound, fault.TextNotFound)
	}
	var messages []any
	for _, m := range list(req.Body, "messages") {
		if o, ok := m.(map[string]any); ok && text(o, "role") == "system" {
			messages = append(messages, m)
		}
	}
	parent := tree.Messages[req.Message].Message.Text("parentId")
	if parent == "" {
		parent = text(object(req.Body, "user_message"), "id")
	}
	return append(messages, history(branch(tree, parent))...), nil
}

// free is the name under which a function is offered: its own, or with its toolkit's id in front until nobody else has it.
func free(taken map[string]Entry, name, toolkit string) string {
	for {
		if _, used := taken[name]; !used {
			return name
		}
		name = toolkit + "_" + name
	}
}

// native is how the absence of a mode is called outside.
const native Mode = "native"

// calling is the mode that the request, or else its model, asks for. Every unknown value means native, "default" too.
func calling(m model.Resolved, params map[string]any) Mode {
	asked := text(params, "function_calling")
	if asked == "" {
		asked = text(m.Params, "function_calling")
	}
	if mode := Mode(asked); mode == Legacy || mode == Prompted {
		return mode
	}
	return native
}

// metadata is what tools get as __metadata__ (spec/http.md G).
func metadata(req Request, m model.Resolved, params map[string]any) map[string]any {
	p := maps.Clone(params)
	if p == nil {
		p = map[string]any{}
	}
	p["function_calling"] = string(calling(m, params))
	md := map[string]any{
		"user_id": req.User, "chat_id": req.Chat, "message_id": req.Message, "session_id": nil, "task_id": req.Run,
		"tool_ids": orEmpty(list(req.Body, "tool_ids")), "terminal_id": req.Body["terminal_id"], "files": orEmpty(list(req.Body, "files")),
		"features": orNone(object(req.Body, "features")), "variables": orNone(object(req.Body, "variables")), "model": m.Listed,
		"model_id": m.ID, "params": p, "base_user_prompt": lastUser(list(req.Body, "messages")),
	}
	if sid := req.Session(); sid != "" {
		md["session_id"] = sid
	}
	return md
}

func orEmpty(l []any) []any {
	if l == nil {
		return []any{}
	}
	return l
}

func orNone(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func lastUser(messages []any) any {
	for _, v := range slices.Backward(messages) {
		if m, ok := v.(map[string]any); ok && text(m, "role") == "user" {
			return contentText(m["content"])
		}
	}
	return nil
}
