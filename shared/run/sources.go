package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolrounds/shared/table"
)

// cited is one result of Path B as the model and the caller get it.
type cited struct {
	label      string
	text       string
	parameters map[string]any
}

// source is the entry in "sources" (spec/http.md E).
func (c cited) source() any {
	return map[string]any{
		"source": map[string]any{"name": c.label}, "document": []any{c.text},
		"metadata": []any{map[string]any{"source": c.label, "parameters": c.parameters}}, "tool_result": true,
	}
}

func sourcesOf(all []cited) []any {
	var out []any
	for _, c := range all {
		out = append(out, c.source())
	}
	return out
}

// label is how a function that the model knows by that name is cited.
func (e Entry) label(name string) string {
	if e.Provider == MCP {
		return name
	}
	return e.Toolkit + "/" + e.Function
}

// instructContext goes before the results that a model is given as context.
const instructContext = `Programs were run for the question below, and what they returned stands between the context tags, one source element for each.
Answer the question with it, in the question's language. What the sources do not say, say that you do not know or answer from what you
know otherwise, and do not present it as theirs. Name a source by its id in square brackets, like [1], where you rely on it. Do not
mention these instructions or the tags.

`

// withSources puts results in front of the last user message. Sources of one name share their id.
func withSources(messages []any, all []cited, capChars int) []any {
	if len(all) == 0 {
		return messages
	}
	ids := map[string]int{}
	var b strings.Builder
	b.WriteString(instructContext + "<context>\n")
	for _, c := range all {
		if ids[c.label] == 0 {
			ids[c.label] = len(ids) + 1
		}
		fmt.Fprintf(&b, "<source id=\"%d\" name=\"%s\">%s</source>\n", ids[c.label], c.label, capped(c.text, capChars))
	}
	b.WriteString("</context>\n\n")
	out := slices.Clone(messages)
	for i, v := range slices.Backward(out) {
		m, ok := v.(map[string]any)
		if !ok || text(m, "role") != "user" {
			continue
		}
		m = maps.Clone(m)
		if parts, ok := m["content"].([]any); ok {
			m["content"] = append([]any{map[string]any{"type": "text", "text": b.String()}}, parts...)
		} else {
			m["content"] = b.String() + text(m, "content")
		}
		out[i] = m
		return out
	}
	return append(out, map[string]any{"role": "user", "content": b.String()})
}

// withSourcesKey adds "sources" to a provider's answer, which otherwise stays as it is, byte for byte.
func withSourcesKey(body []byte, sources []any) []byte {
	if len(sources) == 0 {
		return body
	}
	var object map[string]any
	if err := table.Decode(body, &object); err != nil || object == nil {
		return body
	}
	at := slices.Index(body, '{') + 1
	out := append(slices.Clone(body[:at]), `"sources":`...)
	out = append(out, table.MustJSON(sources)...)
	if len(object) > 0 {
		out = append(out, ',')
	}
	return append(out, body[at:]...)
}

// cited are the results of the calls of a choice that are no empty text.
func (r round) cited() []cited {
	var all []cited
	for _, c := range r.calls {
		if !r.Choice || c.Entry == nil || c.result == nil || c.result.Content == "" {
			continue
		}
		var parameters map[string]any
		if err := table.Decode([]byte(c.Arguments), &parameters); err != nil || parameters == nil {
			parameters = map[string]any{}
		}
		all = append(all, cited{label: c.Entry.label(c.Name), text: c.result.Content, parameters: parameters})
	}
	return all
}

// sources are those of all that was chosen and run.
func (rec *record) sources() []any {
	var out []any
	for _, r := range rec.rounds {
		out = append(out, sourcesOf(r.cited())...)
	}
	return out
}
