package tool

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// ArgumentError says that a model's arguments cannot be used. Its text is the tool result that the model gets to read, word for
// word as spec/http.md D3.6 has it, so that clients which match on it go on working.
type ArgumentError struct {
	Name      string // the function that was called
	NotObject bool   // well-formed, but something other than an object; false: malformed
}

func (e *ArgumentError) Error() string {
	if e.NotObject {
		return "Error: Tool call arguments for `" + e.Name + "` must be a JSON object. Please try again."
	}
	return "Error: Tool call arguments could not be parsed. The model generated malformed or incomplete JSON for `" + e.Name +
		"`. Please try again."
}

// ParseArguments turns the arguments of a call to the function name, as the model wrote them, into the compact JSON text of one
// object: `{"a":1}`. Keys keep their order (a repeated key keeps its first place and its last value), numbers keep every digit,
// and only what JSON demands is escaped. Nothing at all, white space and null mean no arguments: `{}`.
//
// What is not JSON but a Python literal dict (single quotes, True, False, None, tuples) is accepted, because models that were
// trained on Python write it. Anything else is an *ArgumentError, for which clean is "".
func ParseArguments(name, text string) (clean string, err *ArgumentError) {
	if strings.TrimSpace(text) == "" {
		return "{}", nil
	}
	v, parseErr := parseJSON(text)
	if parseErr != nil {
		if v, parseErr = parseLiteral(text); parseErr != nil {
			return "", &ArgumentError{Name: name}
		}
	}
	switch v := v.(type) {
	case nil:
		return "{}", nil
	case *object:
		var b strings.Builder
		writeValue(&b, v)
		return b.String(), nil
	}
	return "", &ArgumentError{Name: name, NotObject: true}
}

// SplitGlued takes apart several JSON objects that a model or a proxy glued together as one call's arguments, with or without
// white space between them: `{"q":"A"}{"q":"B"}` are two calls of the same function. It returns the text of each as it was
// written. Everything else comes back whole, as the only element.
func SplitGlued(text string) []string {
	d := json.NewDecoder(strings.NewReader(text))
	var parts []string
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || raw[0] != '{' {
			return []string{text}
		}
		parts = append(parts, string(raw))
	}
	if len(parts) < 2 {
		return []string{text}
	}
	return parts
}

// object is a JSON object that remembers the order of its keys, which a Go map does not: what a model wrote first is stored,
// shown and replayed first. The values of the tree are nil, bool, json.Number, string, []any and *object.
type object struct {
	keys   []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

// set adds a member; as in Python, a repeated key keeps its first place and gets the new value.
func (o *object) set(key string, value any) {
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// parseJSON reads exactly one JSON value. The decoder bounds the nesting, so recursion here is bounded too.
func parseJSON(text string) (any, error) {
	// The token reader alone accepts some malformed texts (such as a missing comma in old releases); Valid is the grammar.
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return readValue(d)
}

func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	o := newObject()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := readValue(d)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("a key that is no string")
		}
		o.set(name, v)
	}
	_, err = d.Token()
	return o, err
}

// writeValue writes a value of the tree as compact JSON. encoding/json is not used because it escapes U+2028 and U+2029, and
// would sort nothing but also order nothing.
func writeValue(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		if v {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case json.Number:
		b.WriteString(v.String())
	case string:
		writeString(b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, item)
		}
		b.WriteByte(']')
	case *object:
		b.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, key)
			b.WriteByte(':')
			writeValue(b, v.values[key])
		}
		b.WriteByte('}')
	}
}

// writeString writes a JSON string that escapes the quote, the backslash and control characters, and nothing else.
func writeString(b *strings.Builder, s string) {
	const hex = "0123456789abcdef"
	b.WriteByte('"')
	for _, r := range s { // a broken byte of s becomes U+FFFD, so the result is always UTF-8
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20:
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
