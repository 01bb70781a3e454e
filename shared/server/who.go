package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"toolrounds/shared/access"
	"toolrounds/shared/mcp"
	"toolrounds/shared/openapi"
)

// Who is on whose behalf, and for which message, a server is asked.
type Who struct {
	User          access.User
	Chat, Message string
}

// The ways of telling a server who asks that need something of this package; see package mcp for all.
const (
	authBearer  = "bearer"
	authSession = "session"
)

// fill replaces the placeholders in a header's value. What users choose cannot break out of the line.
func (w Who) fill(value string) string {
	if strings.Contains(value, "{{") {
		value = strings.NewReplacer(
			"{{USER_ID}}", w.User.ID, "{{USER_NAME}}", w.User.Name, "{{USER_EMAIL}}", w.User.Email, "{{USER_ROLE}}", w.User.Role,
			"{{CHAT_ID}}", w.Chat, "{{MESSAGE_ID}}", w.Message,
		).Replace(value)
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, value))
}

// headers are the connection's own headers for this user.
func (c Connection) headers(w Who) map[string]string {
	all := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		all[name] = w.fill(value)
	}
	return all
}

// Header is what goes with every request to the server: its key in the way that it wants it, then its own headers, which win.
// Session is the user's session token, for servers that are told that.
func (c Connection) Header(w Who, session string) http.Header {
	h := http.Header{}
	token := ""
	switch c.AuthType {
	case authBearer:
		token = c.Key
	case authSession:
		token = session
	}
	token = strings.TrimSpace(token)
	if len(token) > 7 && strings.EqualFold(token[:7], "bearer ") { // given with its scheme
		token = strings.TrimSpace(token[7:])
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	for name, value := range c.headers(w) {
		h.Set(name, value)
	}
	return h
}

// session is the user's session token where the connection wants one, else "".
func (s *Service) session(ctx context.Context, c Connection, w Who) (string, error) {
	if c.AuthType != authSession {
		return "", nil
	}
	session, err := s.Sessions.Session(ctx, w.User)
	if err != nil {
		return "", fmt.Errorf("make a session: %w", err)
	}
	return session.Token, nil
}

// openapi is the connection as package openapi knows servers.
func (s *Service) openapi(ctx context.Context, c Connection, w Who) (openapi.Server, error) {
	session, err := s.session(ctx, c, w)
	if err != nil {
		return openapi.Server{}, err
	}
	at := openapi.Server{URL: c.URL, Document: c.document(), Inline: c.Inline, Header: c.Header(w, session)}
	if c.Type == "terminal" {
		at.Header.Set("X-User-Id", w.User.ID)
		if w.Chat != "" {
			at.Header.Set("X-Session-Id", w.fill(w.Chat))
		}
	}
	return at, nil
}

// document is the address of the OpenAPI document.
func (c Connection) document() string {
	if strings.HasPrefix(c.Path, "http://") || strings.HasPrefix(c.Path, "https://") {
		return c.Path
	}
	path := c.Path
	if path == "" {
		path = "openapi.json"
	}
	return strings.TrimRight(c.URL, "/") + "/" + strings.TrimLeft(path, "/")
}

// mcp is the connection as package mcp knows servers.
func (s *Service) mcp(ctx context.Context, c Connection, w Who) (mcp.Server, error) {
	session, err := s.session(ctx, c, w)
	if err != nil {
		return mcp.Server{}, err
	}
	key := c.Key
	if c.AuthType == authSession {
		key = session
	}
	return mcp.Server{ID: c.ID, URL: c.URL, AuthType: c.AuthType, Key: key, Headers: c.headers(w), Filter: c.Filter, User: w.User.ID}, nil
}
