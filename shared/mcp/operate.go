package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// farewell is how long a cancelled call waits for the server to be told. A function that has returned may be frozen at once, and then
// nobody would tell it.
const farewell = time.Second

// clientOptions are the SDK's. Of what servers may ask of clients, only questions are answered, and only those of calls that brought
// somebody to ask. That lists have changed is of no interest, since every run lists anew.
func clientOptions(conn *watchedConn, asks bool) *sdk.ClientOptions {
	o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}
	if asks {
		o.ElicitationHandler = func(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return elicit(ctx, conn.now(), req.Params)
		}
		o.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}
	}
	return o
}

func elicit(ctx context.Context, o *operation, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	if o == nil || o.elicit == nil {
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	asking, cancel := context.WithCancel(o.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	q := Question{Message: p.Message, URL: p.URL}
	if p.RequestedSchema != nil {
		raw, err := json.Marshal(p.RequestedSchema)
		if err != nil {
			return nil, fmt.Errorf("encode the question's schema: %w", err)
		}
		q.Schema = raw
	}
	a, err := o.elicit(asking, q)
	if err != nil {
		return nil, errors.New("the user could not be asked") // what went wrong is none of the server's business
	}
	return &sdk.ElicitResult{Action: a.Action, Content: a.Content}, nil
}

// rpcError is a JSON-RPC error that the server answered with: the request was understood and refused, and the session goes on.
type rpcError struct{ cause *jsonrpc.Error }

func (e *rpcError) Error() string { return e.cause.Message }
func (e *rpcError) Unwrap() error { return e.cause }

// rpc returns the JSON-RPC error in the body of a refusal, nil when there is none. Who asks without being known is not told so by it.
func (e *statusError) rpc() *jsonrpc.Error {
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		return nil
	}
	msg, err := jsonrpc.DecodeMessage([]byte(e.body))
	if err != nil {
		return nil
	}
	var rpc *jsonrpc.Error
	if r, ok := msg.(*jsonrpc.Response); ok && errors.As(r.Error, &rpc) {
		return rpc
	}
	return nil
}

// errLostSession is the end of an operation that the server refused because it does not know the session: it did nothing.
var errLostSession = errors.New("the server does not know the session")

// errUnsent is the end of an operation that never reached the server.
var errUnsent = errors.New("nothing was sent")

// operate sends one request and returns its result as it came. Its errors have a *rpcError, errLostSession, errUnsent or what the gate
// remembers in their chains.
func (s *session) operate(ctx context.Context, o *operation, send func(context.Context) error) (json.RawMessage, error) {
	o.told = make(chan struct{})
	o.ctx = ctx
	s.gate.begin()
	s.conn.begin(o)
	defer s.conn.end()
	inner, cancel := context.WithCancel(o.with(ctx))
	defer cancel() // and with it a stream that goes on after the answer
	err := send(inner)
	raw, rpc := o.answer()
	switch {
	case rpc != nil:
		return nil, &rpcError{rpc}
	case raw != nil && err == nil:
		return raw, nil
	case ctx.Err() != nil:
		o.awaitTold()
		return nil, ctx.Err()
	}
	if err == nil {
		err = errors.New("an answer without a result")
	}
	failure := s.gate.failed()
	if ended := o.gaveUp(); failure == nil && ended != nil {
		failure = &networkError{cause: ended, sent: true}
	}
	var status *statusError
	if errors.As(failure, &status) {
		if status.lostSession() {
			return nil, errors.Join(errLostSession, failure)
		}
		if rpc := status.rpc(); rpc != nil {
			return nil, &rpcError{rpc}
		}
	}
	if !o.sent() {
		failure = errors.Join(failure, errUnsent)
	}
	return nil, errors.Join(err, failure)
}

// awaitTold waits until the server has been told that nobody waits for its answer any more, if it has been asked at all.
func (o *operation) awaitTold() {
	if !o.sent() {
		return
	}
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	select {
	case <-o.told:
	case <-patience.C:
	}
}

// perform runs an operation in a session, and once more in a new one when that is safe: the server refused it for not knowing the
// session, it was never sent, or it is one without effects and the session had been lying idle.
func (c *Client) perform(ctx context.Context, s Server, effects, asks bool, do func(*session) error) error {
	for attempt := 0; ; attempt++ {
		ses, err := c.take(ctx, s, asks, attempt > 0)
		if err != nil {
			return err
		}
		err = do(ses)
		var rpc *rpcError
		if err == nil || errors.As(err, &rpc) {
			c.give(ses)
			return err
		}
		go ses.close()
		safe := errors.Is(err, errLostSession) || ses.reused && (errors.Is(err, errUnsent) || !effects)
		if attempt > 0 || !safe || ctx.Err() != nil {
			return err
		}
	}
}
