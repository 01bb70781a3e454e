package run

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// Models that cannot call tools natively are told of them in the system prompt, and their text is read for calls (params.function_calling
// "prompt"). Rounds, records and results are those of any run; only the way to the model and back differs.

const instructPrompted = `You can have functions run for you. These are the functions, as JSON:

%s

To call one, write a block of exactly this form, with the arguments as one JSON object:

<tool_call>
{"name": "the function's name", "arguments": {"a parameter": "its value"}}
</tool_call>

Write one block for each call and stop after the last one. You will be given the results, one tool_result element for each call, and can
then call again or answer. Call only functions of the list, and only when you need them; never write a tool_result yourself. When you need
no function, just answer.`

// prompting is the part of the system prompt that tells of the functions.
func prompting(specs []tool.Spec) string { return fmt.Sprintf(instructPrompted, table.MustJSON(specs)) }

// callBlock is how a call stands in an assistant's text.
func callBlock(name, arguments string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %s, \"arguments\": %s}\n</tool_call>", table.MustJSON(name), arguments)
}

// resultBlock is how a result is told.
func resultBlock(name, content string) string {
	return fmt.Sprintf("<tool_result name=%s>\n%s\n</tool_result>", table.MustJSON(name), content)
}

// inText turns the tool rounds of a repaired conversation into the blocks of text that the model is asked to write.
func inText(messages []any) []any {
	var out []any
	var results map[string]any // the message that gathers the results
	names := map[string]string{}
	for _, v := range messages {
		m, _ := v.(map[string]any)
		switch calls := list(m, "tool_calls"); {
		case text(m, "role") == "tool":
			block := resultBlock(names[text(m, "tool_call_id")], contentText(m["content"]))
			if results == nil {
				results = map[string]any{"role": "user", "content": ""}
				out = append(out, results)
			}
			results["content"] = paragraphs(text(results, "content"), block)
		case len(calls) > 0:
			said := []string{contentText(m["content"])}
			for _, c := range calls {
				call, _ := c.(map[string]any)
				function := object(call, "function")
				names[text(call, "id")] = text(function, "name")
				said = append(said, callBlock(text(function, "name"), sound(text(function, "arguments"))))
			}
			out, results = append(out, map[string]any{"role": "assistant", "content": paragraphs(said...)}), nil
		default:
			out, results = append(out, v), nil
		}
	}
	return out
}

var (
	block      = regexp.MustCompile(`(?s)<tool_call>(.*?)(?:</tool_call>|\z)`)
	tagged     = regexp.MustCompile(`(?s)<(?:function=|function name=|invoke name=)"?([^">\s]+)"?>(.*?)(?:</(?:function|invoke)>|\z)`)
	parameter  = regexp.MustCompile(`(?s)<(?:parameter=|parameter name=)"?([^">\s]+)"?>(.*?)</parameter>`)
	fence      = regexp.MustCompile("(?s)```(?:json|tool_call|tool_code)?[ \t]*\n(.*?)\n?```\\s*\\z")
	beginnings = []string{"<tool_call>", "<function=", "<function name=", "<invoke name="}
)

// callsIn takes the calls out of a model's text: blocks in tags, or else JSON that is the whole text or a fenced block at its end and
// means offered functions.
func callsIn(said string, specs []tool.Spec) (rest string, calls []choice) {
	if rest, calls = taggedCalls(said, specs); len(calls) > 0 {
		return rest, calls
	}
	candidate, rest := strings.TrimSpace(said), ""
	if m := fence.FindStringSubmatchIndex(said); m != nil {
		candidate, rest = said[m[2]:m[3]], strings.TrimSpace(said[:m[0]])
	}
	var v any
	if table.Decode([]byte(candidate), &v) != nil {
		return said, nil
	}
	calls, ok := choicesOf(v)
	for _, c := range calls {
		ok = ok && slices.ContainsFunc(specs, func(s tool.Spec) bool { return s.Name == c.Name })
	}
	if !ok || len(calls) == 0 {
		return said, nil
	}
	return rest, calls
}

func taggedCalls(said string, specs []tool.Spec) (rest string, calls []choice) {
	rest = block.ReplaceAllStringFunc(said, func(whole string) string {
		inner := block.FindStringSubmatch(whole)[1]
		found := tagCalls(inner, specs)
		if len(found) == 0 {
			found = jsonCalls(inner)
		}
		if len(found) == 0 {
			return whole
		}
		calls = append(calls, found...)
		return ""
	})
	rest = tagged.ReplaceAllStringFunc(rest, func(whole string) string {
		calls = append(calls, tagCalls(whole, specs)...)
		return ""
	})
	return strings.TrimSpace(rest), calls
}

