package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A document is a tree of nil, bool, json.Number, string, []any and *object, so that nothing is lost that typed models of OpenAPI
// lose: the order of keys, the digits of numbers, and keywords of JSON Schema that are newer than the model.

// object is a JSON object that remembers the order of its keys.
type object struct {
	keys   []string
	values map[string]any
}

func newObject(pairs ...any) *object {
	o := &object{values: make(map[string]any, len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// set adds a member. A repeated key keeps its first place and gets the new value.
func (o *object) set(key string, value any) {
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) has(key string) bool {
	if o == nil {
		return false
	}
	_, there := o.values[key]
	return there
}

func (o *object) get(key string) any {
	if o == nil {
		return nil
	}
	return o.values[key]
}

func (o *object) text(key string) string { s, _ := o.get(key).(string); return s }

func (o *object) flag(key string) bool { b, _ := o.get(key).(bool); return b }

func (o *object) list(key string) []any { l, _ := o.get(key).([]any); return l }

// object returns a member that is an object, else nil, which all readers take for an empty one.
func (o *object) object(key string) *object { m, _ := o.get(key).(*object); return m }

// each lists the keys in order; none of nil.
func (o *object) each() []string {
	if o == nil {
		return nil
	}
	return o.keys
}

func (o *object) clone() *object {
	c := newObject()
	for _, k := range o.each() {
		c.set(k, o.values[k])
	}
	return c
}

// maxNesting is how deep a document, an argument or an answer may be nested.
const maxNesting = 1000

var errNesting = fmt.Errorf("nested deeper than %d", maxNesting)

// parseYAML reads one YAML document, of which JSON is nearly a part.
func parseYAML(raw []byte) (any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(raw, &n); err != nil {
		return nil, err
	}
	r := yamlReader{made: map[*yaml.Node]any{}, open: map[*yaml.Node]bool{}}
	return r.read(&n, 0)
}

// yamlReader makes each node once, so that aliases of aliases cost no more than they are written.
type yamlReader struct {
	made map[*yaml.Node]any
	open map[*yaml.Node]bool // being made: an alias to one of them is a circle
}

func (r yamlReader) read(n *yaml.Node, depth int) (any, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	if v, done := r.made[n]; done {
		return v, nil
	}
	if r.open[n] {
		return nil, errors.New("an alias within its own anchor")
	}
	r.open[n] = true
	v, err := r.make(n, depth)
	delete(r.open, n)
	if err != nil {
		return nil, err
	}
	r.made[n] = v
	return v, nil
}

func (r yamlReader) make(n *yaml.Node, depth int) (any, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, nil
		}
		return r.read(n.Content[0], depth+1)
	case yaml.AliasNode:
		return r.read(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.read(c, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	}
	return scalar(n), nil
}

func (r yamlReader) mapping(n *yaml.Node, depth int) (any, error) {
	o := newObject()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, err := r.read(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if key.Tag != "!!merge" {
			o.set(key.Value, v)
			continue
		}
		for _, from := range append([]any{v}, asList(v)...) { // what stands in the mapping itself wins
			if m, ok := from.(*object); ok {
				for _, k := range m.keys {
					if !o.has(k) {
						o.set(k, m.values[k])
					}
				}
			}
		}
	}
	return o, nil
}

func asList(v any) []any { l, _ := v.([]any); return l }

// scalar is a YAML scalar as the JSON value it means. Dates stay texts, as they are written.
func scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		clean := strings.ReplaceAll(n.Value, "_", "")
		if i, err := strconv.ParseInt(clean, 0, 64); err == nil {
			return json.Number(strconv.FormatInt(i, 10))
		}
		if f, err := strconv.ParseFloat(clean, 64); err == nil && json.Valid([]byte(strconv.FormatFloat(f, 'g', -1, 64))) {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
		if n.Tag == "!!float" { // infinite, or no number
			return nil
		}
	}
	return n.Value
}

// encode writes a value of the tree as compact JSON; only what JSON demands is escaped.
func encode(v any) []byte {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case bool:
		b.WriteString(strconv.FormatBool(v))
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
			write(b, item)
		}
		b.WriteByte(']')
	case *object:
		b.WriteByte('{')
		for i, key := range v.each() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, key)
			b.WriteByte(':')
			write(b, v.values[key])
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}

func writeString(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, c := range s { // a broken byte becomes U+FFFD
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

// indent writes a value the way that models are shown objects: two spaces for each level.
func indent(v any) string {
	var b bytes.Buffer
	if err := json.Indent(&b, encode(v), "", "  "); err != nil {
		return string(encode(v))
	}
	return b.String()
}
