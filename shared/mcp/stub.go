package mcp

import (
	"context"
)

type session struct{}

// List returns what the server offers.
func (c *Client) List(ctx context.Context, s Server) (Listing, error) { return Listing{}, nil }

// Call calls a tool.
func (c *Client) Call(ctx context.Context, s Server, r Request) (Result, error) {
	return Result{}, nil
}

// Close ends the sessions that are kept.
func (c *Client) Close() {}

func failed(text string) Result { return Result{Content: text, Status: Failed} }