// tagCalls are calls whose arguments stand in tags of their own, or as one JSON object.
func tagCalls(said string, specs []tool.Spec) []choice {
	var calls []choice
	for _, m := range tagged.FindAllStringSubmatch(said, -1) {
		c := choice{Name: m[1], Arguments: map[string]any{}}
		given := parameter.FindAllStringSubmatch(m[2], -1)
		for _, p := range given {
			c.Arguments[p[1]] = typed(specs, c.Name, p[1], strings.TrimSpace(p[2]))
		}
		var arguments map[string]any
		if given == nil && table.Decode([]byte(strings.TrimSpace(m[2])), &arguments) == nil && arguments != nil {
			c.Arguments = arguments
		}
		calls = append(calls, c)
	}
	return calls
}

// jsonCalls are the calls of a block: one JSON value after the other.
func jsonCalls(said string) []choice {
	var calls []choice
	d := json.NewDecoder(strings.NewReader(said))
	d.UseNumber()
	for {
		var v any
		if d.Decode(&v) != nil {
			return calls
		}
		if made, ok := choicesOf(v); ok {
			calls = append(calls, made...)
		}
	}
}

// typed is a parameter's value that came as text: JSON, unless the function wants a text.
func typed(specs []tool.Spec, function, name, value string) any {
	for _, s := range specs {
		var schema struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
		}
		if s.Name == function && json.Unmarshal(s.Parameters, &schema) == nil && schema.Properties[name].Type == "string" {
			return value
		}
	}
	return parsed(value)
}

// prompter holds back what may be the beginning of a call while a model's text is streamed.
type prompter struct {
	next   func(openai.Delta) error
	blocks []openai.Block // as the model has said them
	shown  []int          // how many bytes of each were passed on
}

func (p *prompter) sink(d openai.Delta) error {
	switch d.Kind {
	case openai.Text, openai.Reasoning:
		for len(p.blocks) <= d.Block {
			p.blocks, p.shown = append(p.blocks, openai.Block{Reasoning: d.Kind == openai.Reasoning}), append(p.shown, 0)
		}
		p.blocks[d.Block].Text += d.Text
		if d.Kind == openai.Reasoning {
			return p.next(d)
		}
		return p.pass(d.Block, certain(p.blocks[d.Block].Text))
	case openai.Snapshot:
		p.blocks, p.shown = slices.Clone(d.Blocks), make([]int, len(d.Blocks))
		for i, b := range d.Blocks {
			if !b.Reasoning {
				d.Blocks[i].Text = b.Text[:certain(b.Text)]
			}
			p.shown[i] = len(d.Blocks[i].Text)
		}
	}
	return p.next(d)
}

// pass passes a text block on up to that byte.
func (p *prompter) pass(i, until int) error {
	from := p.shown[i]
	if until <= from {
		return nil
	}
	p.shown[i] = until
	return p.next(openai.Delta{Kind: openai.Text, Block: i, Text: p.blocks[i].Text[from:until]})
}

// certain is how much of a text is surely no call: up to the first tag that begins one, or may become one; nothing of a text that begins
// as JSON or a fenced block.
func certain(said string) int {
	start := strings.TrimLeft(said, " \t\r\n")
	if start == "" || strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") || strings.HasPrefix(start, "`") {
		return 0
	}
	until := len(said)
	for _, tag := range beginnings {
		if at := strings.Index(said, tag); at >= 0 {
			until = min(until, at)
			continue
		}
		for n := min(len(tag)-1, len(said)); n > 0; n-- {
			if strings.HasSuffix(said, tag[:n]) {
				until = min(until, len(said)-n)
				break
			}
		}
	}
	return len(strings.TrimRight(said[:until], " \t\r\n"))
}

// end reads the calls out of a whole answer and tells what it has come to.
func (p *prompter) end(got *openai.Round, specs []tool.Spec, id func(call int) string) error {
	var calls []choice
	blocks := slices.Clone(got.Blocks)
	for i, b := range blocks {
		if !b.Reasoning {
			var found []choice
			blocks[i].Text, found = callsIn(b.Text, specs)
			calls = append(calls, found...)
		}
	}
	if len(calls) == 0 {
		for i, b := range p.blocks {
			if !b.Reasoning {
				if err := p.pass(i, len(b.Text)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	got.Blocks = blocks
	for i, c := range calls {
		got.Calls = append(got.Calls, openai.Call{ID: id(i), Name: c.Name, Arguments: string(table.MustJSON(c.Arguments)), Index: i})
	}
	return p.next(openai.Delta{Kind: openai.Snapshot, Blocks: slices.Clone(got.Blocks), Calls: slices.Clone(got.Calls)})
}

// prompted asks a model that is told of its tools in the prompt.
func (a *answer) prompted(ask func(func(openai.Delta) error) *openai.Round) *openai.Round {
	p := &prompter{next: a.sink}
	got := ask(p.sink)
	specs := a.rec.work.specs()
	if got.Err == nil {
		_ = p.end(got, specs, func(call int) string { return blockID("call", a.step.Run, a.step.Round, call) }) // the sink has no errors of its own
		return got
	}
	for i, b := range got.Blocks { // what was cut off is no call
		if !b.Reasoning {
			got.Blocks[i].Text = b.Text[:certain(b.Text)]
		}
	}
	return got
}
