package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// operation is one list or call under way. It sees the messages that belong to it before the SDK does, because the SDK decodes them
// into values that have lost what must not be lost.
type operation struct {
	progress func(Progress)
	elicit   Elicit
	ctx      context.Context // the caller's, for questions that come meanwhile

	mu     sync.Mutex
	id     jsonrpc.ID
	posted bool            // the server may have got the request
	result json.RawMessage // as it came
	rpc    *jsonrpc.Error  // the error that came instead
	ended  error           // that the SDK gave up waiting: the stream of the answer ended without it
	told   chan struct{}   // closed when the server has been told of a cancellation
	tell   sync.Once
}

type operationKey struct{}

// with puts an operation into the context of its request. The SDK hands the context down to the transport.
func (o *operation) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, o)
}

// operationOf returns the operation that a message is sent for, nil for none. Its methods may be called on nil.
func operationOf(ctx context.Context) *operation {
	o, _ := ctx.Value(operationKey{}).(*operation)
	return o
}

func (o *operation) sending() { o.setPosted(true) }
func (o *operation) unsent()  { o.setPosted(false) }

func (o *operation) setPosted(posted bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.posted = posted
}

func (o *operation) sent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.posted
}

// gaveUp returns why nothing will come any more, nil when that is not known.
func (o *operation) gaveUp() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

func (o *operation) answer() (json.RawMessage, *jsonrpc.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.result, o.rpc
}

// take looks at an answer. What the SDK gets in its place is as small as it may be.
func (o *operation) take(r *jsonrpc.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.ID != o.id {
		return
	}
	var rpc *jsonrpc.Error
	if errors.As(r.Error, &rpc) {
		o.rpc = rpc
		return
	}
	if r.Error != nil {
		o.ended = r.Error
		return
	}
	o.result = r.Result
	if list, err := members(r.Result); err == nil && get(list, "inputRequests") == nil {
		r.Result = json.RawMessage(`{"content":[],"tools":[]}`)
	}
}

// progressToken is what the server names progress by. A session does one thing at a time, so that one token is enough; an answer to an earlier
// operation cannot be mistaken, because a session is not used again after an operation that did not end well.
const progressToken = "progress"

// watched is a transport whose messages the operations see.
type watched struct {
	sdk.Transport
	conn *watchedConn
}

// Connect implements sdk.Transport.
func (w *watched) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	w.conn.Connection = inner
	return w.conn, nil
}

type watchedConn struct {
	sdk.Connection
	hello func(version string) // called with what was negotiated, before anything else is sent

	mu      sync.Mutex
	current *operation
}

// begin makes an operation the one that messages belong to, end ends it: nothing reaches it any more.
func (c *watchedConn) begin(o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = o
}

func (c *watchedConn) end() { c.begin(nil) }

func (c *watchedConn) now() *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Write implements sdk.Connection.
func (c *watchedConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	o := operationOf(ctx)
	req, ok := msg.(*jsonrpc.Request)
	if o == nil || !ok {
		return c.Connection.Write(ctx, msg)
	}
	if req.Method == "notifications/cancelled" {
		defer o.tell.Do(func() { close(o.told) })
		return c.Connection.Write(ctx, msg)
	}
	if req.IsCall() {
		o.mu.Lock()
		o.id = req.ID
		o.mu.Unlock()
	}
	return c.Connection.Write(ctx, msg)
}

// Read implements sdk.Connection. Progress is told from here and not by the SDK's handler, which is called when the answer may have
// been delivered already.
func (c *watchedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if err != nil {
		return nil, err
	}
	o := c.now()
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if o != nil {
			o.take(m)
		} else if version := negotiated(m); version != "" {
			c.hello(version)
		}
	case *jsonrpc.Request:
		if o != nil && m.Method == "notifications/progress" {
			c.report(o, m.Params)
		}
	}
	return msg, nil
}

// negotiated returns the version in the answer to initialize, "" of any other answer.
func negotiated(r *jsonrpc.Response) string {
	var hello struct {
		Version      string          `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(r.Result, &hello) != nil || hello.Capabilities == nil {
		return ""
	}
	return hello.Version
}

func (c *watchedConn) report(o *operation, params json.RawMessage) {
	var p struct {
		Token    any     `json:"progressToken"`
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if o.progress == nil || json.Unmarshal(params, &p) != nil || p.Token != progressToken {
		return
	}
	// Under the lock, so that nobody is told anything after end.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == o {
		o.progress(Progress{Done: p.Progress, Total: p.Total, Message: p.Message})
	}
}
