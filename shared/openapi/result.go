package openapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"toolrounds/shared/tool"
)

// Result is what a call gave (spec/http.md D3.9, spec/socket.md 5).
type Result struct {
	Content string   // the text for the model
	Failed  bool     // the server refused, or the text says so
	Embeds  []string // pages, or addresses of pages, that the user is shown
	Images  []string // data URIs that the model is shown
	Files   []string // data URIs of what is neither text nor image
}

// Failure is the result of a call that gave none.
func Failure(why string) Result {
	return Result{Content: indent(newObject("error", why)), Failed: true}
}

// maxErrorText is how much of a refusal's body a model is shown.
const maxErrorText = 20_000

// resultOf makes a result of an answer. Function is the name that the model called.
func resultOf(function string, status int, header http.Header, body []byte) Result {
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = mediaType(header.Get("Content-Type"))
	}
	inline := strings.Contains(strings.ToLower(header.Get("Content-Disposition")), "inline")
	html := kind == "text/html"
	location := header.Get("Location")
	if status >= http.StatusBadRequest {
		text := textOf(body, params["charset"])
		if html && inline {
			r := embedded(function, status)
			r.Embeds = []string{text}
			return r
		}
		if len(text) > maxErrorText {
			text = strings.ToValidUTF8(text[:maxErrorText], "") + " …"
		}
		return Failure(fmt.Sprintf("HTTP error %d: %s", status, text))
	}
	switch {
	case inline && html:
		r := embedded(function, status)
		r.Embeds = []string{textOf(body, params["charset"])}
		return r
	case inline && location != "" && status < http.StatusMultipleChoices:
		r := embedded(function, status)
		r.Embeds = []string{location}
		return r
	case len(body) == 0:
		return Result{}
	case isJSON(kind) || kind == "":
		if v, err := parseJSON(body); err == nil {
			return shown(function, v)
		}
	case strings.HasPrefix(kind, "image/") && kind != "image/svg+xml":
		return Result{Content: function + ": Image file read successfully.", Images: []string{dataURI(kind, body)}}
	}
	if isText(kind, body) {
		text := textOf(body, params["charset"])
		if strings.HasPrefix(text, "data:image/") {
			return shown(function, text)
		}
		return Result{Content: text, Failed: tool.Failed(text)}
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	return Result{Content: fmt.Sprintf("%s: a file of type %s with %d bytes, kept for the user.", function, kind, len(body)), Files: []string{dataURI(kind, body)}}
}

// embedded is what a model is told of a page that the user is shown.
func embedded(function string, status int) Result {
	state, text := "success", function+": Embedded UI result is active and visible to the user."
	switch {
	case status >= 500:
		state, text = "error", fmt.Sprintf("%s: Server error %d from embedded UI result.", function, status)
	case status >= 400:
		state, text = "error", fmt.Sprintf("%s: Client error %d from embedded UI result.", function, status)
	}
	return Result{Content: indent(newObject("status", state, "code", "ui_component", "message", text)), Failed: state == "error"}
}

// shown is a JSON value as a result. Images in it are taken out, wherever they are: the model is shown them as images.
func shown(function string, v any) Result {
	if text, ok := v.(string); ok && strings.HasPrefix(text, "data:image/") {
		return Result{Content: function + ": Image file read successfully.", Images: []string{text}}
	}
	var r Result
	v = r.take(v)
	switch v := v.(type) {
	case nil:
	case string:
		r.Content = v
	case bool:
		r.Content = map[bool]string{true: "True", false: "False"}[v]
	case json.Number:
		r.Content = v.String()
	case []any:
		r.Content = indent(newObject("results", v))
	default:
		r.Content = indent(v)
	}
	r.Failed = tool.Failed(r.Content)
	return r
}

// take replaces image data URIs in a value and keeps them. A file's data URI in a list leaves it.
func (r *Result) take(v any) any {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "data:image/") && strings.Contains(v, ";base64,") {
			r.Images = append(r.Images, v)
			return "[image]"
		}
	case []any:
		kept := []any{}
		for _, item := range v {
			if text, ok := item.(string); ok && strings.HasPrefix(text, "data:") && !strings.HasPrefix(text, "data:image/") && strings.Contains(text, ";base64,") {
				r.Files = append(r.Files, text)
				continue
			}
			kept = append(kept, r.take(item))
		}
		return kept
	case *object:
		made := newObject()
		for _, key := range v.keys {
			made.set(key, r.take(v.values[key]))
		}
		return made
	}
	return v
}

func dataURI(kind string, body []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(body)
}

// isText tells whether an answer is for reading.
func isText(kind string, body []byte) bool {
	switch {
	case strings.HasPrefix(kind, "text/"), isJSON(kind), kind == "application/xml", strings.HasSuffix(kind, "+xml"),
		kind == "application/x-ndjson", kind == "application/yaml", kind == "application/x-yaml", kind == "application/javascript",
		kind == "application/x-www-form-urlencoded", kind == "application/toml", kind == "application/sql", kind == "application/graphql":
		return true
	case kind == "":
		return utf8.Valid(body) && !strings.ContainsRune(string(body), 0)
	}
	return false
}

// textOf is a body as text. Of the old charsets, the Western European ones are known; broken bytes are replaced.
func textOf(body []byte, charset string) string {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "latin-1", "windows-1252", "us-ascii":
		if !utf8.Valid(body) {
			runes := make([]rune, len(body))
			for i, b := range body {
				runes[i] = rune(b)
			}
			return string(runes)
		}
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}
