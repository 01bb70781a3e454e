package openapi

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// schemas makes schemas of a document fit for a model: whole in themselves, without references, and plain JSON Schema that strict
// validators and providers take, whatever version of OpenAPI they were written for.
type schemas struct {
	root  *object
	spent int // schemas made so far of one operation
}

// Schemas that would grow beyond these are told in outline.
const (
	maxSchemas = 4000 // of one operation
	maxRefs    = 24   // references within references
)

// lookup finds what a reference within the document points to, nil when there is nothing.
func lookup(root *object, ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok { // another document: never fetched
		return nil
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	var at any = root
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" && pointer == "" {
			return root
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case *object:
			at = v.get(step)
		case []any:
			i := index(step)
			if i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

func index(s string) int {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' || n > 1_000_000 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// deref follows references to an object: a parameter, a body, a path. It returns nil for what leads nowhere.
func deref(root *object, v any) *object {
	for range maxRefs {
		o, ok := v.(*object)
		if !ok {
			return nil
		}
		ref := o.text("$ref")
		if ref == "" {
			return o
		}
		v = lookup(root, ref)
	}
	return nil
}

// clean makes one schema. Within are the references that it lies within, so that a circle is seen.
func (s *schemas) clean(v any, within []string) *object {
	s.spent++
	o, ok := v.(*object)
	if !ok { // true, false, or nonsense: anything goes
		return newObject()
	}
	ref := o.text("$ref")
	if ref == "" {
		return s.plain(o, within)
	}
	target := lookup(s.root, ref)
	if slices.Contains(within, ref) || len(within) >= maxRefs || s.spent > maxSchemas {
		return s.outline(target)
	}
	made := s.clean(target, append(slices.Clip(within), ref))
	if len(o.keys) == 1 {
		return made
	}
	siblings := o.clone() // of 3.1: they add to what is referred to
	siblings.remove("$ref")
	return merge(s.plain(siblings, within), made)
}

func (o *object) remove(key string) {
	if o.has(key) {
		delete(o.values, key)
		o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
	}
}

// outline tells of a schema no more than its type and description.
func (s *schemas) outline(v any) *object {
	o, made := deref(s.root, v), newObject()
	if t := typeOf(o); t != "" {
		made.set("type", t)
	}
	if d := o.text("description"); d != "" {
		made.set("description", d)
	}
	if made.text("type") == "array" {
		made.set("items", newObject())
	}
	return made
}

// dropped are keywords that say nothing to a model, or that cannot be said without a reference.
var dropped = []string{
	"$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "$vocabulary", "nullable",
	"discriminator", "xml", "externalDocs", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies",
	"unevaluatedProperties", "unevaluatedItems", "contains", "minContains", "maxContains", "propertyNames", "patternProperties",
	"contentSchema", "allOf", "type", "required", "additionalItems",
}

// plain makes a schema that is no reference.
func (s *schemas) plain(o *object, within []string) *object {
	made := newObject()
	if t := types(o); t != nil {
		made.set("type", t)
	}
	for _, key := range o.keys {
		if slices.Contains(dropped, key) || strings.HasPrefix(key, "x-") {
			continue
		}
		if v, keep := s.keyword(o, key, within); keep {
			made.set(key, v)
		}
	}
	required := onlyTexts(o.list("required"))
	if len(required) > 0 {
		made.set("required", required)
	}
	for _, part := range o.list("allOf") {
		if s.spent <= maxSchemas {
			made = merge(made, s.clean(part, within))
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if made.has(key) {
			made = single(made, key)
		}
	}
	return tidy(made)
}

// keyword makes the value of one keyword; false leaves it out.
func (s *schemas) keyword(o *object, key string, within []string) (any, bool) {
	v := o.values[key]
	if s.spent > maxSchemas && slices.Contains([]string{"properties", "items", "additionalProperties", "anyOf", "oneOf", "prefixItems"}, key) {
		return nil, false
	}
	switch key {
	case "properties":
		props, ok := v.(*object)
		if !ok {
			return nil, false
		}
		made := newObject()
		for _, name := range props.keys {
			if p := deref(s.root, props.values[name]); p.flag("readOnly") { // of answers only
				continue
			}
			made.set(name, s.clean(props.values[name], within))
		}
		return made, true
	case "items":
		return s.clean(v, within), true
	case "additionalProperties":
		if _, isFlag := v.(bool); isFlag {
			return v, true
		}
		_, ok := v.(*object)
		return s.clean(v, within), ok
	case "anyOf", "oneOf", "prefixItems":
		var made []any
		for _, part := range asList(v) {
			if key == "prefixItems" || !nothing(deref(s.root, part)) {
				made = append(made, s.clean(part, within))
			}
		}
		return made, len(made) > 0
	case "default":
		return v, v != nil
	case "enum":
		return enum(v)
	case "pattern":
		text, ok := v.(string)
		if ok {
			_, err := regexp.Compile(text)
			ok = err == nil
		}
		return v, ok
	case "minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		if other := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[key]; other != "" && o.get(other) == true {
			return nil, false // 3.0: the bound moves to the other keyword
		}
		_, ok := v.(json.Number)
		return v, ok
	case "exclusiveMinimum", "exclusiveMaximum":
		if v == true {
			v = o.get("m" + strings.TrimPrefix(key, "exclusiveM"))
		}
		_, ok := v.(json.Number)
		return v, ok
	case "title", "description", "format", "contentEncoding", "contentMediaType":
		_, ok := v.(string)
		return v, ok
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		_, ok := v.(bool)
		return v, ok
	case "examples":
		_, ok := v.([]any)
		return v, ok
	}
	return v, true
}

// enum is the list of values without null, which is not for the model, and without repetitions.
func enum(v any) (any, bool) {
	var kept []any
	seen := map[string]bool{}
	for _, value := range asList(v) {
		if raw := string(encode(value)); value != nil && !seen[raw] {
			seen[raw] = true
			kept = append(kept, value)
		}
	}
	return kept, len(kept) > 0
}

// nothing tells whether only null fits a schema: it says that a value may be left out, which models do without being told.
func nothing(o *object) bool {
	switch t := o.get("type").(type) {
	case string:
		return t == "null"
	case []any:
		return len(t) > 0 && !slices.ContainsFunc(t, func(v any) bool { return v != "null" })
	}
	if o.has("const") {
		return o.get("const") == nil
	}
	_, some := enum(o.get("enum"))
	return o.has("enum") && !some
}

// single makes a choice of one what it chooses from.
func single(o *object, key string) *object {
	if parts := o.list(key); len(parts) == 1 {
		o.remove(key)
		return merge(o, parts[0].(*object))
	}
	return o
}

// merge adds to a schema what another one says besides: its properties and required names, and the keywords that it has not got.
func merge(to, from *object) *object {
	made := to.clone()
	for _, key := range from.keys {
		v := from.values[key]
		switch {
		case key == "properties" && made.has(key):
			both := made.object(key).clone()
			more, _ := v.(*object)
			for _, name := range more.each() {
				if p := both.object(name); p != nil {
					both.set(name, merge(p, more.object(name).clone()))
				} else {
					both.set(name, more.values[name])
				}
			}
			made.set(key, both)
		case key == "required":
			both := slices.Clone(made.list(key))
			for _, name := range asList(v) {
				if !slices.Contains(both, name) {
					both = append(both, name)
				}
			}
			made.set(key, both)
		case !made.has(key):
			made.set(key, v)
		}
	}
	return made
}

// tidy gives a schema the type that it means, and takes required names that there are no properties for.
func tidy(o *object) *object {
	switch {
	case o.has("type"):
	case o.has("properties"):
		o.set("type", "object")
	case o.has("items") || o.has("prefixItems"):
		o.set("type", "array")
	}
	if o.text("type") == "array" && !o.has("items") {
		o.set("items", newObject())
	}
	if o.has("properties") && o.has("required") {
		var kept []any
		for _, name := range o.list("required") {
			if text, ok := name.(string); ok && o.object("properties").has(text) && !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
		o.set("required", kept)
	}
	if o.has("required") && len(o.list("required")) == 0 {
		o.remove("required")
	}
	return o
}

var known = []string{"string", "number", "integer", "boolean", "array", "object"}

// types is the value of "type" without null: a text, a list of several, or nil.
func types(o *object) any {
	switch t := o.get("type").(type) {
	case string:
		if t == "file" {
			return "string"
		}
		if slices.Contains(known, t) {
			return t
		}
	case []any:
		var kept []any
		for _, one := range t {
			if name, ok := one.(string); ok && slices.Contains(known, name) && !slices.Contains(kept, one) {
				kept = append(kept, one)
			}
		}
		switch len(kept) {
		case 0:
		case 1:
			return kept[0]
		default:
			return kept
		}
	}
	return nil
}

// typeOf is the one type of a schema, as far as it says or shows one.
func typeOf(o *object) string {
	t, _ := types(o).(string)
	switch {
	case t != "":
	case o.has("properties"):
		return "object"
	case o.has("items"):
		return "array"
	}
	return t
}

func onlyTexts(list []any) []any {
	var kept []any
	for _, v := range list {
		if _, ok := v.(string); ok {
			kept = append(kept, v)
		}
	}
	return kept
}
