package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is what this model reads of a completion request.
type request struct {
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is the message's text, also where it comes as a list of parts.
func (m message) text() string {
	var plain string
	if json.Unmarshal(m.Content, &plain) == nil {
		return plain
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts)
	var all []string
	for _, part := range parts {
		all = append(all, part.Text)
	}
	return strings.Join(all, "\n")
}

// said is one turn of the model: a text, or calls.
type said struct {
	text  string
	calls []call
}

type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (s said) reason() string {
	if len(s.calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// usage counts words: close enough to tokens for a demonstration.
func (r request) usage(s said) map[string]int {
	in, out := 0, len(strings.Fields(s.text))
	for _, m := range r.Messages {
		in += len(strings.Fields(m.text()))
	}
	for _, c := range s.calls {
		out += len(strings.Fields(c.Function.Arguments)) + 1
	}
	return map[string]int{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

var (
	arithmetic = regexp.MustCompile(`[-(]*\d[\d.]*(?:\s*[-+*/]\s*[-(]*\d[\d.]*\)*)+`)
	place      = regexp.MustCompile(`\b(?:in|at|for)\s+(\p{Lu}[\p{L}.'-]*(?:\s+\p{Lu}[\p{L}.'-]*)*)`)
	timezone   = regexp.MustCompile(`\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+\b|\bUTC\b`)
	weather    = regexp.MustCompile(`(?i)\b(weather|temperature|forecast)\b`)
	source     = regexp.MustCompile(`(?s)<source[^>]*>(.*?)</source>`)
	clock      = regexp.MustCompile(`(?i)\b(time|date|day is it|o'clock)\b`)
)

// answer decides what the model says next: calls for what the last prompt asks, then an answer that quotes their results.
func answer(r request) said {
	last := -1
	for i, m := range r.Messages {
		if m.Role == "user" {
			last = i
		}
	}
	var prompt string
	var results []string
	if last >= 0 {
		prompt = r.Messages[last].text()
		for _, m := range r.Messages[last+1:] {
			if m.Role == "tool" {
				results = append(results, strings.TrimSpace(m.text()))
			}
		}
	}
	for _, found := range source.FindAllStringSubmatch(prompt, -1) { // legacy mode: the results stand in the prompt
		results = append(results, strings.TrimSpace(found[1]))
	}
	if len(results) > 0 {
		return said{text: "According to the tool: " + strings.Join(results, "; ") + ". (I am a demonstration, not a language model.)"}
	}
	calls := wanted(r, prompt)
	if len(r.Tools) == 0 && strings.Contains(r.system(), `"tool_calls"`) {
		return said{text: chosen(calls)}
	}
	if len(calls) > 0 {
		return said{calls: calls}
	}
	return said{text: fmt.Sprintf("I am a demonstration, not a language model: I only notice questions about the time, the weather "+
		"and sums when the sample tool is offered. You wrote: %s", shorten(prompt))}
}

// system is the system prompt.
func (r request) system() string {
	for _, m := range r.Messages {
		if m.Role == "system" {
			return m.text()
		}
	}
	return ""
}

// chosen writes calls the way legacy mode asks a task model for them.
func chosen(calls []call) string {
	type choice struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	}
	choices := make([]choice, len(calls))
	for i, c := range calls {
		choices[i] = choice{c.Function.Name, json.RawMessage(c.Function.Arguments)}
	}
	text, _ := json.Marshal(map[string]any{"tool_calls": choices})
	return string(text)
}

// wanted lists the calls that a prompt asks for, of the tools that are offered.
func wanted(r request, prompt string) []call {
	described := r.system() // legacy mode: the tools stand in the system prompt
	offers := func(name string) bool {
		return strings.Contains(described, fmt.Sprintf(`"name":%q`, name)) || slices.ContainsFunc(r.Tools, func(t struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}) bool {
			return t.Function.Name == name
		})
	}
	var calls []call
	add := func(name string, arguments map[string]string) {
		text, _ := json.Marshal(arguments)
		c := call{Index: len(calls), ID: fmt.Sprintf("call_demo_%d", len(calls)), Type: "function"}
		c.Function.Name, c.Function.Arguments = name, string(text)
		calls = append(calls, c)
	}
	if sum := arithmetic.FindString(prompt); sum != "" && offers("calculate") {
		add("calculate", map[string]string{"expression": strings.TrimSpace(sum)})
	}
	if weather.MatchString(prompt) && offers("get_weather") {
		city := "Lisbon"
		if found := place.FindStringSubmatch(prompt); found != nil {
			city = found[1]
		}
		add("get_weather", map[string]string{"city": city})
	}
	if clock.MatchString(prompt) && offers("get_current_time") {
		add("get_current_time", map[string]string{"timezone": timezone.FindString(prompt)})
	}
	return calls
}

// shorten keeps an echo of the prompt to a line.
func shorten(s string) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return string(runes)
}
