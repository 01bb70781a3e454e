package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacy is the newest version of the protocol that begins with initialize. It is asked for first, since nearly all servers speak it and
// asking for anything newer costs a round trip more with them.
const legacy = "2025-11-25"

// session is a connection to a server for one user. Whoever has taken it is alone with it.
type session struct {
	key    [sha256.Size]byte
	used   time.Time
	reused bool
	gate   *gate
	conn   *watchedConn
	sdk    *sdk.ClientSession
	end    context.CancelFunc
}

// keyOf tells sessions apart: by all that they were opened with.
func keyOf(s Server, asks bool) [sha256.Size]byte {
	s.Filter = nil
	raw, err := json.Marshal(struct {
		Server
		Asks bool
	}{s, asks})
	if err != nil {
		panic(err) // strings, and a map of them
	}
	return sha256.Sum256(raw)
}

// take returns a session that was used a short time ago, or a new one.
func (c *Client) take(ctx context.Context, s Server, asks, fresh bool) (*session, error) {
	key := keyOf(s, asks)
	if !fresh {
		if kept := c.kept(key); kept != nil {
			return kept, nil
		}
	}
	return c.dial(ctx, s, asks, key)
}

func (c *Client) kept(key [sha256.Size]byte) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	for i := len(c.idle) - 1; i >= 0; i-- {
		if s := c.idle[i]; s.key == key {
			c.idle = slices.Delete(c.idle, i, i+1)
			s.reused = true
			return s
		}
	}
	return nil
}

// give keeps a session for the next one who wants it.
func (c *Client) give(s *session) {
	s.conn.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.used = c.opts.Now()
	c.idle = append(c.idle, s)
	c.expire()
}

// expire ends what has been unused too long, or is too much. The lock is held.
func (c *Client) expire() {
	limit := c.opts.Now().Add(-c.opts.Idle)
	n := max(0, len(c.idle)-c.opts.MaxSessions)
	for n < len(c.idle) && !c.idle[n].used.After(limit) {
		n++
	}
	for _, s := range c.idle[:n] {
		go s.close()
	}
	c.idle = slices.Delete(c.idle, 0, n)
}

// Close ends the sessions that are kept. Calls under way go on.
func (c *Client) Close() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, s := range idle {
		s.close()
	}
}

// close ends a session. The server is told, which may take a few seconds when it does not listen.
func (s *session) close() {
	s.conn.end()
	_ = s.sdk.Close() // the other side may be gone, which is as good
	s.end()
}

// dial opens a session: streamable HTTP, or SSE where the server does not know that.
func (c *Client) dial(ctx context.Context, s Server, asks bool, key [sha256.Size]byte) (*session, error) {
	origin, err := url.Parse(s.URL)
	if err != nil || origin.Host == "" || origin.Scheme != "http" && origin.Scheme != "https" {
		return nil, &Error{Kind: Unreachable, Server: s.ID, Text: "its URL is not one of HTTP", Cause: err}
	}
	limited, cancel := context.WithTimeout(ctx, c.opts.Connect)
	defer cancel()
	ses, err := c.open(limited, s, origin, asks, false)
	var status *statusError
	if err != nil && errors.As(err, &status) && (status.status == 400 || status.status == 404 || status.status == 405) {
		if older, sseErr := c.open(limited, s, origin, asks, true); sseErr == nil {
			ses, err = older, nil
		}
	}
	if err != nil {
		return nil, c.explain(ctx, s, err, "connect", c.opts.Connect)
	}
	ses.key = key
	return ses, nil
}

// open connects and initialises. Its error has what the gate remembers in its chain.
func (c *Client) open(ctx context.Context, s Server, origin *url.URL, asks, sse bool) (*session, error) {
	jar, err := cookiejar.New(nil) // a load balancer may need its cookie back; another session must not have it
	if err != nil {
		return nil, err
	}
	g := &gate{base: c.opts.HTTP.Transport, server: s, origin: origin, tokens: c.opts.Tokens, limit: c.opts.MaxBytes}
	if g.base == nil {
		g.base = http.DefaultTransport
	}
	hc := &http.Client{Transport: g, Jar: jar, CheckRedirect: g.redirect(c.opts.HTTP.CheckRedirect)}
	conn := &watchedConn{hello: g.negotiated}
	var transport sdk.Transport = &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: hc, MaxRetries: 2, DisableStandaloneSSE: true, MaxEventSize: int(c.opts.MaxBytes),
	}
	if sse {
		transport = &sdk.SSEClientTransport{Endpoint: s.URL, HTTPClient: hc, MaxEventSize: int(c.opts.MaxBytes)}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: c.opts.Name, Version: c.opts.Version}, clientOptions(conn, asks))

	// The SSE transport's stream lives as long as the context it is opened with, so that has to be longer than this function.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	connected, err := client.Connect(life, &watched{Transport: transport, conn: conn}, &sdk.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil && modern(err) && !sse && life.Err() == nil {
		g.begin()
		connected, err = client.Connect(life, &watched{Transport: transport, conn: conn}, nil)
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
		go func() { _ = connected.Close() }()
	}
	if err != nil {
		end()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failure := g.failed(); failure != nil {
			return nil, fmt.Errorf("%w (%w)", err, failure)
		}
		return nil, err
	}
	return &session{gate: g, conn: conn, sdk: connected, end: end}, nil
}

// modern tells whether a server refused initialize because it has only what came after it.
func modern(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && rpc.Code == sdk.CodeUnsupportedProtocolVersion
}
