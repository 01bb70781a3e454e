package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// toldError says in a sentence why a call was not made or gave nothing; the model is told.
type toldError struct{ text string }

func (e *toldError) Error() string { return e.text }

// request makes the request of a call. Header is what the connection sets: it wins over what a model gives.
func (op *operation) request(ctx context.Context, base *url.URL, header http.Header, arguments *object) (*http.Request, error) {
	shape := op.shape()
	given := func(wire string) (any, bool) {
		name := shape.names.offered(wire)
		v := arguments.get(name)
		return v, v != nil
	}
	path, query, cookies := op.path, []string{}, []string{}
	headers := http.Header{}
	for _, p := range op.params {
		v, ok := given(p.name)
		if p.in == "path" {
			segment, err := p.segment(v, ok)
			if err != nil {
				return nil, err
			}
			path = strings.ReplaceAll(path, "{"+p.name+"}", segment)
			continue
		}
		if !ok || v == "" && !p.required {
			continue
		}
		switch p.in {
		case "query":
			query = append(query, p.pairs(v, escapeQuery)...)
		case "header":
			headers.Set(p.name, oneLine(p.simple(v, false)))
		case "cookie":
			cookies = append(cookies, p.pairs(v, escapeCookie)...)
		}
	}
	if strings.ContainsAny(path, "{}") {
		return nil, &toldError{"The path " + op.path + " has a part that no parameter describes."}
	}
	content, kind, err := op.content(arguments, shape)
	if err != nil {
		return nil, err
	}
	target := strings.TrimRight(base.Scheme+"://"+base.Host+base.EscapedPath(), "/") + path
	if base.RawQuery != "" {
		query = append([]string{base.RawQuery}, query...)
	}
	if len(query) > 0 {
		join := "?"
		if strings.Contains(path, "?") {
			join = "&"
		}
		target += join + strings.Join(query, "&")
	}
	r, err := http.NewRequestWithContext(ctx, op.method, target, bytes.NewReader(content))
	if err != nil {
		return nil, &toldError{"The address of the call is not valid: " + err.Error()}
	}
	if content == nil {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	} else {
		r.Header.Set("Content-Type", kind)
	}
	r.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.8")
	for name, values := range headers {
		r.Header[name] = values
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if len(cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(append(r.Header.Values("Cookie"), cookies...), "; "))
	}
	return r, nil
}

// segment is the value of a path parameter, encoded so that it stays one part of the path.
func (p param) segment(v any, ok bool) (string, error) {
	text := ""
	if ok {
		text = p.simple(v, true)
	}
	switch {
	case text == "":
		return "", &toldError{fmt.Sprintf("The parameter %q is required.", p.name)}
	case text == "." || text == "..":
		return "", &toldError{fmt.Sprintf("The parameter %q must not be %q.", p.name, text)}
	}
	switch p.style {
	case "label":
		return "." + text, nil
	case "matrix":
		if p.explode && !isScalar(v) {
			return text, nil
		}
		return ";" + url.PathEscape(p.name) + "=" + text, nil
	}
	return text, nil
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, *object:
		return false
	}
	return true
}

// simple is a value in one piece: lists and objects with commas, or what the style of a path parameter has instead.
func (p param) simple(v any, path bool) string {
	escape := func(s string) string { return s }
	if path {
		escape = url.PathEscape
	}
	if p.json {
		return escape(string(encode(v)))
	}
	separator, prefix := ",", ""
	if path && p.explode {
		switch p.style {
		case "label":
			separator = "."
		case "matrix":
			separator = ";"
			prefix = url.PathEscape(p.name) + "="
		}
	}
	switch v := v.(type) {
	case []any:
		var parts []string
		for i, item := range v {
			part := escape(plainText(item))
			if separator == ";" {
				part = prefix + part
				if i == 0 {
					part = ";" + part
				}
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, separator)
	case *object:
		var parts []string
		for i, key := range v.keys {
			key, value := escape(key), escape(plainText(v.values[key]))
			switch {
			case !p.explode:
				parts = append(parts, key, value)
			case separator == ";" && i == 0:
				parts = append(parts, ";"+key+"="+value)
			default:
				parts = append(parts, key+"="+value)
			}
		}
		return strings.Join(parts, separator)
	}
	return escape(plainText(v))
}

// pairs are the name=value pairs of a query or cookie parameter.
func (p param) pairs(v any, escape func(string) string) []string {
	pair := func(name, value string) string { return escape(name) + "=" + escape(value) }
	if p.json {
		return []string{pair(p.name, string(encode(v)))}
	}
	switch v := v.(type) {
	case []any:
		var texts []string
		for _, item := range v {
			texts = append(texts, plainText(item))
		}
		if p.explode {
			for i, t := range texts {
				texts[i] = pair(p.name, t)
			}
			return texts
		}
		for i, t := range texts {
			texts[i] = escape(t)
		}
		separator := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]
		if separator == "" {
			separator = ","
		}
		return []string{escape(p.name) + "=" + strings.Join(texts, separator)}
	case *object:
		switch {
		case p.style == "deepObject":
			return deep(p.name, v, escape)
		case p.explode:
			var all []string
			for _, key := range v.keys {
				all = append(all, pair(key, plainText(v.values[key])))
			}
			return all
		}
		var parts []string
		for _, key := range v.keys {
			parts = append(parts, escape(key), escape(plainText(v.values[key])))
		}
		return []string{escape(p.name) + "=" + strings.Join(parts, ",")}
	}
	return []string{pair(p.name, plainText(v))}
}

// deep writes an object as name[key]=value.
func deep(name string, v any, escape func(string) string) []string {
	switch v := v.(type) {
	case *object:
		var all []string
		for _, key := range v.keys {
			all = append(all, deep(name+"["+key+"]", v.values[key], escape)...)
		}
		return all
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, deep(name+"[]", item, escape)...)
		}
		return all
	}
	return []string{escape(name) + "=" + escape(plainText(v))}
}

// plainText is a value as text: texts as they are, everything else as JSON.
func plainText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return string(encode(v))
}

func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// escapeCookie leaves what a cookie may hold.
func escapeCookie(s string) string { return url.PathEscape(s) }

// oneLine takes line breaks and other control characters out of a header's value.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s))
}

// readArguments reads what a model gave; keys that the function has not got are left out where they are used.
func readArguments(raw json.RawMessage) (*object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return newObject(), nil
	}
	v, err := parseJSON(raw)
	if err != nil {
		return nil, &toldError{"The arguments are no JSON: " + err.Error()}
	}
	o, ok := v.(*object)
	if !ok {
		return nil, &toldError{"The arguments must be a JSON object."}
	}
	return o, nil
}
