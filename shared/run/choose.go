package run

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// choice is one call that a model asked for in its text.
type choice struct {
	Name      string
	Arguments map[string]any
}

// instructChoice asks the task model which functions to call. The key in it says which task it is.
const instructChoice = `You decide which functions a program runs before an assistant answers the user. These are the functions, as JSON:

%s

Read the query and what was said before it, and decide which of them give what the answer needs. Use the names and the parameters as they
are described, fill in every required parameter from the conversation, and never make up a function. List the same function several
times if it has to run with several parameters. If none helps, or if the conversation has the answer already, give an empty list.
Answer with one JSON object and nothing else:
{"tool_calls": [{"name": "a function's name", "parameters": {"a parameter": "its value"}}]}`

// earlier is how many messages before the query the task model is shown.
const earlier = 4

// choosing are the messages to the task model.
func choosing(specs []tool.Spec, messages []any) []any {
	last := -1
	for i, v := range messages {
		if m, ok := v.(map[string]any); ok && text(m, "role") == "user" {
			last = i
		}
	}
	var said []string
	query := ""
	for i, v := range messages {
		m, _ := v.(map[string]any)
		switch content := contentText(m["content"]); {
		case i == last:
			query = content
		case i < last && content != "" && slices.Contains([]string{"user", "assistant"}, text(m, "role")):
			said = append(said, fmt.Sprintf("%s: \"\"\"%s\"\"\"", strings.ToUpper(text(m, "role")), trimmed(content, 8000)))
		}
	}
	ask := "Query: " + query
	if len(said) > 0 {
		ask = "History:\n" + strings.Join(said[max(0, len(said)-earlier):], "\n") + "\n" + ask
	}
	return []any{
		map[string]any{"role": "system", "content": fmt.Sprintf(instructChoice, table.MustJSON(specs))},
		map[string]any{"role": "user", "content": ask},
	}
}

// choose asks the task model which of the offered functions to call. Whatever goes wrong, and whatever it answers that is no choice, is
// none: the answer itself does not depend on it. The error is the context's.
func (s *Service) choose(ctx context.Context, w *Work) ([]choice, error) {
	specs := w.specs()
	if len(specs) == 0 {
		return nil, nil
	}
	asking, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	model := s.Models.Task(ctx)
	if model == "" {
		model = w.Upstream
	}
	c, err := s.Provider.Complete(asking, table.MustJSON(map[string]any{"model": model, "stream": false, "messages": choosing(specs, w.Messages)}))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		logger(ctx, Step{Run: w.Request.Run, Chat: w.Request.Chat}).Warn("ask which tools to call", "error", err)
		return nil, nil
	}
	var chosen []choice
	for _, c := range choicesIn(c.Round(openai.StreamOptions{}).Text()) {
		if at := slices.IndexFunc(specs, func(o tool.Spec) bool { return o.Name == c.Name }); at >= 0 {
			c.Arguments = declared(specs[at], c.Arguments)
			chosen = append(chosen, c)
		}
	}
	return chosen[:min(len(chosen), maxChosen)], nil
}

// maxChosen is how many calls of one choice are run.
const maxChosen = 64

// specs are the functions that the model is offered.
func (w *Work) specs() []tool.Spec {
	var offered []struct {
		Function tool.Spec `json:"function"`
	}
	if len(w.Table) == 0 || json.Unmarshal(w.Tools, &offered) != nil {
		return nil
	}
	specs := make([]tool.Spec, 0, len(offered))
	for _, o := range offered {
		specs = append(specs, o.Function)
	}
	return specs
}

// declared keeps the arguments that the function has.
func declared(spec tool.Spec, arguments map[string]any) map[string]any {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	kept := map[string]any{}
	if json.Unmarshal(spec.Parameters, &schema) != nil {
		return kept
	}
	for k, v := range arguments {
		if _, ok := schema.Properties[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

// choicesIn reads the calls in a model's answer: the first JSON value in it that is one, whatever stands around it.
func choicesIn(answer string) []choice {
	answer = regexp.MustCompile(`(?s)<think(?:ing)?>.*?</think(?:ing)?>`).ReplaceAllString(answer, "")
	for at, c := range answer {
		if c != '{' && c != '[' {
			continue
		}
		var v any
		d := json.NewDecoder(strings.NewReader(answer[at:]))
		d.UseNumber()
		if d.Decode(&v) != nil {
			continue
		}
		if calls, ok := choicesOf(v); ok {
			return calls
		}
	}
	return nil
}

// choicesOf are the calls that a JSON value means: {"tool_calls": [...]}, a list of calls, or a single one.
func choicesOf(v any) ([]choice, bool) {
	switch v := v.(type) {
	case map[string]any:
		if calls, ok := v["tool_calls"].([]any); ok {
			made, _ := choicesOf(calls)
			return made, true
		}
		c, ok := choiceOf(v)
		return []choice{c}, ok
	case []any:
		var calls []choice
		for _, e := range v {
			if o, isObject := e.(map[string]any); isObject {
				if c, ok := choiceOf(o); ok {
					calls = append(calls, c)
				}
			}
		}
		return calls, len(calls) > 0
	}
	return nil, false
}

// choiceOf reads one call in the forms that models give it: with parameters or arguments, as an object or as its JSON text, and in
// OpenAI's own nesting.
func choiceOf(o map[string]any) (choice, bool) {
	if inner, ok := o["function"].(map[string]any); ok {
		o = inner
	}
	c := choice{Name: text(o, "name"), Arguments: map[string]any{}}
	for _, key := range []string{"parameters", "arguments"} {
		switch v := o[key].(type) {
		case map[string]any:
			c.Arguments = v
		case string:
			var parsed map[string]any
			if table.Decode([]byte(v), &parsed) == nil && parsed != nil {
				c.Arguments = parsed
			}
		}
	}
	return c, c.Name != ""
}
