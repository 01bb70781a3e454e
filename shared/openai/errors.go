package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// StatusError is an answer with an HTTP status of 400 or more.
type StatusError struct {
	Status  int
	Header  http.Header
	Body    []byte // raw, at most a megabyte
	Message string // the provider's own words: its error.message, else the body's text, else the status text; never empty
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the model answered with status %d: %s", e.Status, e.Message)
}

// FrameError is an error that the provider reported within a stream, or in a body, with status 200.
type FrameError struct {
	Object  json.RawMessage // the value of "error" as it was sent: an object, or a text
	Message string          // the provider's own words; never empty
}

func (e *FrameError) Error() string { return "the model reported an error: " + e.Message }

// FormatError is an answer that is no chat completion: a web page, nothing at all, a frame that is not JSON.
type FormatError struct {
	Problem     string // what is wrong with it
	ContentType string // as the answer claims; may be empty
	Excerpt     string // how the answer begins, at most 300 characters
}

func (e *FormatError) Error() string {
	text := "the model's answer cannot be read: " + e.Problem
	if e.ContentType != "" {
		text += " (content type " + e.ContentType + ")"
	}
	if e.Excerpt != "" {
		text += ": " + e.Excerpt
	}
	return text
}

// TransportError is a connection that could not be made or was cut.
type TransportError struct {
	Doing string // such as "read the stream"
	Err   error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("connection to the model failed (%s): %v", e.Doing, e.Err)
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// TimeoutError says that the provider was silent for too long.
type TimeoutError struct {
	First bool          // before the first byte of the answer; false: in the middle of it
	After time.Duration // the bound that was passed
}

func (e *TimeoutError) Error() string {
	if e.First {
		return fmt.Sprintf("the model did not begin to answer within %s", e.After)
	}
	return fmt.Sprintf("the model fell silent for %s in the middle of its answer", e.After)
}

// Timeout makes the error a timeout to code that asks by interface, as with net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// sinkError marks an error of the caller's sink, so that it is not taken for one of the connection.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return "deliver the answer: " + e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

// isTyped tells errors that already say what they are.
func isTyped(err error) bool {
	var (
		status    *StatusError
		frame     *FrameError
		format    *FormatError
		transport *TransportError
		timeout   *TimeoutError
		sink      *sinkError
	)
	return errors.As(err, &status) || errors.As(err, &frame) || errors.As(err, &format) || errors.As(err, &transport) ||
		errors.As(err, &timeout) || errors.As(err, &sink)
}

// errorMessage finds the provider's own words in an error value or body of any shape: {"error":{"message"}}, {"error":"text"},
// {"message"}, {"detail"}, {"errors":[...]}, [{"error":...}], a text. "" when there are none.
func errorMessage(raw []byte) string { return messageIn(raw, 5) }

// messageIn looks at most depth levels down.
func messageIn(raw []byte, depth int) string {
	if depth == 0 {
		return ""
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	switch v.(type) {
	case string:
		return strings.TrimSpace(rawText(raw))
	case []any:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			return messageIn(list[0], depth-1)
		}
	case map[string]any:
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil {
			return ""
		}
		for _, key := range []string{"error", "message", "detail", "msg", "errors", "title", "reason"} {
			if text := messageIn(o[key], depth-1); text != "" {
				return text
			}
		}
	}
	return ""
}

// excerpt is how a body begins, on one line and safe to show.
func excerpt(body []byte) string {
	const max = 300
	if len(body) > 4*max {
		body = body[:4*max]
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "\uFFFD")), " ")
	if utf8.RuneCountInString(text) > max {
		text = string([]rune(text)[:max]) + "…"
	}
	return text
}
