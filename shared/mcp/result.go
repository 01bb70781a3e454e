package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
)

// wireResult is the result of tools/call as it comes. It is decoded here and not by the SDK, which would turn the digits of structured
// content into floats and refuse the whole result for one part of an unknown kind.
type wireResult struct {
	Content    []wireContent   `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

type wireContent struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	Resource *struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
	URI         string `json:"uri"` // of a resource_link
	Name        string `json:"name"`
	Description string `json:"description"`
}

// part is one part of a result: text as it came, and what it is as a JSON value among others.
type part struct {
	text  string
	value json.RawMessage
}

// resultOf makes a result of what the server sent. One part of text is the text itself, or indented JSON when it is an object; several,
// a list and nothing at all are {"results": [...]}. Structured content is what servers add for machines to the same thing in words, so
// that it is shown only when there are no words.
func resultOf(raw json.RawMessage) (Result, error) {
	var w wireResult
	if err := json.Unmarshal(raw, &w); err != nil {
		return Result{}, fmt.Errorf("decode result: %w", err)
	}
	r := Result{Status: Completed}
	var parts []part
	for _, c := range w.Content {
		p, media, ok := c.read()
		if ok {
			parts = append(parts, p)
		}
		if media.DataURI != "" {
			r.Media = append(r.Media, media)
		}
	}
	if len(parts) == 0 && first(w.Structured) != 0 && first(w.Structured) != 'n' {
		parts = append(parts, part{text: string(w.Structured), value: w.Structured})
	}
	if w.IsError {
		f := failed(joined(parts))
		f.Media = r.Media
		return f, nil
	}
	r.Content = render(parts)
	return r, nil
}

// read returns what the model reads of a part, if it reads something, and the medium in it, if there is one.
func (c wireContent) read() (part, Media, bool) {
	switch c.Type {
	case "text":
		if imageURI(c.Text) {
			return plain("[image]"), Media{Type: "image", DataURI: c.Text, Shown: true, Kept: true}, true
		}
		return textPart(c.Text), Media{}, true
	case "image":
		return part{}, encoded("image", c.MimeType, "image/png", c.Data, true), false
	case "audio":
		return part{}, encoded("audio", c.MimeType, "audio/wav", c.Data, false), false
	case "resource":
		return c.resource()
	case "resource_link":
		return plain(describe(c.URI, c.Name, c.MimeType, c.Description)), Media{}, true
	}
	return plain(fmt.Sprintf("[unsupported content: %s]", c.Type)), Media{}, true
}

func (c wireContent) resource() (part, Media, bool) {
	switch r := c.Resource; {
	case r == nil:
		return part{}, Media{}, false
	case r.Text != nil:
		return plain(*r.Text), Media{}, true
	case strings.HasPrefix(r.MimeType, "image/") && r.Blob != "":
		m := encoded("image", r.MimeType, "", r.Blob, true)
		m.Kept = false
		return part{}, m, false
	default:
		mime := r.MimeType
		if mime == "" {
			mime = "application/octet-stream"
		}
		return plain(fmt.Sprintf("[Resource: %s] (binary data, mimeType: %s)", r.URI, mime)), Media{}, true
	}
}

func describe(uri, name, mime, description string) string {
	s := "[Resource: " + uri + "]"
	var more []string
	for _, m := range []string{name, description} {
		if m != "" {
			more = append(more, m)
		}
	}
	if mime != "" {
		more = append(more, "mimeType: "+mime)
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}

func encoded(kind, mime, otherwise, data string, shown bool) Media {
	if data == "" {
		return Media{}
	}
	if mime == "" {
		mime = otherwise
	}
	return Media{Type: kind, DataURI: "data:" + mime + ";base64," + data, Shown: shown, Kept: true}
}

// imageURI tells whether a text is nothing but an image.
func imageURI(s string) bool {
	return strings.HasPrefix(s, "data:image/") && strings.Contains(s, ";base64,") && !strings.ContainsAny(s, " \r\n\t")
}

// plain is a text that stays text, even if it looks like JSON.
func plain(s string) part { return part{text: s, value: text(s)} }

// textPart is a text that is JSON if it can be: as a value it is what it says, and as a text it stays as it is written.
func textPart(s string) part {
	if raw := json.RawMessage(strings.TrimSpace(s)); json.Valid(raw) {
		return part{text: s, value: raw}
	}
	return plain(s)
}

// joined is the text of a failure.
func joined(parts []part) string {
	var lines []string
	for _, p := range parts {
		lines = append(lines, p.text)
	}
	if s := strings.Join(lines, "\n"); s != "" {
		return s
	}
	return "the tool failed without a message"
}

func render(parts []part) string {
	if len(parts) == 1 {
		p := parts[0]
		switch first(p.value) {
		case '{':
			return pretty(p.value)
		case '"':
			var s string
			if json.Unmarshal(p.value, &s) == nil {
				return s
			}
			return p.text
		case '[':
			return pretty(object([]member{{"results", p.value}}))
		}
		return p.text // a number, true, false or null, digit by digit
	}
	list := []byte{'['}
	for i, p := range parts {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, p.value...)
	}
	return pretty(object([]member{{"results", append(list, ']')}}))
}

// failed is the result of a call that failed.
func failed(message string) Result {
	return Result{Content: pretty(object([]member{{"error", text(message)}})), Status: Failed}
}
