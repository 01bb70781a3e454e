package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The kind api_sequence plays requests against the deployed local stack. It needs
//
//	BASE_URL          of the stack
//	ADMIN_KEY         an administrator's API key (API_KEY of `stack.py env` is one)
//	FIELD_MODEL_ADDR  an address of this machine on which the adapter serves the model; the stack must have it as its provider
//
// for example
//
//	MODEL_API_BASE_URL=http://127.0.0.1:9133/v1 MODEL_API_KEY=field python3 infra/local/stack.py --name field up
//	set -a; eval "$(python3 infra/local/stack.py --name field env)"
//	FIELD_MODEL_ADDR=127.0.0.1:9133 go test ./tests/field -run 'TestCases/api_sequence' -timeout 20m
//
// Cases with faults also need EMULATOR_URL, and kill only processes that serve this stack's functions. Without BASE_URL there is no
// adapter, so the cases are skipped.
func init() {
	if os.Getenv("BASE_URL") != "" && os.Getenv("FIELD_MODEL_ADDR") != "" {
		register("api_sequence", playSequence)
	}
}

type sequenceGiven struct {
	Tools  map[string]string `json:"tools"`
	Rounds []modelRound      `json:"model_rounds"`
	Steps  []map[string]any  `json:"steps"`
	Faults []struct {
		Where, What string
	} `json:"faults"`
}

// sequence is one case while it is played.
type sequence struct {
	given   sequenceGiven
	model   *scriptedModel
	mark    string
	users   map[string]apiClient
	who     string
	tools   map[string]string // the case's ids by the stack's
	chats   map[string]string // the last chat of each user
	user    string            // the last user message
	message string            // the last assistant message
	texts   map[string]string // of the user messages
	run     string
	final   map[string]any

	disconnect func(context.Context) // ends the case's OpenAPI server
	happened   atomic.Bool           // the case's fault
}

// undisturbed lets cases run side by side, but those with faults alone.
var undisturbed sync.RWMutex

func playSequence(ctx context.Context, c Case) (any, error) {
	s := &sequence{mark: "field-" + strings.ToLower(rand.Text()), who: "a", tools: map[string]string{}, chats: map[string]string{}, texts: map[string]string{}, final: map[string]any{}}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(c.Given), "{run}", s.mark)), &s.given); err != nil {
		return nil, fmt.Errorf("given: %w", err)
	}
	var err error
	if s.model, err = fieldModel(); err != nil {
		return nil, err
	}
	script := &modelCase{rounds: s.given.Rounds}
	if len(s.given.Faults) > 0 {
		undisturbed.Lock()
		defer undisturbed.Unlock()
		script.before = s.fault(ctx)
	} else {
		undisturbed.RLock()
		defer undisturbed.RUnlock()
	}
	s.model.begin(s.mark, script)
	if s.users, err = stackAccounts(ctx, s.mark); err != nil {
		return nil, err
	}
	defer s.clean()
	if err := s.install(ctx); err != nil {
		return nil, err
	}
	steps := []apiStep{}
	for i, given := range s.given.Steps {
		step, err := s.do(ctx, given)
		if err != nil {
			return nil, fmt.Errorf("step %d (%v): %w", i, given["do"], err)
		}
		steps = append(steps, step)
	}
	if err := s.finish(ctx); err != nil {
		return nil, err
	}
	if len(s.given.Faults) > 0 && !s.happened.Load() {
		return nil, fmt.Errorf("the fault %v could not be made: is EMULATOR_URL this stack's, and does it run here?", s.given.Faults)
	}
	return map[string]any{"steps": steps, "model_requests": s.model.seen(s.mark), "final": s.final}, nil
}

// install makes the toolkits under ids of the case's own. One that cannot be loaded is refused here, and its id is unknown later.
func (s *sequence) install(ctx context.Context) error {
	for id, source := range s.given.Tools {
		own := id + "_" + strings.ReplaceAll(s.mark, "-", "_")
		s.tools[id] = own
		_, err := s.users["a"].do(ctx, "POST", "/api/v1/tools/create", map[string]any{"id": own, "name": own, "content": source, "meta": map[string]any{"description": "field"}})
		if err != nil {
			return err
		}
	}
	if strings.Contains(fmt.Sprint(s.given.Steps), "server:0") {
		return s.connect(ctx)
	}
	return nil
}

func (s *sequence) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s.disconnect != nil {
		s.disconnect(ctx)
	}
	for _, own := range s.tools {
		_, _ = s.users["a"].do(ctx, "DELETE", "/api/v1/tools/id/"+own+"/delete", nil)
	}
	for who, chat := range s.chats {
		_, _ = s.users[who].do(ctx, "DELETE", "/api/v1/chats/"+chat, nil)
	}
}

