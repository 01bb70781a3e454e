package run

import (
	"fmt"
	"maps"
	"strings"
)

// repaired is a conversation that strict providers accept (promise P4): every call of an assistant's message has an id of its own in
// it, arguments that are an object, and one result right after it, a made-up one where none is there; results without their call are
// left out. Messages without tools are passed on as they are.
func repaired(messages []any) []any {
	var out []any
	for i := 0; i < len(messages); i++ {
		m, ok := messages[i].(map[string]any)
		switch calls := list(m, "tool_calls"); {
		case !ok:
			out = append(out, messages[i])
		case text(m, "role") == "tool": // its call is not before it
		case text(m, "role") == "assistant" && len(calls) > 0:
			var results []map[string]any
			for i+1 < len(messages) {
				next, _ := messages[i+1].(map[string]any)
				if text(next, "role") != "tool" {
					break
				}
				results = append(results, next)
				i++
			}
			out = append(out, paired(m, calls, results)...)
		default:
			out = append(out, m)
		}
	}
	return out
}

// paired gives each call of a message its result: that of its id, each result once, in the order in which they came.
func paired(m map[string]any, calls []any, results []map[string]any) []any {
	m = maps.Clone(m)
	taken := make([]bool, len(results))
	used := map[string]bool{}
	var sound, answers []any
	for i, v := range calls {
		call, ok := v.(map[string]any)
		if !ok {
			continue
		}
		id := text(call, "id")
		answer := map[string]any{"role": "tool", "content": textNoResult}
		for k, r := range results {
			if !taken[k] && text(r, "tool_call_id") == id {
				answer, taken[k] = maps.Clone(r), true
				break
			}
		}
		for n := i; id == "" || used[id]; n++ {
			id = fmt.Sprintf("call_%d", n)
		}
		used[id] = true
		answer["tool_call_id"] = id
		sound, answers = append(sound, soundCall(call, id)), append(answers, answer)
	}
	if len(sound) == 0 {
		delete(m, "tool_calls")
		return []any{m}
	}
	m["tool_calls"] = sound
	return append([]any{m}, answers...)
}

// soundCall is a call under that id whose arguments are an object. Nothing else of it changes.
func soundCall(call map[string]any, id string) map[string]any {
	function := object(call, "function")
	if arguments := text(function, "arguments"); text(call, "id") != id || sound(arguments) != arguments {
		call, function = maps.Clone(call), maps.Clone(function)
		if function == nil {
			function = map[string]any{}
		}
		function["arguments"] = sound(arguments)
		call["id"], call["function"] = id, function
	}
	return call
}

// inProse turns the tool rounds of a repaired conversation into prose. Some providers refuse such rounds in a request that offers no tools.
func inProse(messages []any) []any {
	var out []any
	var open map[string]any // the assistant's message that goes on
	names := map[string]string{}
	for _, v := range messages {
		m, _ := v.(map[string]any)
		role := text(m, "role")
		switch {
		case role == "assistant" && len(list(m, "tool_calls")) > 0:
			if open == nil {
				open = map[string]any{"role": "assistant", "content": ""}
				out = append(out, open)
			}
			open["content"] = paragraphs(text(open, "content"), contentText(m["content"]))
			for _, c := range list(m, "tool_calls") {
				call, _ := c.(map[string]any)
				function := object(call, "function")
				names[text(call, "id")] = text(function, "name") + "(" + text(function, "arguments") + ")"
			}
		case role == "tool":
			open["content"] = paragraphs(text(open, "content"), fmt.Sprintf("[I ran %s. It returned: %s]", names[text(m, "tool_call_id")], contentText(m["content"])))
		case role == "assistant" && open != nil:
			open["content"] = paragraphs(text(open, "content"), contentText(m["content"]))
		default:
			open = nil
			out = append(out, v)
		}
	}
	return out
}

func paragraphs(texts ...string) string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "\n\n")
}

// usesTools tells whether a conversation has tool rounds.
func usesTools(messages []any) bool {
	for _, v := range messages {
		if m, _ := v.(map[string]any); text(m, "role") == "tool" || len(list(m, "tool_calls")) > 0 {
			return true
		}
	}
	return false
}

// settle makes the conversation fit what the model is offered.
func (w *Work) settle() {
	if w.Request.Chat == "" || !usesTools(w.Messages) { // without a chat the provider gets what the caller sent
		if w.Mode == Prompted {
			w.Messages = withSystem(w.Messages, func(s string) string { return s }, prompting(w.specs()))
		}
		return
	}
	w.Messages = repaired(w.Messages)
	switch {
	case w.Mode == Prompted:
		w.Messages = withSystem(inText(w.Messages), func(s string) string { return s }, prompting(w.specs()))
	case w.Mode == Legacy, w.Tools == nil, string(w.Tools) == "null", string(w.Tools) == "[]":
		w.Messages = inProse(w.Messages)
	}
}
