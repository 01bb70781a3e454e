package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
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

// content is the body of a request and its media type; nil when none is sent.
func (op *operation) content(arguments *object, shape shape) ([]byte, string, error) {
	if op.body == nil {
		return nil, "", nil
	}
	kind := op.body.kind
	if shape.fields == nil {
		v := arguments.get(shape.names.offered(wholeBody))
		if v == nil {
			return nil, "", nil
		}
		if isJSON(kind) {
			return encode(v), kind, nil
		}
		if o, ok := v.(*object); ok && (isForm(kind) || kind == multipartForm) {
			return op.body.encode(o, kind, nil)
		}
		raw, _ := bytesOf(plainText(v))
		return raw, kind, nil
	}
	fields := newObject()
	for _, wire := range shape.fields.object("properties").each() {
		if name := shape.names.offered(wire); arguments.has(name) {
			fields.set(wire, arguments.values[name])
		}
	}
	if len(fields.keys) == 0 && !op.body.required {
		return nil, "", nil
	}
	return op.body.encode(fields, kind, shape.fields.object("properties"))
}

const multipartForm = "multipart/form-data"

func isForm(kind string) bool { return kind == "application/x-www-form-urlencoded" }

func (b *body) encode(fields *object, kind string, schemas *object) ([]byte, string, error) {
	switch {
	case isJSON(kind):
		return encode(fields), kind, nil
	case isForm(kind):
		var pairs []string
		for _, name := range fields.keys {
			pairs = append(pairs, b.formPairs(name, fields.values[name])...)
		}
		return []byte(strings.Join(pairs, "&")), kind, nil
	case kind == multipartForm:
		return b.multipart(fields, schemas)
	}
	if len(fields.keys) == 1 { // of a kind that cannot be made of fields
		return []byte(plainText(fields.values[fields.keys[0]])), kind, nil
	}
	return nil, "", &toldError{"Bodies of type " + kind + " cannot be made of fields."}
}

func (b *body) formPairs(name string, v any) []string {
	encoding := b.node.object("encoding").object(name)
	if encoding.text("style") == "deepObject" {
		return deep(name, v, url.QueryEscape)
	}
	p := param{name: name, style: "form", explode: true}
	if explode, ok := encoding.get("explode").(bool); ok {
		p.explode = explode
	}
	if o, ok := v.(*object); ok {
		return []string{url.QueryEscape(name) + "=" + url.QueryEscape(string(encode(o)))}
	}
	return p.pairs(v, url.QueryEscape)
}

func (b *body) multipart(fields, schemas *object) ([]byte, string, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	var errs []error
	for _, name := range fields.keys {
		values, ok := fields.values[name].([]any)
		if !ok {
			values = []any{fields.values[name]}
		}
		schema := schemas.object(name)
		if items := schema.object("items"); items != nil {
			schema = items
		}
		for _, v := range values {
			errs = append(errs, b.part(w, name, v, schema))
		}
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return nil, "", fmt.Errorf("write a form: %w", err)
	}
	return out.Bytes(), w.FormDataContentType(), nil
}

// part writes one part of a form: an object as JSON, a data URI and what the document calls binary as a file, the rest as text.
func (b *body) part(w *multipart.Writer, name string, v any, schema *object) error {
	content, kind := []byte(plainText(v)), ""
	header := textproto.MIMEHeader{}
	disposition := `form-data; name="` + quoted(name) + `"`
	if text, ok := v.(string); ok {
		raw, found := bytesOf(text)
		binary := schema.text("format") == "binary" || schema.text("contentMediaType") != ""
		if binary || found != "" {
			content, kind = raw, found
			disposition += `; filename="` + quoted(name) + `"`
			if kind == "" {
				kind = "application/octet-stream"
			}
		}
	} else if !isScalar(v) {
		kind = "application/json"
	}
	if given := mediaType(b.node.object("encoding").object(name).text("contentType")); given != "" && !strings.ContainsAny(given, ",*") {
		kind = given
	}
	header.Set("Content-Disposition", disposition)
	if kind != "" {
		header.Set("Content-Type", oneLine(kind))
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	return err
}

func quoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A").Replace(s)
}

// bytesOf is what a text stands for: the content of a base64 data URI with its type, else the text itself.
func bytesOf(text string) (raw []byte, kind string) {
	head, encoded, ok := strings.Cut(text, ",")
	if kind, isBase64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64"); ok && isBase64 && strings.HasPrefix(head, "data:") {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded)); err == nil {
			return raw, kind
		}
	}
	return []byte(text), ""
}

// arguments reads what a model gave; keys that the function has not got are left out where they are used.
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
