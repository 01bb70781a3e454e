package mcp

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// integer is what Python's int() takes and JSON can say, leading zeros and plus signs aside.
var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// number is a JSON number.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// coerce makes the arguments of a call what the schema says they are, where models commonly get it wrong: an integer or a number
// given as a string, a string given as a number. Digits are never lost, and whatever does not fit is left for the server to refuse.
// Empty arguments are {}; what is no object is returned as it is.
func coerce(arguments, schema json.RawMessage) json.RawMessage {
	if kind := first(arguments); kind == 0 || kind == 'n' {
		return json.RawMessage("{}")
	}
	args, err := members(arguments)
	if err != nil {
		return arguments
	}
	root, err := members(schema)
	if err != nil {
		return arguments
	}
	properties, err := members(get(root, "properties"))
	if err != nil {
		return arguments
	}
	changed := false
	for i, a := range args {
		declared := get(properties, a.key)
		if declared == nil {
			continue
		}
		if value, ok := convert(a.value, types(root, declared, 0)); ok {
			args[i].value, changed = value, true
		}
	}
	if !changed {
		return arguments
	}
	return object(args)
}

// convert returns the value as one of the types, false when it is one already or cannot be.
func convert(value json.RawMessage, allowed []string) (json.RawMessage, bool) {
	value = bytes.TrimSpace(value)
	wants := func(kind string) bool { return slices.Contains(allowed, kind) }
	switch kind := first(value); {
	case kind == '"' && !wants("string"):
		var s string
		if json.Unmarshal(value, &s) != nil {
			return nil, false
		}
		s = strings.TrimSpace(s)
		if wants("integer") && integer.MatchString(s) || wants("number") && number.MatchString(s) {
			return json.RawMessage(s), true
		}
	case (kind == '-' || kind >= '0' && kind <= '9') && wants("string") && !wants("integer") && !wants("number"):
		return text(string(value)), true
	}
	return nil, false
}

// types returns the JSON types that a schema allows at its top, following local references and alternatives.
func types(root []member, schema json.RawMessage, depth int) []string {
	s, err := members(schema)
	if err != nil || depth > 8 {
		return nil
	}
	var ref string
	if json.Unmarshal(get(s, "$ref"), &ref) == nil && ref != "" {
		return types(root, resolve(root, ref), depth+1)
	}
	var list []string
	declared := get(s, "type")
	switch first(declared) {
	case '"':
		var one string
		if json.Unmarshal(declared, &one) == nil {
			list = append(list, one)
		}
	case '[':
		_ = json.Unmarshal(declared, &list) // another shape declares nothing
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var alternatives []json.RawMessage
		if json.Unmarshal(get(s, key), &alternatives) != nil {
			continue
		}
		for _, a := range alternatives {
			list = append(list, types(root, a, depth+1)...)
		}
	}
	return list
}

// resolve returns the schema that a local reference such as #/$defs/Mode names, nil when there is none.
func resolve(root []member, ref string) json.RawMessage {
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	at := root
	var found json.RawMessage
	for _, step := range strings.Split(path, "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		found = get(at, step)
		at, _ = members(found) // nil at the end, and where the path does not exist
	}
	return found
}
