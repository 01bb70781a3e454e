package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolrounds/shared/guard"
)

// explain makes an error of this package of what an operation ended with. err is the SDK's error, with what the gate remembers in its
// chain; ctx is the caller's context, without this package's limit.
func (c *Client) explain(ctx context.Context, s Server, err error, doing string, limit time.Duration) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: MCP server '%s': %w", doing, s.ID, ctx.Err())
	}
	is := func(kind Kind, text string) error {
		return &Error{Kind: kind, Server: s.ID, Text: text, Cause: err}
	}
	var status *statusError
	var network *networkError
	var token *tokenError
	switch {
	case errors.Is(err, ErrSignIn):
		return &AuthError{Server: s.ID, Cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return is(Timeout, fmt.Sprintf("no answer within %s", limit))
	case errors.As(err, &token):
		return is(Unreachable, "the sign-in cannot be renewed at the moment")
	case errors.As(err, &status):
		return c.refused(s, status, err)
	case errors.Is(err, errTooLarge), errors.Is(err, guard.ErrTooLarge): // which of the two was quicker
		return is(TooLarge, fmt.Sprintf("its answer is larger than %d bytes", c.opts.MaxBytes))
	case errors.Is(err, errElsewhere):
		return is(Protocol, "it sends its clients to another address")
	case errors.As(err, &network) && network.sent:
		return is(Lost, "the connection broke off")
	case errors.As(err, &network):
		return is(Unreachable, "it cannot be reached")
	}
	// The SDK has JSON-RPC errors of its own, with codes that servers do not use.
	if rpc := (*jsonrpc.Error)(nil); errors.As(err, &rpc) && rpc.Code >= -32700 && rpc.Code <= -32600 && rpc.Message != "" {
		return is(Protocol, rpc.Message)
	}
	return is(Protocol, "its answer is not understood")
}

// refused explains an HTTP status.
func (c *Client) refused(s Server, status *statusError, cause error) error {
	switch code := status.status; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &AuthError{Server: s.ID, Status: code, Challenge: status.challenge, Cause: cause}
	case code >= 500 || code == http.StatusTooManyRequests:
		return &Error{Kind: Unreachable, Server: s.ID, Text: fmt.Sprintf("it answered %d %s", code, http.StatusText(code)), Cause: cause}
	case code < 400:
		return &Error{Kind: Protocol, Server: s.ID, Text: fmt.Sprintf("it answered %d: the URL may have to be written differently (a trailing slash?)", code), Cause: cause}
	default:
		return &Error{Kind: Protocol, Server: s.ID, Text: strings.TrimSpace(fmt.Sprintf("it answered %d %s", code, http.StatusText(code))), Cause: cause}
	}
}
