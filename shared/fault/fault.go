// Package fault is how an error says what kind it is. The domain returns faults; one place maps their codes to HTTP answers
// (Status), and what is no fault is internal: logged, and never shown to a caller.
package fault

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is a kind of failure.
type Code string

// The codes.
const (
	Invalid      Code = "invalid"      // 400: the request cannot be done as asked
	Unauthorized Code = "unauthorized" // 401: who are you, or: this is not for you (Open WebUI answers 401 for both)
	Forbidden    Code = "forbidden"    // 403
	NotFound     Code = "not_found"    // 404
	NotAllowed   Code = "not_allowed"  // 405
	Conflict     Code = "conflict"     // 409
	TooLarge     Code = "too_large"    // 413
	Unprocessed  Code = "unprocessed"  // 422: a field is missing or of the wrong type; Detail is FastAPI's list
	Internal     Code = "internal"     // 500
	BadGateway   Code = "bad_gateway"  // 502
	Unavailable  Code = "unavailable"  // 503
	Timeout      Code = "timeout"      // 504
)

// Texts that several routes share, word for word as clients know them.
const (
	TextNotFound   = "We could not find what you're looking for :/"
	TextProhibited = "You do not have permission to access this resource. Please contact your administrator for assistance."
	TextUnauth     = "401 Unauthorized"
)

// Error is a failure with a code and a detail for the caller.
type Error struct {
	Code   Code
	Detail any // the body's "detail": a text, or for Unprocessed a list
	Cause  error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %v: %v", e.Code, e.Detail, e.Cause)
	}
	return fmt.Sprintf("%s: %v", e.Code, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes a fault with a text for the caller.
func New(code Code, detail string) *Error { return &Error{Code: code, Detail: detail} }

// Wrap makes a fault that keeps its cause for the log.
func Wrap(code Code, detail string, cause error) *Error {
	return &Error{Code: code, Detail: detail, Cause: cause}
}

// Field describes one wrong field of a request the way FastAPI does.
type Field struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
}

// Fields makes the 422 fault for wrong fields.
func Fields(fields ...Field) *Error { return &Error{Code: Unprocessed, Detail: fields} }

// MissingField is the Field of a required key that is absent from the body.
func MissingField(input any, loc ...any) Field {
	return Field{Type: "missing", Loc: loc, Msg: "Field required", Input: input}
}

// CodeOf returns the code of the fault in err's chain, Internal when there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

var statuses = map[Code]int{
	Invalid: http.StatusBadRequest, Unauthorized: http.StatusUnauthorized, Forbidden: http.StatusForbidden,
	NotFound: http.StatusNotFound, NotAllowed: http.StatusMethodNotAllowed, Conflict: http.StatusConflict,
	TooLarge: http.StatusRequestEntityTooLarge, Unprocessed: http.StatusUnprocessableEntity,
	BadGateway: http.StatusBadGateway, Unavailable: http.StatusServiceUnavailable, Timeout: http.StatusGatewayTimeout,
}

// Status maps an error to its HTTP status and the value of the answer's "detail".
func Status(err error) (status int, detail any) {
	var e *Error
	if errors.As(err, &e) {
		if status, ok := statuses[e.Code]; ok {
			return status, e.Detail
		}
	}
	return http.StatusInternalServerError, "Internal Server Error"
}
