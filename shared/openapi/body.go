package openapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
)

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
