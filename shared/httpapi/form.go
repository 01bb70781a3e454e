package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
)

// form is a JSON object from a request, read field by field. Each reader notes what is wrong and goes on, so that err tells of all
// wrong fields at once, as FastAPI does. Read the fields in the order in which faults are to be listed.
type form struct {
	values map[string]any
	loc    []any
	faults *[]fault.Field
}

// readForm reads the body, which must be an object.
func readForm(r *http.Request) (form, error) {
	var v any
	if err := decode(r, &v); err != nil {
		return form{}, err
	}
	values, ok := v.(map[string]any)
	if !ok {
		return form{}, fault.Fields(fault.Field{Type: "model_attributes_type", Loc: []any{"body"},
			Msg: "Input should be a valid dictionary or object to extract fields from", Input: v})
	}
	return form{values: values, loc: []any{"body"}, faults: &[]fault.Field{}}, nil
}

// err is the fault of all wrong fields, nil when there are none.
func (f form) err() error {
	if len(*f.faults) > 0 {
		return fault.Fields(*f.faults...)
	}
	return nil
}

func (f form) at(path ...any) []any { return append(append([]any{}, f.loc...), path...) }

func (f form) wrong(kind, msg string, input any, path ...any) {
	*f.faults = append(*f.faults, fault.Field{Type: kind, Loc: f.at(path...), Msg: msg, Input: input})
}

func (f form) missing(name string) {
	*f.faults = append(*f.faults, fault.MissingField(f.values, f.at(name)...))
}

// text is a required text.
func (f form) text(name string) string {
	if _, ok := f.values[name]; !ok {
		f.missing(name)
		return ""
	}
	s, ok := f.values[name].(string)
	if !ok {
		f.wrong("string_type", "Input should be a valid string", f.values[name], name)
	}
	return s
}

// textOrNil is an optional text; nil when absent or null.
func (f form) textOrNil(name string) *string {
	if f.values[name] == nil {
		return nil
	}
	s := f.text(name)
	return &s
}

// object is a required object, of a kind that FastAPI calls a dictionary or, with fields of its own, a model.
func (f form) object(name string, isModel bool) map[string]any {
	if _, ok := f.values[name]; !ok {
		f.missing(name)
		return nil
	}
	m, ok := f.values[name].(map[string]any)
	switch {
	case ok:
	case isModel:
		f.wrong("model_attributes_type", "Input should be a valid dictionary or object to extract fields from", f.values[name], name)
	default:
		f.wrong("dict_type", "Input should be a valid dictionary", f.values[name], name)
	}
	return m
}

// objectOrNil is an optional object; nil when absent or null.
func (f form) objectOrNil(name string) map[string]any {
	if f.values[name] == nil {
		return nil
	}
	return f.object(name, false)
}

// within reads the fields of an object that is a field of this form.
func (f form) within(name string) form {
	values, _ := f.values[name].(map[string]any)
	return form{values: values, loc: f.at(name), faults: f.faults}
}

// flag is an optional truth value, also as the words and numbers that FastAPI takes for one.
func (f form) flag(name string, otherwise bool) bool {
	v, ok := f.values[name]
	if !ok {
		return otherwise
	}
	switch v {
	case true, "true", "True", "TRUE", "1", "yes", "on", "t", "y", json.Number("1"):
		return true
	case false, "false", "False", "FALSE", "0", "no", "off", "f", "n", json.Number("0"):
		return false
	}
	switch v.(type) {
	case string, json.Number:
		f.wrong("bool_parsing", "Input should be a valid boolean, unable to interpret input", v, name)
	default:
		f.wrong("bool_type", "Input should be a valid boolean", v, name)
	}
	return otherwise
}

// only refuses fields of other names.
func (f form) only(names ...string) {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !slices.Contains(names, name) {
			f.wrong("extra_forbidden", "Extra inputs are not permitted", f.values[name], name)
		}
	}
}

func (f form) list(name string, required bool) []any {
	v, ok := f.values[name]
	if !ok && required {
		f.missing(name)
	}
	if !ok || v == nil && !required {
		return nil
	}
	l, ok := v.([]any)
	if !ok {
		f.wrong("list_type", "Input should be a valid list", v, name)
	}
	return l
}

// texts is an optional list of texts.
func (f form) texts(name string) []string {
	texts := []string{}
	for i, v := range f.list(name, false) {
		s, ok := v.(string)
		if !ok {
			f.wrong("string_type", "Input should be a valid string", v, name, i)
		}
		texts = append(texts, s)
	}
	return texts
}

// grants are asked-for grants; what makes none is dropped later, by access.Grants.
func (f form) grants(name string, required bool) []access.Grant {
	var grants []access.Grant
	for i, v := range f.list(name, required) {
		m, ok := v.(map[string]any)
		if !ok {
			f.wrong("dict_type", "Input should be a valid dictionary", v, name, i)
			continue
		}
		text := func(k string) string { s, _ := m[k].(string); return s }
		grants = append(grants, access.Grant{PrincipalType: text("principal_type"), PrincipalID: text("principal_id"), Permission: text("permission")})
	}
	return grants
}

// instead turns the fault of a code into another, where a route answers otherwise than its service.
func instead(err error, code, as fault.Code, detail string) error {
	if err != nil && fault.CodeOf(err) == code {
		return fault.Wrap(as, detail, err)
	}
	return err
}