func (s *sequence) do(ctx context.Context, given map[string]any) (apiStep, error) {
	c := s.users[s.who]
	switch given["do"] {
	case "new_chat":
		prompt, _ := given["prompt"].(string)
		return s.newChat(ctx, c, prompt, nil)
	case "new_chat_with_output":
		output, _ := given["output"].([]any)
		return s.newChat(ctx, c, "hello", output)
	case "user_message":
		return s.follow(ctx, c, given)
	case "completion":
		return s.complete(ctx, c, given)
	case "wait_tasks_empty":
		seconds, _ := given["timeout_s"].(float64)
		return s.wait(ctx, c, time.Duration(seconds)*time.Second, 100*time.Millisecond)
	case "poll_tasks_then_read":
		ms, _ := given["every_ms"].(float64)
		step, err := s.wait(ctx, c, time.Minute, time.Duration(ms)*time.Millisecond)
		if err == nil {
			s.final["first_read_after_empty"], _, err = s.read(ctx)
		}
		return step, err
	case "get_chat":
		return c.do(ctx, "GET", "/api/v1/chats/"+s.chats[s.who], nil)
	case "delete_chat":
		return c.do(ctx, "DELETE", "/api/v1/chats/"+s.chats[s.who], nil)
	case "list_chats":
		return c.do(ctx, "GET", "/api/v1/chats/list", nil)
	case "stop_task":
		return c.do(ctx, "POST", "/api/tasks/chat/"+s.chats[s.who]+"/stop", nil)
	case "update_valves":
		id, _ := given["tool_id"].(string)
		return c.do(ctx, "POST", "/api/v1/tools/id/"+s.tools[id]+"/valves/update", given["valves"])
	case "as_user":
		s.who, _ = given["user"].(string)
		if s.chats["a"] == "" { // there is somebody else's chat
			if _, err := s.newChat(ctx, s.users["a"], "mine", nil); err != nil {
				return apiStep{}, err
			}
			s.chats["a"] = s.chats[s.who]
			delete(s.chats, s.who)
		}
		return apiStep{Status: http.StatusOK}, nil
	case "sleep":
		seconds, _ := given["s"].(float64)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		}
		return apiStep{Status: http.StatusOK}, ctx.Err()
	case "cold_start":
		return apiStep{Status: http.StatusOK}, nil // the connection of the case is as new as a process would be
	}
	return apiStep{}, fmt.Errorf("step %v is not known", given["do"])
}

func (s *sequence) newChat(ctx context.Context, c apiClient, prompt string, output []any) (apiStep, error) {
	s.user, s.message = s.mark+"-u0", s.mark+"-a0"
	s.texts[s.user] = prompt + " " + s.mark
	assistant := map[string]any{"id": s.message, "role": "assistant", "content": "", "parentId": s.user, "childrenIds": []any{}, "model": fieldModelID, "modelIdx": 0, "done": false}
	if output != nil {
		assistant["output"], assistant["done"], assistant["content"] = output, true, "old"
	}
	step, err := c.do(ctx, "POST", "/api/v1/chats/new", map[string]any{"chat": map[string]any{
		"title": "field", "models": []any{fieldModelID}, "history": map[string]any{"currentId": s.message, "messages": map[string]any{
			s.user:    map[string]any{"id": s.user, "role": "user", "content": s.texts[s.user], "parentId": nil, "childrenIds": []any{s.message}, "models": []any{fieldModelID}},
			s.message: assistant,
		}},
	}})
	if doc, ok := step.JSON.(map[string]any); ok {
		s.chats[s.who], _ = doc["id"].(string)
	}
	return step, err
}

// follow adds a user message and an empty answer below the last one, as the web client does.
func (s *sequence) follow(ctx context.Context, c apiClient, given map[string]any) (apiStep, error) {
	prompt, _ := given["prompt"].(string)
	before := s.message
	n := len(s.texts)
	s.user, s.message = fmt.Sprintf("%s-u%d", s.mark, n), fmt.Sprintf("%s-a%d", s.mark, n)
	s.texts[s.user] = prompt + " " + s.mark
	chat, step, err := s.chat(ctx, c)
	if err != nil || chat == nil {
		return step, err
	}
	history, _ := chat["history"].(map[string]any)
	messages, _ := history["messages"].(map[string]any)
	if parent, ok := messages[before].(map[string]any); ok {
		parent["childrenIds"] = []any{s.user}
	}
	messages[s.user] = map[string]any{"id": s.user, "role": "user", "content": s.texts[s.user], "parentId": before, "childrenIds": []any{s.message}}
	messages[s.message] = map[string]any{"id": s.message, "role": "assistant", "content": "", "parentId": s.user, "childrenIds": []any{}, "model": fieldModelID, "done": false}
	history["currentId"] = s.message
	return c.do(ctx, "POST", "/api/v1/chats/"+s.chats[s.who], map[string]any{"chat": map[string]any{"history": history}})
}

