package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Call calls a tool. What the tool or the server says against the call is a Result with status Failed; an error is *AuthError, *Error
// or the context's, and those of kind Timeout and Lost leave open whether the call was carried out. When the context ends, the server is
// told to cancel. A call is sent a second time only when it certainly was not carried out the first time.
func (c *Client) Call(ctx context.Context, s Server, r Request) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, c.opts.Call)
	defer cancel()
	arguments := coerce(r.Arguments, r.Parameters)
	if first(arguments) != '{' || !json.Valid(arguments) {
		return failed(fmt.Sprintf("the arguments of %s are not a JSON object", r.Name)), nil
	}
	var result Result
	err := c.perform(limited, s, true, r.Elicit != nil, func(ses *session) error {
		o := &operation{progress: r.Progress, elicit: r.Elicit}
		raw, err := ses.operate(limited, o, func(ctx context.Context) error {
			p := &sdk.CallToolParams{Name: r.Name, Arguments: arguments}
			if r.Progress != nil {
				p.SetProgressToken(progressToken)
			}
			_, err := ses.sdk.CallTool(ctx, p)
			return err
		})
		if err == nil {
			result, err = resultOf(raw)
		}
		return err
	})
	var rpc *rpcError
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &rpc):
		return failed(rpc.cause.Message), nil
	}
	return Result{}, unsure(err, c.wrap(ctx, s, err, "call "+r.Name, c.opts.Call))
}

// unsure adds to the error of a call what a model has to know before it tries again. What failed to connect has it not.
func unsure(before, err error) error {
	var known, dialling *Error
	if errors.As(err, &known) && !errors.As(before, &dialling) && (known.Kind == Lost || known.Kind == Timeout) {
		known.Text += "; the call may have been carried out"
	}
	return err
}
