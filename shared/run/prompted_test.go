package run

import (
	"encoding/json"
	"strings"
	"testing"

	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

func offered() []tool.Spec {
	parameters := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"s":{"type":"string"}}}`)
	return []tool.Spec{{Name: "add", Parameters: parameters}, {Name: "echo", Parameters: parameters}}
}

func TestCallsIn(t *testing.T) {
	for _, c := range []struct{ name, said, rest, calls string }{
		{"none", "just words {not json} <b>x</b>", "just words {not json} <b>x</b>", ``},
		{"a block", "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", "I add.", `add{"a":1}`},
		{"two blocks", `<tool_call>{"name":"add","arguments":{"a":1}}</tool_call><tool_call>{"name":"echo","arguments":{"s":"x"}}</tool_call>`, "", `add{"a":1} echo{"s":"x"}`},
		{"two in one block", "<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1}}\n{\"name\":\"add\",\"arguments\":{\"a\":2}}\n</tool_call>", "", `add{"a":1} add{"a":2}`},
		{"a block that is not closed", `<tool_call>{"name":"add","arguments":{"a":1}}`, "", `add{"a":1}`},
		{"a block that is no call", "<tool_call>what?</tool_call>", "<tool_call>what?</tool_call>", ``},
		{"an unknown name in a block", `<tool_call>{"name":"nope","arguments":{}}</tool_call>`, "", `nope{}`},
		{"arguments as text", `<tool_call>{"name":"add","arguments":"{\"a\": 12345678901234567890}"}</tool_call>`, "", `add{"a":12345678901234567890}`},
		{"tags within a block", "<tool_call>\n<function=add>\n<parameter=a>\n5\n</parameter>\n<parameter=s>\n5\n</parameter>\n</function>\n</tool_call>", "", `add{"a":5,"s":"5"}`},
		{"invoke", `Now: <invoke name="echo"><parameter name="s">a < b</parameter></invoke>`, "Now:", `echo{"s":"a < b"}`},
		{"a function with JSON", `<function=add>{"a": 3}</function>`, "", `add{"a":3}`},
		{"bare JSON", ` {"name": "add", "parameters": {"a": 2}} `, "", `add{"a":2}`},
		{"bare JSON of another kind", `{"name": "Ada", "age": 36}`, `{"name": "Ada", "age": 36}`, ``},
		{"a list", `{"tool_calls":[{"name":"add","arguments":{"a":2}},{"name":"echo"}]}`, "", `add{"a":2} echo{}`},
		{"a fenced block at the end", "First:\n```json\n{\"name\":\"add\",\"arguments\":{\"a\":2}}\n```\n", "First:", `add{"a":2}`},
		{"a fenced block in the middle", "```json\n{\"name\":\"add\"}\n```\nis how one calls it", "```json\n{\"name\":\"add\"}\n```\nis how one calls it", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest, calls := callsIn(c.said, offered())
			var got []string
			for _, call := range calls {
				got = append(got, call.Name+string(table.MustJSON(call.Arguments)))
			}
			if rest != c.rest || strings.Join(got, " ") != c.calls {
				t.Errorf("rest %q, calls %s", rest, got)
			}
		})
	}
}

