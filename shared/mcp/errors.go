package mcp

import (
	"context"
	"errors"
	"fmt"
)

// Kind is what went wrong with a server.
type Kind string

// The kinds.
const (
	Unreachable Kind = "unreachable" // no connection, or an answer of 5xx: nothing was done
	Protocol    Kind = "protocol"    // it is there, but what it says is not MCP
	TooLarge    Kind = "too_large"   // its answer is larger than the limit
	Timeout     Kind = "timeout"     // no answer in time; a call may have been carried out
	Lost        Kind = "lost"        // the connection broke while the answer was awaited; a call may have been carried out
)

// Error is a failure to talk to a server. Its text names the server by its id and holds no address and no credential, so that users
// and models may see it; Cause is for the log.
type Error struct {
	Kind   Kind
	Server string // the id
	Text   string
	Cause  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("MCP server '%s': %s", e.Server, e.Text)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrSignIn is what Tokens returns for a user who has not signed in, or whose sign-in has ended.
var ErrSignIn = errors.New("sign-in needed")

// AuthError says that the server does not know who asks, or refuses that user.
type AuthError struct {
	Server    string // the id
	Status    int    // 401 or 403; 0 when the user has no token, so that the server was not asked
	Challenge string // the WWW-Authenticate header, where the server's sign-in may be named (see Discover)
	Cause     error
}

func (e *AuthError) Error() string {
	switch e.Status {
	case 403:
		return fmt.Sprintf("MCP server '%s': access denied (403)", e.Server)
	case 0:
		return fmt.Sprintf("MCP server '%s': sign-in needed", e.Server)
	}
	return fmt.Sprintf("MCP server '%s': authentication needed (%d): sign in, or check its key", e.Server, e.Status)
}

// Unwrap returns the cause.
func (e *AuthError) Unwrap() error { return e.Cause }

// Failure is the result of a call that ended in err, for the model. Only errors of this package are shown as they are.
func Failure(err error) Result {
	text := "the tool could not be called"
	var known *Error
	var auth *AuthError
	switch {
	case errors.As(err, &auth):
		text = auth.Error()
	case errors.As(err, &known):
		text = known.Error()
	case errors.Is(err, context.Canceled):
		text = "the call was cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		text = "the call took too long"
	}
	return failed(text)
}
