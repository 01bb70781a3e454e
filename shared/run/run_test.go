package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/run"
	"toolrounds/shared/turn"
)

func add(a, b int) call { return call{"add", fmt.Sprintf(`{"a":%d,"b":%d}`, a, b)} }

// twoRounds is the script of most tests: two calls at once, one more, and an answer that is streamed for some seconds.
func twoRounds() []reply {
	return []reply{
		{reasoning: "let me think ", text: "I add. ", calls: []call{add(1, 2), add(3, 4)}, pace: 130 * time.Millisecond},
		{calls: []call{add(5, 6)}, pace: 130 * time.Millisecond},
		{reasoning: "so ", text: "the sum is {{result}}", pace: 370 * time.Millisecond},
	}
}

const answer = "I add. \nthe sum is 11"

func TestOrdinary(t *testing.T) {
	inWorld(t, definition(t), twoRounds(), func(w *world) {
		accepted := w.mustAccept()
		if len(w.open()) != 1 {
			t.Error("the run is not listed")
		}
		began := time.Now()
		w.settle()
		if o := w.ended(); o.Content != answer || o.Error != "" || o.Status != 3 {
			t.Errorf("%+v", o)
		}
		want := "Prepare CanBegin CallModel WhatNext RunTools RunTool RunTool CallModel WhatNext RunTools RunTool CallModel WhatNext Finish Anything Done"
		if got := w.path(accepted.Runs[0] + "-g0"); got != want {
			t.Errorf("path %s", got)
		}
		for key, n := range w.calls {
			if n != 1 {
				t.Errorf("P5: call %s ran %d times", key, n)
			}
		}
		if len(w.calls) != 3 || time.Since(began) < 0 {
			t.Errorf("calls %v", w.calls)
		}
	})
}

// The calls of a round run side by side: twenty slow ones take no longer than one.
func TestParallel(t *testing.T) {
	took := func(n int) (d time.Duration) {
		calls := make([]call, n)
		for i := range calls {
			calls[i] = call{"slow", `{"a":1,"b":2}`}
		}
		inWorld(t, definition(t), []reply{{calls: calls}, {text: "done"}}, func(w *world) {
			accepted, began := w.mustAccept(with("session_id", nil)), time.Now()
			if _, done, err := w.quiet().Wait(context.Background(), chatID, accepted.Runs[0]); !done || err != nil {
				t.Error(done, err)
			}
			d = time.Since(began)
			w.settle()
			w.ended()
		})
		return d
	}
	if one, twenty := took(1), took(20); twenty > one*3/2 {
		t.Errorf("one call takes %v, twenty side by side %v", one, twenty)
	}
}

func TestEndings(t *testing.T) {
	loop := func() (script []reply) {
		for range 20 {
			script = append(script, reply{calls: []call{add(1, 1)}})
		}
		return script
	}
	for _, c := range []struct {
		name           string
		script         []reply
		content, error string
		status         string // of a call
	}{
		{"no tools needed", []reply{{text: "hello"}}, "hello", "", ""},
		{"the limit of rounds", loop(), "", turn.LimitReached(8), "completed"},
		{"an HTTP error of the model", []reply{{status: 401}}, "", "the model is out of order", ""},
		{"an HTTP error after a round", []reply{{text: "one", calls: []call{add(1, 2)}}, {status: 400}}, "one", "the model is out of order", "completed"},
		{"a connection that breaks", []reply{{text: "half an", breaks: true}}, "half an", "connection to the model failed", ""},
		{"a tool that fails", []reply{{calls: []call{{"broken", "{}"}}}, {text: "it says {{result}}"}}, "it says Error: broken", "", "failed"},
		{"a tool that is unknown", []reply{{calls: []call{{"nothing", "{}"}}}, {text: "it says {{result}}"}}, `it says Error: Tool "nothing" not found.`, "", "failed"},
		{"arguments that are garbled", []reply{{calls: []call{{"add", `{"a":`}}}, {text: "done"}}, "done", "", "failed"},
		{"nothing at all", []reply{{}}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, definition(t), c.script, func(w *world) {
				w.mustAccept()
				w.settle()
				o := w.ended()
				if o.Content != c.content || !strings.Contains(o.Error, c.error) || (c.error == "") != (o.Error == "") {
					t.Errorf("%+v", o)
				}
				if c.status != "" && !strings.Contains(o.Output, `"status":"`+c.status+`","type":"function_call`) {
					t.Errorf("no call is %s: %s", c.status, o.Output)
				}
			})
		})
	}
}