// However a text is cut, what is streamed of it is its beginning, no call shows, and at the end it is whole.
func TestPrompterStreams(t *testing.T) {
	for _, said := range []string{
		"plain text with a < b and <b>tags</b> ", "text, then\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1}}\n</tool_call>",
		`{"name":"add","arguments":{}}`, "{is no JSON}", "é<tool_cal", "```json\n{\"name\":\"add\"}\n```",
	} {
		for size := 1; size <= len(said); size++ {
			var deltas []openai.Delta
			p := &prompter{next: func(d openai.Delta) error { deltas = append(deltas, d); return nil }}
			for rest := said; rest != ""; {
				n := min(size, len(rest))
				for n < len(rest) && rest[n]&0xC0 == 0x80 {
					n++
				}
				if err := p.sink(openai.Delta{Kind: openai.Text, Text: rest[:n]}); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			blocks, _ := replayed(deltas)
			if len(blocks) > 0 && (!strings.HasPrefix(said, blocks[0].Text) || strings.Contains(blocks[0].Text, "<tool_call>")) {
				t.Fatalf("%q in pieces of %d: shown %q", said, size, blocks[0].Text)
			}
			got := &openai.Round{Blocks: []openai.Block{{Text: said}}}
			if err := p.end(got, offered(), func(int) string { return "c" }); err != nil {
				t.Fatal(err)
			}
			blocks, calls := replayed(deltas)
			want, made := callsIn(said, offered())
			if blocks[0].Text != want || len(calls) != len(made) || got.Blocks[0].Text != want || len(got.Calls) != len(made) {
				t.Fatalf("%q in pieces of %d: %q, %d calls", said, size, blocks[0].Text, len(calls))
			}
		}
	}
}

func TestRepaired(t *testing.T) {
	const (
		user   = `{"role":"user","content":"q"}`
		called = `{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]}`
		a, b   = `{"role":"tool","tool_call_id":"a","content":"A"}`, `{"role":"tool","tool_call_id":"b","content":"B"}`
		lost   = `{"role":"tool","tool_call_id":"%","content":"Error: the tool call was interrupted before it gave a result."}`
	)
	of := func(id string) string { return strings.Replace(lost, "%", id, 1) }
	for _, c := range []struct{ name, given, want string }{
		{"nothing to do", user + called + a + b + user, user + called + a + b + user},
		{"the order of the calls", called + b + a, called + a + b},
		{"a result is missing", called + b + user, called + of("a") + b + user},
		{"all are missing", called, called + of("a") + of("b")},
		{"a result without its call", user + a + user, user + user},
		{"a result twice", called + a + a + b, called + a + b},
		{"a result too late", called + a + user + b, called + a + of("b") + user},
		{"an id twice", strings.ReplaceAll(called, `"b"`, `"a"`) + a + strings.ReplaceAll(b, `"b"`, `"a"`),
			strings.ReplaceAll(called, `"b"`, `"call_1"`) + a + strings.ReplaceAll(b, `"b"`, `"call_1"`)},
		{"garbled arguments", strings.ReplaceAll(called, `{\"x\":1}`, `{\"x\":`) + a + b, strings.ReplaceAll(called, `{\"x\":1}`, `{}`) + a + b},
		{"no calls", `{"role":"assistant","content":"x","tool_calls":[]}`, `{"role":"assistant","content":"x","tool_calls":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(table.MustJSON(repaired(messagesOf(t, c.given))))
			if want := string(table.MustJSON(messagesOf(t, c.want))); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func messagesOf(t *testing.T, text string) []any {
	t.Helper()
	var out []any
	if err := table.Decode([]byte("["+strings.ReplaceAll(text, "}{", "},{")+"]"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWaysToTellRounds(t *testing.T) {
	messages := messagesOf(t, `{"role":"user","content":"q"}`+
		`{"role":"assistant","content":"I add.","tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]}`+
		`{"role":"tool","tool_call_id":"a","content":"2"}`+`{"role":"assistant","content":"It is 2."}`+`{"role":"user","content":"thanks"}`)
	prose := `[{"content":"q","role":"user"},{"content":"I add.\n\n[I ran add({\"a\":1}). It returned: 2]\n\nIt is 2.","role":"assistant"},{"content":"thanks","role":"user"}]`
	if got := string(table.MustJSON(inProse(messages))); got != prose {
		t.Error(got)
	}
	blocks := `[{"content":"q","role":"user"},{"content":"I add.\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1}}\n</tool_call>","role":"assistant"},` +
		`{"content":"<tool_result name=\"add\">\n2\n</tool_result>","role":"user"},{"content":"It is 2.","role":"assistant"},{"content":"thanks","role":"user"}]`
	if got := string(table.MustJSON(inText(messages))); got != blocks {
		t.Error(got)
	}
}

func TestChoicesIn(t *testing.T) {
	for said, want := range map[string]string{
		`{"tool_calls": []}`: ``, `None`: ``, ``: ``, `{broken`: ``, `no json {at} all [1, 2]`: ``,
		`{"name": "echo", "parameters": {"text": "x"}}`:                                             `echo{"text":"x"}`,
		`Sure: {"tool_calls": [{"name": "echo", "parameters": {"text": "{"}}]} there.`:              `echo{"text":"{"}`,
		"<think>{\"name\":\"no\"}</think>```json\n[{\"name\":\"a\"},{\"name\":\"b\"}]\n```":         `a{} b{}`,
		`{"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},"no"]}`: `f{"x":1}`,
	} {
		var got []string
		for _, c := range choicesIn(said) {
			got = append(got, c.Name+string(table.MustJSON(c.Arguments)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v", said, got)
		}
	}
}
