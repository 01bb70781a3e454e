package oauth

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"toolrounds/shared/mcp"
)

// early is how long before its end a token is renewed, so that it does not end on its way.
const early = time.Minute

// Grant is all that a user's sign-in at a server is made of.
type Grant struct {
	Provider     Provider     `json:"provider"`
	Registration Registration `json:"registration"`
	Token        Token        `json:"token"`
}

// Store keeps grants. They are secrets.
type Store interface {
	// Load returns mcp.ErrSignIn for a user who has not signed in.
	Load(ctx context.Context, server, user string) (Grant, error)
	// Save keeps a grant in the place of the one before.
	Save(ctx context.Context, server, user string, g Grant) error
}

// Source gives users' tokens to package mcp, and renews them before they are used. It implements mcp.Tokens.
type Source struct {
	client *Client
	store  Store

	locks [64]sync.Mutex // a user's is found by hash; sharing one costs a wait
}

var _ mcp.Tokens = (*Source)(nil)

// NewSource makes a source.
func NewSource(c *Client, s Store) *Source {
	return &Source{client: c, store: s}
}

// Token implements mcp.Tokens.
func (s *Source) Token(ctx context.Context, server mcp.Server, rejected string) (string, error) {
	// A refresh token is often good for one use only, so that two calls must not renew at once.
	lock := s.lock(server.ID, server.User)
	lock.Lock()
	defer lock.Unlock()
	g, err := s.store.Load(ctx, server.ID, server.User)
	if err != nil {
		return "", fmt.Errorf("load the sign-in: %w", err)
	}
	if s.good(g.Token, rejected) {
		return g.Token.Access, nil
	}
	fresh, err := s.client.Refresh(ctx, g.Provider, g.Registration, g.Token)
	if errors.Is(err, ErrRefused) {
		// Another process may have used the refresh token in the meantime.
		if again, loadErr := s.store.Load(ctx, server.ID, server.User); loadErr == nil && again.Token.Access != g.Token.Access && s.good(again.Token, rejected) {
			return again.Token.Access, nil
		}
		return "", fmt.Errorf("%w: %w", mcp.ErrSignIn, err)
	}
	if err != nil {
		return "", fmt.Errorf("renew the sign-in: %w", err)
	}
	g.Token = fresh
	if err := s.store.Save(ctx, server.ID, server.User, g); err != nil {
		return "", fmt.Errorf("save the sign-in: %w", err)
	}
	return fresh.Access, nil
}

func (s *Source) good(t Token, rejected string) bool {
	return t.Access != "" && t.Access != rejected && (t.Expires.IsZero() || s.client.now().Add(early).Before(t.Expires))
}

func (s *Source) lock(server, user string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = io.WriteString(h, server+"\x00"+user) // a hash cannot fail
	return &s.locks[h.Sum32()%uint32(len(s.locks))]
}
