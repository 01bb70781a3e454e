package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// member is one key of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// members splits an object without touching its values. Of equal keys the last value stays, at the place of the first.
func members(raw json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	var list []member
	at := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // the decoder lets nothing else stand here
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if i, twice := at[key]; twice {
			list[i].value = value
			continue
		}
		at[key] = len(list)
		list = append(list, member{key, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("text after the object")
	}
	return list, nil
}

// object is the inverse of members.
func object(list []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(&b, m.key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// get returns the value of a key, nil when there is none.
func get(list []member, key string) json.RawMessage {
	for _, m := range list {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// quote writes a string the way Python's json.dumps(ensure_ascii=False) does: nothing is escaped that need not be.
func quote(b *bytes.Buffer, s string) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return // a string cannot fail to encode
	}
	text := bytes.TrimSuffix(line.Bytes(), []byte("\n"))
	// encoding/json escapes these two for JavaScript's sake. A backslash before them would itself be escaped, so nothing else matches.
	if bytes.Contains(text, []byte(`\u202`)) {
		text = unescapeSeparators(text)
	}
	b.Write(text)
}

func unescapeSeparators(text []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 >= len(text) {
			b.WriteByte(text[i])
			continue
		}
		if rest := string(text[i:min(i+6, len(text))]); rest == `\u2028` || rest == `\u2029` {
			b.WriteString(map[string]string{`\u2028`: "\u2028", `\u2029`: "\u2029"}[rest])
			i += 5
			continue
		}
		b.Write(text[i : i+2])
		i++
	}
	return b.Bytes()
}

// maxIndented is how deep a value may be nested to be written with indentation: its white space grows with the square of the depth.
const maxIndented = 64

// pretty writes a JSON value as Python's json.dumps(indent=2, ensure_ascii=False) does, with its keys in their order and its numbers
// as they are written. A value that is nested beyond reason is returned as it is.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := indent(&b, d, 0); err != nil {
		return string(raw)
	}
	return b.String()
}

var errDeep = errors.New("nested too deeply")

func indent(b *bytes.Buffer, d *json.Decoder, depth int) error {
	if depth > maxIndented {
		return errDeep
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return scalar(b, t)
	}
	b.WriteByte(byte(open))
	n := 0
	for ; d.More(); n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		newline(b, depth+1)
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			quote(b, key.(string))
			b.WriteString(": ")
		}
		if err := indent(b, d, depth+1); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err != nil {
		return err
	}
	if n > 0 {
		newline(b, depth)
	}
	b.WriteString(end.(json.Delim).String())
	return nil
}

func newline(b *bytes.Buffer, depth int) {
	b.WriteByte('\n')
	b.WriteString(strings.Repeat("  ", depth))
}

func scalar(b *bytes.Buffer, t json.Token) error {
	switch v := t.(type) {
	case string:
		quote(b, v)
	case json.Number:
		b.WriteString(v.String())
	case bool:
		fmt.Fprint(b, v)
	case nil:
		b.WriteString("null")
	default:
		return fmt.Errorf("unexpected %T", t)
	}
	return nil
}

// text is a string as a JSON value.
func text(s string) json.RawMessage {
	var b bytes.Buffer
	quote(&b, s)
	return b.Bytes()
}

// first returns the first character of a JSON value, 0 of none.
func first(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}