// A temporary chat keeps nothing, and the run ends all the same.
func TestTemporary(t *testing.T) {
	inWorld(t, definition(t), twoRounds(), func(w *world) {
		accepted := w.mustAccept(with("chat_id", "temporary:1"))
		w.settle()
		if reply, done, err := w.quiet().Wait(context.Background(), "temporary:1", accepted.Runs[0]); reply != nil || !done || err != nil {
			t.Errorf("%v %v %v", reply, done, err)
		}
		if len(w.asked) != 3 || len(w.finals) != 0 {
			t.Errorf("%d rounds, %d messages", len(w.asked), len(w.finals))
		}
	})
}

func TestBackground(t *testing.T) {
	inWorld(t, definition(t), []reply{{text: "hello"}}, func(w *world) {
		w.mustAccept(with("background_tasks", map[string]any{"title_generation": true, "tags_generation": true, "follow_up_generation": true}))
		w.settle()
		if o := w.ended(); o.Title != "A Title" || o.Content != "hello" {
			t.Errorf("%+v", o)
		}
		tree, err := w.quiet().Chats.Tree(context.Background(), chatID)
		if err != nil || fmt.Sprint(tree.Chat.Meta["tags"], tree.Messages[message].Message["followUps"]) != "[maths] [And now?]" {
			t.Errorf("tags %v, follow-ups %v, %v", tree.Chat.Meta["tags"], tree.Messages[message].Message["followUps"], err)
		}
	})
}

// A long run goes on in new executions, each within its budget, and nobody sees it.
func TestContinue(t *testing.T) {
	script := []reply{}
	for range 6 {
		script = append(script, reply{calls: []call{add(1, 1), add(2, 2)}})
	}
	inWorld(t, definition(t), append(script, reply{text: "done"}), func(w *world) {
		w.limits.Events = 60
		accepted := w.mustAccept()
		w.settle()
		if o := w.ended(); o.Content != "done" || o.Error != "" {
			t.Errorf("%+v", o)
		}
		if len(w.executions) < 3 {
			t.Errorf("%d executions", len(w.executions))
		}
		for name, e := range w.executions {
			// The round that crosses the budget is still run here, and beginning and ending costs some events.
			if e.Events() > 60+turn.Events(2)+20 {
				t.Errorf("execution %s has %d events", name, e.Events())
			}
			if !strings.HasPrefix(name, accepted.Runs[0]+"-g") {
				t.Errorf("execution %s", name)
			}
		}
	})
}

// The request that repeats an accepted one gets the same run.
func TestRepeatedRequest(t *testing.T) {
	inWorld(t, definition(t), twoRounds(), func(w *world) {
		first, second := w.mustAccept(), w.mustAccept()
		if first.Runs[0] != second.Runs[0] {
			t.Errorf("runs %v and %v", first.Runs, second.Runs)
		}
		w.settle()
		w.ended()
		if _, err := w.accept(); err == nil {
			t.Error("a finished message is written again")
		}
	})
}

// P10: no size of a result breaks a turn; the model is shown a cut one, of whole characters, the chat keeps it all.
func TestSizes(t *testing.T) {
	for _, size := range []int{0, 1, 1999, 2000, 2001, 100_000, 6 << 20} {
		for _, letter := range []string{"x", "ß", "€", "😀"} {
			t.Run(fmt.Sprintf("%d-%s", size, letter), func(t *testing.T) {
				whole := strings.Repeat(letter, size/len(letter))
				inWorld(t, definition(t), []reply{{calls: []call{{"big", "{}"}}}, {text: "done"}}, func(w *world) {
					w.content = func(run.Invocation) string { return whole }
					w.mustAccept()
					w.settle()
					o := w.ended()
					if o.Content != "done" || o.Error != "" {
						t.Fatalf("content %.80q, error %q", o.Content, o.Error)
					}
					var output []map[string]any
					if err := json.Unmarshal([]byte(o.Output), &output); err != nil {
						t.Fatal(err)
					}
					stored := output[1]["output"].([]any)[0].(map[string]any)["text"]
					if stored != whole {
						t.Errorf("%d bytes are stored of %d", len(stored.(string)), len(whole))
					}
					shown := w.asked[1][len(w.asked[1])-1].(map[string]any)["content"].(string)
					kept, notice, cut := strings.Cut(shown, "\n\n[The result was truncated")
					if n := len([]rune(kept)); n > w.limits.ResultChars || cut != (len([]rune(whole)) > w.limits.ResultChars) || len(notice) > 200 {
						t.Errorf("the model is shown %d characters, cut %v", n, cut)
					}
					if !strings.HasPrefix(whole, kept) || strings.ContainsRune(kept, '�') {
						t.Error("the model is shown something else")
					}
				})
			})
		}
	}
}
