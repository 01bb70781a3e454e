package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"toolrounds/shared/chat"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/statemachine/asl"
)

// definition is the machine as it is deployed.
func definition(t *testing.T) *asl.Definition {
	t.Helper()
	d, err := asl.Load("../../statemachine/completion.asl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inWorld runs a test in a world of its own, with a chat that waits for an answer.
func inWorld(t *testing.T, def *asl.Definition, script []reply, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, def, script...)
		s := w.quiet()
		err := s.Chats.Create(context.Background(), chat.Chat{ID: chatID, UserID: owner, Title: chat.NewTitle}, map[string]chat.Message{
			"message-1": {"id": "message-1", "role": "user", "content": "add", "childrenIds": []any{message}},
			message:     {"id": message, "parentId": "message-1", "role": "assistant", "content": "", "done": false},
		})
		if err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

// request is a completion request on the chat.
func request(change ...func(map[string]any)) map[string]any {
	body := map[string]any{
		"model": "model", "chat_id": chatID, "id": message, "session_id": "session", "stream": true, "tool_ids": []any{"kit"},
		"messages": []any{map[string]any{"role": "user", "content": "add"}},
	}
	for _, c := range change {
		c(body)
	}
	return body
}

func with(key string, value any) func(map[string]any) {
	return func(b map[string]any) { b[key] = value }
}

// client is one request of the user's, in a process of its own.
func (w *world) client(name string, use func(context.Context, *run.Service) error) error {
	ctx, p := w.process(name)
	defer p.cancel()
	return use(ctx, p.service())
}

func (w *world) accept(change ...func(map[string]any)) (run.Accepted, error) {
	var done run.Accepted
	err := w.client("accept", func(ctx context.Context, s *run.Service) (err error) {
		done, err = s.Accept(ctx, user, request(change...), "https://base")
		return err
	})
	return done, err
}

func (w *world) mustAccept(change ...func(map[string]any)) run.Accepted {
	w.t.Helper()
	done, err := w.accept(change...)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// outcome is what stands in the chat, without ids and times.
type outcome struct {
	Done    bool
	Content string
	Error   string
	Output  string
	Status  int // entries of the status history
	Title   string
}

func (w *world) outcome() outcome {
	w.t.Helper()
	tree, err := w.quiet().Chats.Tree(context.Background(), chatID)
	if err != nil {
		w.t.Fatal(err)
	}
	if tree == nil {
		return outcome{}
	}
	if err := w.quiet().Overlay(context.Background(), tree); err != nil {
		w.t.Fatal(err)
	}
	m := tree.Messages[message].Message
	o := outcome{Done: m.Done(), Content: m.Text("content"), Title: tree.Chat.Title}
	if e, ok := m["error"].(map[string]any); ok {
		o.Error = fmt.Sprint(e["content"])
	}
	output, _ := m["output"].([]any)
	for _, v := range output {
		item := v.(map[string]any)
		for _, k := range []string{"id", "started_at", "ended_at", "duration"} {
			delete(item, k)
		}
	}
	raw, _ := json.Marshal(output)
	o.Output = string(raw)
	history, _ := m["statusHistory"].([]any)
	o.Status = len(history)
	w.sound(output, o)
	return o
}

// sound holds the output of a finished message against P4: a call has one result, none unless the run was cut short, and no result is
// without its call.
func (w *world) sound(output []any, o outcome) {
	w.t.Helper()
	results, made := map[string]int{}, map[string]int{}
	for _, v := range output {
		item := v.(map[string]any)
		id, _ := item["call_id"].(string)
		switch item["type"] {
		case "function_call":
			made[id]++
		case "function_call_output":
			results[id]++
		}
	}
	for id, n := range made {
		if n > 1 || results[id] > 1 {
			w.t.Errorf("P4: call %s is there %d times, with %d results", id, n, results[id])
		}
		if results[id] == 0 && o.Done && o.Error == "" && !w.stopped {
			w.t.Errorf("P4: call %s has no result in a finished answer", id)
		}
	}
	for id := range results {
		if made[id] == 0 {
			w.t.Errorf("P4: a result of %s, which nobody made", id)
		}
	}
}

// ended checks what must hold of every run in the end, whatever happened to it.
func (w *world) ended() outcome {
	w.t.Helper()
	o := w.outcome()
	if !o.Done {
		w.t.Errorf("P1: the message is open: %+v", o)
	}
	if open := w.open(); len(open) > 0 {
		w.t.Errorf("P1: open runs %v", open)
	}
	if listed, err := w.quiet().Open(context.Background(), owner, chatID); err != nil || len(listed) > 0 {
		w.t.Errorf("P7: task list %v, %v", listed, err)
	}
	if n := w.finals[table.Message(chatID, message)]; n != 1 {
		w.t.Errorf("P2: the message was given its end %d times", n)
	}
	return o
}

// told tells whether the user is told that something went wrong: by an error, or by a call's result.
func (o outcome) told() bool {
	return o.Error != "" || strings.Contains(o.Output, "Error: the tool could not be run") || strings.Contains(o.Output, "Error: the tool call was interrupted")
}

// differs says where one outcome is not another, without what is the same.
func differs(got, want outcome) string {
	if got.Output == want.Output {
		got.Output, want.Output = "", ""
	}
	return fmt.Sprintf("\n got %+v\nwant %+v", got, want)
}

// path is the states that the executions entered, in the order of their names.
func (w *world) path(name string) string {
	if w.executions[name] == nil {
		return ""
	}
	return strings.Join(w.executions[name].Path(), " ")
}
