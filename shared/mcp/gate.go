package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// gate is what every request of a session goes through. It sends credentials to the configured server and nothing anywhere else, bounds
// what comes back, and remembers how requests failed: the SDK's errors are texts, and what may be repeated depends on more than a text.
type gate struct {
	base   http.RoundTripper
	server Server
	origin *url.URL
	tokens Tokens
	limit  int64

	mu      sync.Mutex
	version string // negotiated, "" before
	failure error  // of the operation: *statusError, *networkError or an error of Tokens
}

// statusError is an answer other than success.
type statusError struct {
	status    int
	body      string // its beginning
	challenge string
}

func (e *statusError) Error() string { return fmt.Sprintf("answered %d: %s", e.status, e.body) }

// lostSession tells whether the server refused the request because it does not know the session. 404 is what the protocol says; the
// TypeScript SDK's examples, which many servers are made from, answer 400.
func (e *statusError) lostSession() bool {
	return e.status == http.StatusNotFound || e.status == http.StatusBadRequest && strings.Contains(strings.ToLower(e.body), "session")
}

// networkError is a request without an answer, or an answer without an end.
type networkError struct {
	cause error
	sent  bool // the server may have got the request
}

func (e *networkError) Error() string { return e.cause.Error() }
func (e *networkError) Unwrap() error { return e.cause }

// tokenError is that a token was not to be had, for no fault of the user.
type tokenError struct{ cause error }

func (e *tokenError) Error() string { return e.cause.Error() }
func (e *tokenError) Unwrap() error { return e.cause }

var (
	errTooLarge  = errors.New("the answer is too large")
	errElsewhere = errors.New("refused to send a request to an address that is not the server's")
)

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// begin forgets the failure of the operation before.
func (g *gate) begin() { g.fail(nil) }

func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
}

func (g *gate) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failure
}

// negotiated sets the version that requests name from now on.
func (g *gate) negotiated(version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version = version
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.own(req.URL) {
		g.fail(&networkError{cause: errElsewhere})
		return nil, errElsewhere
	}
	token, err := g.oauth(req.Context(), "")
	if err != nil {
		g.fail(err)
		return nil, err
	}
	resp, err := g.send(req, token)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && token != "" && req.GetBody != nil {
		fresh, renewErr := g.oauth(req.Context(), token)
		if renewErr != nil || fresh == token {
			g.note(req, resp)
			return resp, nil // what the server said tells more than why there is no other token
		}
		again := req.Clone(req.Context())
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		resp, err = g.send(again, fresh)
	}
	if err != nil {
		return nil, err
	}
	g.note(req, resp)
	return resp, nil
}

// own tells whether an address is the server's. Its own change from http to https is not another address.
func (g *gate) own(u *url.URL) bool {
	if u.Scheme == g.origin.Scheme {
		return strings.EqualFold(u.Host, g.origin.Host)
	}
	return u.Scheme == "https" && strings.EqualFold(u.Hostname(), g.origin.Hostname())
}

// oauth returns the user's token, "" where none is used.
func (g *gate) oauth(ctx context.Context, rejected string) (string, error) {
	if g.server.AuthType != AuthOAuth {
		return "", nil
	}
	if g.tokens == nil {
		return "", ErrSignIn
	}
	token, err := g.tokens.Token(ctx, g.server, rejected)
	if err == nil && token == "" {
		err = ErrSignIn
	}
	if err != nil && !errors.Is(err, ErrSignIn) && ctx.Err() == nil {
		err = &tokenError{err}
	}
	return token, err
}

func (g *gate) send(req *http.Request, token string) (*http.Response, error) {
	req = req.Clone(req.Context())
	switch {
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	case g.server.Key != "" && g.server.AuthType != AuthNone && g.server.AuthType != AuthOAuth:
		req.Header.Set("Authorization", "Bearer "+g.server.Key)
	}
	for name, value := range g.server.Headers {
		if !reserved(name) {
			req.Header.Set(name, value)
		}
	}
	g.mu.Lock()
	if req.Header.Get("Mcp-Protocol-Version") == "" && g.version != "" {
		req.Header.Set("Mcp-Protocol-Version", g.version)
	}
	g.mu.Unlock()
	o := operationOf(req.Context())
	if req.Method == http.MethodPost {
		o.sending()
	}
	resp, err := g.base.RoundTrip(req)
	if err != nil {
		sent := !unsent(err)
		if !sent {
			o.unsent()
		}
		g.fail(&networkError{cause: err, sent: sent})
		return nil, err
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: g.limit, gate: g}
	return resp, nil
}

// reserved are the headers that belong to HTTP and to the protocol.
func reserved(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "content-type", "accept", "connection", "transfer-encoding", "mcp-session-id", "mcp-protocol-version", "last-event-id":
		return true
	}
	return false
}

// unsent tells whether a request cannot have reached the server.
func unsent(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns)
}

// note remembers an answer that is no success, and leaves its beginning to be read again.
func (g *gate) note(req *http.Request, resp *http.Response) {
	if req.Method == http.MethodDelete {
		return
	}
	if resp.StatusCode < 300 {
		g.fail(nil) // of the redirect that led here
		return
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a body that breaks off is still an answer
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	g.fail(&statusError{status: resp.StatusCode, body: string(body), challenge: strings.Join(resp.Header.Values("WWW-Authenticate"), ", ")})
}

// redirect is the CheckRedirect of a session: a few hops, to the same server, and only as the same request. 301 and 302 make a GET of a
// POST, which an MCP server takes for something else.
func (g *gate) redirect(outer func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) > 3 || req.Method != via[0].Method || !g.own(req.URL) {
			return http.ErrUseLastResponse
		}
		if outer != nil {
			return outer(req, via)
		}
		return nil
	}
}

// bounded is a body with a limit. What breaks it off is remembered, because the SDK says only that the connection is closed.
type bounded struct {
	io.ReadCloser
	left int64
	gate *gate
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.gate.fail(&networkError{cause: errTooLarge, sent: true})
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if err != nil && err != io.EOF && b.gate.failed() == nil {
		b.gate.fail(&networkError{cause: err, sent: true})
	}
	return n, err
}
