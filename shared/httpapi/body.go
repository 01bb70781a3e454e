package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// answer writes v as JSON: numbers exact, nothing escaped that JSON does not demand.
func answer(w http.ResponseWriter, status int, v any) error {
	raw, err := table.Encode(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(raw) // a caller that has gone needs no answer
	return nil
}

// answer is the function of the same name, for handlers: return s.answer(w, 200, v).
func (s *server) answer(w http.ResponseWriter, status int, v any) error { return answer(w, status, v) }

// body reads the request's body. Too large: fault.TooLarge; cut off: fault.Invalid.
func body(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, errTooLarge
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, "There was an error parsing the body", err)
	}
	return raw, nil
}

// decode reads the request's body, exactly one JSON value, into v. Numbers stay exact where v has interfaces. A body that is missing, is
// no JSON, or does not fit v is fault.Unprocessed with FastAPI's list.
func decode(r *http.Request, v any) error {
	raw, err := body(r)
	if err != nil {
		return err
	}
	if err := wellFormed(raw); err != nil {
		return err
	}
	err = table.Decode(raw, v)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	loc := []any{"body"}
	if wrong.Field != "" {
		for _, part := range strings.Split(wrong.Field, ".") {
			loc = append(loc, part)
		}
	}
	kind, msg := expected(wrong.Type, len(loc) == 1)
	return fault.Fields(fault.Field{Type: kind, Loc: loc, Msg: msg, Input: wrong.Value})
}

// decode is the function of the same name, for handlers.
func (s *server) decode(r *http.Request, v any) error { return decode(r, v) }

func expected(t reflect.Type, top bool) (kind, msg string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string_type", "Input should be a valid string"
	case reflect.Bool:
		return "bool_type", "Input should be a valid boolean"
	case reflect.Slice, reflect.Array:
		return "list_type", "Input should be a valid list"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "int_type", "Input should be a valid integer"
	case reflect.Float64, reflect.Float32:
		return "float_type", "Input should be a valid number"
	case reflect.Map:
		if !top {
			return "dict_type", "Input should be a valid dictionary"
		}
	}
	return "model_attributes_type", "Input should be a valid dictionary or object to extract fields from"
}

// invalidJSON is a fault.Field with the reason, as FastAPI answers to what is no JSON.
type invalidJSON struct {
	fault.Field
	Ctx struct {
		Error string `json:"error"`
	} `json:"ctx"`
}

// wellFormed refuses bodies that are empty, not UTF-8, or not one JSON value, saying where.
func wellFormed(raw []byte) error {
	if len(raw) == 0 {
		return fault.Fields(fault.Field{Type: "missing", Loc: []any{"body"}, Msg: "Field required"})
	}
	at, why := 0, ""
	var syntax *json.SyntaxError
	var v json.RawMessage
	switch err := json.Unmarshal(raw, &v); {
	case errors.As(err, &syntax):
		at, why = max(int(syntax.Offset)-1, 0), reason(syntax.Error())
		if why == "Expecting value" && strings.HasPrefix(syntax.Error(), "unexpected end") {
			at = len(raw)
		}
	case err != nil:
		why = "Expecting value"
	case !utf8.Valid(raw):
		for at < len(raw) {
			r, n := utf8.DecodeRune(raw[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		why = "Invalid UTF-8"
	default:
		return nil
	}
	wrong := invalidJSON{Field: fault.Field{Type: "json_invalid", Msg: "JSON decode error", Input: map[string]any{},
		Loc: []any{"body", utf8.RuneCount(raw[:min(at, len(raw))])}}}
	wrong.Ctx.Error = why
	return &fault.Error{Code: fault.Unprocessed, Detail: []invalidJSON{wrong}}
}

// reason puts Go's words for a syntax error into those that clients know from Python.
func reason(text string) string {
	for _, r := range [][2]string{
		{"object key string", "Expecting property name enclosed in double quotes"},
		{"after object key:value pair", "Expecting ',' delimiter"},
		{"after array element", "Expecting ',' delimiter"},
		{"after object key", "Expecting ':' delimiter"},
		{"after top-level value", "Extra data"},
		{"in string escape code", `Invalid \escape`},
		{`in \u`, `Invalid \uXXXX escape`},
		{"in string literal", "Invalid control character at"},
	} {
		if strings.Contains(text, r[0]) {
			return r[1]
		}
	}
	return "Expecting value"
}
