package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxPages bounds a list whose server never stops naming a next page.
const maxPages = 100

// List returns what the server offers. It fails with *AuthError, *Error or the context's error, and never takes longer than
// Options.List. A server without tools is no failure.
func (c *Client) List(ctx context.Context, s Server) (Listing, error) {
	limited, cancel := context.WithTimeout(ctx, c.opts.List)
	defer cancel()
	var l Listing
	err := c.perform(limited, s, false, false, func(ses *session) error {
		hello := ses.sdk.InitializeResult()
		l = Listing{Instructions: hello.Instructions, Tools: []Tool{}}
		if hello.Capabilities != nil && hello.Capabilities.Tools == nil {
			return nil
		}
		tools, err := c.pages(limited, ses)
		if err != nil {
			return err
		}
		l.Tools = offer(s, tools)
		return nil
	})
	if err != nil {
		return Listing{}, c.wrap(ctx, s, err, "list tools", c.opts.List)
	}
	return l, nil
}

// wireTool is a tool as it comes.
type wireTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
}

// pages reads the whole list.
func (c *Client) pages(ctx context.Context, ses *session) ([]wireTool, error) {
	var tools []wireTool
	cursor, seen, left := "", map[string]bool{}, c.opts.MaxBytes
	for range maxPages {
		o := &operation{}
		raw, err := ses.operate(ctx, o, func(ctx context.Context) error {
			_, err := ses.sdk.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, err
		}
		if left -= int64(len(raw)); left < 0 {
			return nil, errTooLarge // small pages add up
		}
		var page struct {
			Tools []wireTool `json:"tools"`
			Next  string     `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("decode the list of tools: %w", err)
		}
		tools = append(tools, page.Tools...)
		if page.Next == "" || seen[page.Next] || len(tools) >= c.opts.MaxTools {
			break
		}
		seen[page.Next], cursor = true, page.Next
	}
	return tools[:min(len(tools), c.opts.MaxTools)], nil
}

// offer makes of a server's tools what models are offered. Of two tools with one name the second cannot be called, and is left out.
func offer(s Server, tools []wireTool) []Tool {
	list := make([]Tool, 0, len(tools))
	n := names{server: s.ID, taken: map[string]bool{}}
	seen := map[string]bool{}
	for _, t := range tools {
		if t.Name == "" || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		// The name is given before the filter has its say, so that it does not change when the filter does.
		offered := n.offered(t.Name)
		if !passes(s.Filter, t.Name) {
			continue
		}
		description := t.Description
		if description == "" {
			description = t.Title
		}
		list = append(list, Tool{Name: t.Name, Offered: offered, Description: description, Parameters: parameters(t.Schema)})
	}
	return list
}

// wrap makes an error of this package of what perform returned.
func (c *Client) wrap(ctx context.Context, s Server, err error, doing string, limit time.Duration) error {
	var known *Error
	var auth *AuthError
	if errors.As(err, &known) || errors.As(err, &auth) {
		return err // of connecting
	}
	var rpc *rpcError
	if errors.As(err, &rpc) {
		return &Error{Kind: Protocol, Server: s.ID, Text: rpc.cause.Message, Cause: err}
	}
	return c.explain(ctx, s, err, doing, limit)
}
