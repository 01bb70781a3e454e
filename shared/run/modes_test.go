package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

func calling(mode string) func(map[string]any) {
	return with("params", map[string]any{"function_calling": mode})
}

// prompted is a script of a model that writes its calls into its text.
func prompted() []reply {
	return []reply{
		{text: "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>", pace: 130 * time.Millisecond},
		{text: "it is done", pace: 130 * time.Millisecond},
	}
}

func TestLegacyOnAChat(t *testing.T) {
	inWorld(t, definition(t), []reply{{text: "from the sources"}}, func(w *world) {
		w.mustAccept(calling("legacy"))
		w.settle()
		if o := w.ended(); o.Content != "from the sources" || o.Error != "" || strings.Contains(o.Output, "function_call") {
			t.Errorf("%+v", o)
		}
		m, _, err := w.quiet().Chats.Message(context.Background(), chatID, message)
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"document":["3"],"metadata":[{"parameters":{"a":1,"b":2},"source":"kit/add"}],"source":{"name":"kit/add"},"tool_result":true}]`
		if got, _ := json.Marshal(m.Message["sources"]); string(got) != want {
			t.Errorf("sources %s", got)
		}
		last := w.asked[len(w.asked)-1]
		if said, _ := json.Marshal(last); len(w.asked) != 1 || !strings.Contains(string(said), `name=\"kit/add\"\u003e3\u003c/source\u003e`) {
			t.Errorf("%d requests, the last %s", len(w.asked), said)
		}
	})
}

func TestPromptedRound(t *testing.T) {
	inWorld(t, definition(t), prompted(), func(w *world) {
		w.mustAccept(calling("prompt"))
		w.settle()
		if o := w.ended(); o.Content != "I add.\nit is done" || !strings.Contains(o.Output, "function_call_output") || strings.Contains(o.Output, "tool_call>") {
			t.Errorf("%+v", o)
		}
		if said := fmt.Sprint(w.asked[1]); !strings.Contains(said, "<tool_result name=\"add\">\n3\n</tool_result>") || !strings.Contains(fmt.Sprint(w.asked[0]), "<tool_call>") {
			t.Errorf("the model was told %s", said)
		}
	})
}

// A caller without a chat who waits hears the whole answer, in order, and nothing of it is stored.
func TestWait(t *testing.T) {
	inWorld(t, definition(t), twoRounds(), func(w *world) {
		accepted := w.mustAccept(with("wait", true), with("stream", true), with("chat_id", nil), with("id", nil), with("session_id", nil))
		if !accepted.Lone || accepted.Async || !run.Temporary(accepted.Chat) || accepted.Messages[0] == "" {
			t.Errorf("%+v", accepted)
		}
		var said, thought string
		var items []string
		ended, done, err := w.quiet().Follow(context.Background(), accepted.Chat, accepted.Runs[0], func(told run.Told) error {
			said, thought = said+told.Text, thought+told.Reasoning
			if told.Item != nil {
				items = append(items, fmt.Sprint(told.Item["type"]))
			}
			return nil
		})
		if !done || err != nil {
			t.Fatal(done, err)
		}
		a, err := w.quiet().Answer(context.Background(), ended)
		if err != nil || a.Content != answer || said != answer || a.Error != nil || a.Finish != "stop" {
			t.Errorf("said %q, content %q, %v, %v", said, a.Content, a.Error, err)
		}
		if thought != "let me think so " || a.Reasoning != "let me think \nso " {
			t.Errorf("thought %q, %q", thought, a.Reasoning)
		}
		if got := strings.Join(items, " "); strings.Count(got, "function_call_output") != 3 || len(items) != 6 {
			t.Errorf("items %s", got)
		}
		if fmt.Sprint(a.Usage["total_tokens"]) != "45" {
			t.Errorf("usage %v", a.Usage)
		}
		w.settle()
		if len(w.finals) != 0 {
			t.Errorf("%d messages are stored", len(w.finals))
		}
	})
}

// What a waiting caller hears begins with what it ends with, whichever step dies: a try that is repeated may say its text again, apart.
func TestWaitSurvives(t *testing.T) {
	def := definition(t)
	for n := 1; n < 60; n++ {
		inWorld(t, def, twoRounds(), func(w *world) {
			w.fault = func(at int, op string) mode {
				if at == n && !strings.HasPrefix(op, "client") {
					return die
				}
				return pass
			}
			accepted, err := w.accept(with("wait", true), with("stream", true), with("chat_id", nil), with("id", nil), with("session_id", nil))
			if err != nil {
				w.settle()
				return
			}
			go func() { // the sweeper's schedule
				time.Sleep(time.Minute)
				_, _ = w.sweeper()(json.RawMessage(`{"detail":{}}`))
			}()
			said := ""
			ended, done, err := w.quiet().Follow(context.Background(), accepted.Chat, accepted.Runs[0], func(told run.Told) error {
				said += told.Text
				return nil
			})
			if !done || err != nil {
				t.Fatalf("edge %d: %v %v", n, done, err)
			}
			a, err := w.quiet().Answer(context.Background(), ended)
			if err != nil || a.Error != nil || a.Content != answer || said != answer { // the scripted model says the same again
				t.Errorf("edge %d: said %q, content %q, error %v, %v", n, said, a.Content, a.Error, err)
			}
			w.settle()
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	inWorld(t, definition(t), twoRounds(), func(w *world) {
		key := with("idempotency_key", "k1")
		first, open := w.mustAccept(key), w.mustAccept(key)
		w.settle()
		closed := w.mustAccept(key)
		if fmt.Sprint(first) != fmt.Sprint(open) || fmt.Sprint(first) != fmt.Sprint(closed) {
			t.Errorf("%v, %v, %v", first, open, closed)
		}
		if _, err := w.accept(key, with("stream", false)); fault.CodeOf(err) != fault.Unprocessed {
			t.Errorf("another request under the same key: %v", err)
		}
		if _, err := w.accept(with("idempotency_key", "k2")); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("a finished message under another key: %v", err)
		}
		if len(w.asked) != 3 {
			t.Errorf("%d rounds", len(w.asked))
		}
		time.Sleep(25 * time.Hour)
		if _, err := w.accept(key); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("the key after its time: %v", err)
		}
	})
}