func (s *sequence) chat(ctx context.Context, c apiClient) (map[string]any, apiStep, error) {
	step, err := c.do(ctx, "GET", "/api/v1/chats/"+s.chats[s.who], nil)
	doc, _ := step.JSON.(map[string]any)
	chat, _ := doc["chat"].(map[string]any)
	return chat, step, err
}

func (s *sequence) complete(ctx context.Context, c apiClient, given map[string]any) (apiStep, error) {
	body := map[string]any{"model": fieldModelID, "stream": given["stream"]}
	prompt := "go " + s.mark
	if given["chat"] == true {
		owner := s.who
		if other, ok := given["chat_of"].(string); ok {
			owner = other
		}
		body["chat_id"], body["id"] = s.chats[owner], s.message
		prompt = s.texts[s.user]
		if len(s.texts) > 1 || s.user != s.mark+"-u0" { // a later turn: the model is given the stored branch
			body["user_message"] = map[string]any{"id": s.user}
		}
	}
	body["messages"] = []any{map[string]any{"role": "user", "content": prompt}}
	for _, key := range []string{"session_id", "params", "tools", "background_tasks"} {
		if v, ok := given[key]; ok && v != nil {
			body[key] = v
		}
	}
	ids := []any{}
	asked, _ := given["tool_ids"].([]any)
	for _, v := range asked {
		id, _ := v.(string)
		if own, ok := s.tools[id]; ok {
			id = own
		}
		ids = append(ids, id)
	}
	body["tool_ids"] = ids
	step, err := c.do(ctx, "POST", "/api/chat/completions", body)
	if doc, ok := step.JSON.(map[string]any); ok {
		if tasks, ok := doc["task_ids"].([]any); ok && len(tasks) > 0 {
			s.run, _ = tasks[0].(string)
		}
	}
	return step, err
}

func (s *sequence) wait(ctx context.Context, c apiClient, limit, every time.Duration) (apiStep, error) {
	start := time.Now()
	for {
		step, err := c.do(ctx, "GET", "/api/tasks/chat/"+s.chats[s.who], nil)
		step.Elapsed = time.Since(start).Seconds()
		doc, _ := step.JSON.(map[string]any)
		if ids, _ := doc["task_ids"].([]any); err != nil || len(ids) == 0 || time.Since(start) > limit {
			return step, err
		}
		select {
		case <-ctx.Done():
			return step, ctx.Err()
		case <-time.After(every):
		}
	}
}

// read returns the last answer as it is stored, and its chat.
func (s *sequence) read(ctx context.Context) (message, record map[string]any, err error) {
	step, err := s.users[s.who].do(ctx, "GET", "/api/v1/chats/"+s.chats[s.who], nil)
	record, _ = step.JSON.(map[string]any)
	chat, _ := record["chat"].(map[string]any)
	history, _ := chat["history"].(map[string]any)
	messages, _ := history["messages"].(map[string]any)
	message, _ = messages[s.message].(map[string]any)
	return message, record, err
}

// finish reads what is there in the end.
func (s *sequence) finish(ctx context.Context) error {
	if s.chats[s.who] == "" {
		return nil
	}
	message, record, err := s.read(ctx)
	if err != nil {
		return err
	}
	var tasks struct {
		IDs []string `json:"task_ids"`
	}
	if err := s.users[s.who].must(ctx, "GET", "/api/tasks/chat/"+s.chats[s.who], nil, &tasks); err != nil {
		return err
	}
	chat, _ := record["chat"].(map[string]any)
	history, _ := chat["history"].(map[string]any)
	messages, _ := history["messages"].(map[string]any)
	calls, results := items(message)
	all := []any{}
	for i := range len(messages) { // the answers in the order in which they were asked for
		m, _ := messages[fmt.Sprintf("%s-a%d", s.mark, i)].(map[string]any)
		_, more := items(m)
		all = append(all, more...)
	}
	maps.Copy(s.final, map[string]any{
		"message": message, "title": record["title"], "tree": history, "task_ids": tasks.IDs, "output_calls": calls, "output_results": results,
		"all_results": all, "execution": map[string]any{"status": "SUCCEEDED"},
	})
	return nil
}

// items are an answer's calls, and its results each with its text.
func items(message map[string]any) (calls, results []any) {
	calls, results = []any{}, []any{}
	output, _ := message["output"].([]any)
	for _, v := range output {
		item, _ := v.(map[string]any)
		switch item["type"] {
		case "function_call":
			calls = append(calls, item)
		case "function_call_output":
			text := ""
			parts, _ := item["output"].([]any)
			for _, p := range parts {
				part, _ := p.(map[string]any)
				t, _ := part["text"].(string)
				text += t
			}
			results = append(results, map[string]any{"text": text, "status": item["status"], "call_id": item["call_id"]})
		}
	}
	return calls, results
}
