package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// rawFrame is one frame of a stream, or one whole completion. Every field is raw, because providers differ in the type of nearly
// each, and one field of a wrong type must not cost the others.
type rawFrame struct {
	Choices json.RawMessage `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Timings json.RawMessage `json:"timings"` // llama.cpp's, reported beside or instead of usage
	Error   json.RawMessage `json:"error"`
	Object  json.RawMessage `json:"object"`
}

type rawChoice struct {
	Index   json.RawMessage `json:"index"`
	Delta   json.RawMessage `json:"delta"`
	Message json.RawMessage `json:"message"`
	Finish  json.RawMessage `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`
	Usage   json.RawMessage `json:"usage"`
}

type rawDelta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	Thinking         json.RawMessage `json:"thinking"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"`
}

type rawCall struct {
	Index     json.RawMessage `json:"index"`
	ID        json.RawMessage `json:"id"`
	Function  json.RawMessage `json:"function"`
	Name      json.RawMessage `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// isSet tells a value that is there from one that is missing, null or empty.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "{}", "[]", "false":
		return false
	}
	return true
}

// into decodes raw into an object; false when raw is none.
func into(raw json.RawMessage, v any) bool {
	return len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, v) == nil
}

// list gives the elements of an array, and an object as a list of one.
func list(raw json.RawMessage) []json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	var items []json.RawMessage
	if raw[0] == '{' {
		return append(items, raw)
	}
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	return items
}

// rawText decodes a string, and gives a number as it is written. Anything else is "".
func rawText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
		return string(raw)
	}
	return ""
}

// rawIndex decodes an index given as a number or as text; -1 when there is none.
func rawIndex(raw json.RawMessage) int {
	f, err := strconv.ParseFloat(rawText(raw), 64)
	if err != nil || f < 0 || f > 1e6 {
		return -1
	}
	return int(f)
}

// joiner decodes strings that come in pieces. A character outside the basic plane is two escapes in JSON, and servers that count
// in UTF-16 cut between them; the first half waits here for the second.
type joiner struct {
	half string // an escape such as \ud83d
}

// text decodes a piece. A raw value that is no string gives "".
func (j *joiner) text(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if len(raw) == 2 {
		return "" // an empty piece is no news for the half that waits
	}
	body := raw[1 : len(raw)-1]
	joined := j.half + string(body)
	j.half = ""
	if at := len(joined) - 6; at >= 0 && isHalf(joined, at) {
		joined, j.half = joined[:at], joined[at:]
	}
	return rawText(json.RawMessage(`"` + joined + `"`))
}

// flush gives up on the second half.
func (j *joiner) flush() string {
	if j.half == "" {
		return ""
	}
	j.half = ""
	return "\uFFFD"
}

// isHalf tells whether the six bytes at at, the last ones, escape the first half of a surrogate pair.
func isHalf(s string, at int) bool {
	e := strings.ToLower(s[at:])
	if !strings.HasPrefix(e, `\ud`) || !strings.ContainsRune("89ab", rune(e[3])) {
		return false
	}
	slashes := 0 // an even number of backslashes before it: this one is not itself escaped
	for i := at - 1; i >= 0 && s[i] == '\\'; i-- {
		slashes++
	}
	return slashes%2 == 0
}

// content decodes the content of a delta: text, or a list of parts, where Mistral mixes text with thinking. The two results are
// the text and the reasoning.
func content(raw json.RawMessage, text, reasoning *joiner) (string, string) {
	if len(raw) == 0 || raw[0] != '[' {
		return text.text(raw), ""
	}
	var said, thought strings.Builder
	for _, item := range list(raw) {
		var part struct {
			Text     json.RawMessage `json:"text"`
			Thinking json.RawMessage `json:"thinking"`
		}
		if !into(item, &part) {
			said.WriteString(text.text(item))
			continue
		}
		said.WriteString(text.text(part.Text))
		thought.WriteString(reasoning.text(part.Thinking))
		if len(part.Thinking) > 0 && part.Thinking[0] == '[' {
			inner, _ := content(part.Thinking, reasoning, reasoning)
			thought.WriteString(inner)
		}
	}
	return said.String(), thought.String()
}

// arguments decodes the arguments of a call: text, or, from servers that do not know better, the object itself.
func arguments(raw json.RawMessage, j *joiner) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] == '"' {
		return j.text(raw)
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}
