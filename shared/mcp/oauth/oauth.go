// Package oauth is the client's side of OAuth 2.1 as MCP servers want it: it finds out where users of a server sign in, registers this
// service there, sends the user there with PKCE, takes the code that comes back for tokens, and renews them before they are used.
//
//	p, err := client.Discover(ctx, server.URL, authError.Challenge)   // once per server
//	reg, err := client.Register(ctx, p, redirectURI, "toolrounds")    // once per server, unless an administrator did it by hand
//	try, err := oauth.Begin(p, reg, redirectURI)                      // per user: remember try, send the browser to try.URL
//	token, err := client.Finish(ctx, p, reg, try, r.URL.Query())       // at redirectURI
//	store.Save(ctx, serverID, userID, oauth.Grant{p, reg, token})     // Source gives it to package mcp from then on
//
// Every address but the server's own comes from strangers, so that the http.Client has to be one that decides which addresses may be
// reached. Answers are bounded, and requests that carry secrets follow no redirect.
package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Provider is where the users of a server sign in.
type Provider struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Registration string   `json:"registration_endpoint,omitempty"`
	PKCE         []string `json:"code_challenge_methods_supported,omitempty"`
	AuthMethods  []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	NamesIssuer  bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
	Resource     string   `json:"resource,omitempty"` // what the tokens are for: the MCP server
	Scope        string   `json:"scope,omitempty"`    // what the server wants, "" when it does not say
}

// Registration is what this service is called at a provider.
type Registration struct {
	ClientID string `json:"client_id"`
	Secret   string `json:"client_secret,omitempty"`
	Method   string `json:"token_endpoint_auth_method,omitempty"` // none, client_secret_post or client_secret_basic
}

// Token is what a user's sign-in gave.
type Token struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero: never, as far as is known
}

// Attempt is a sign-in that has begun. It is a secret of this service and of the user's browser session.
type Attempt struct {
	URL      string `json:"url"` // where the user's browser goes
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	Redirect string `json:"redirect"`
}

// ErrRefused is in the chain of the error of a provider that refused a code or a refresh token: the user has to sign in again.
var ErrRefused = errors.New("the sign-in has ended")

// Client talks to providers.
type Client struct {
	http *http.Client
	now  func() time.Time
}

// New makes a client. now may be nil.
func New(h *http.Client, now func() time.Time) *Client {
	if h == nil {
		h = http.DefaultClient
	}
	if now == nil {
		now = time.Now
	}
	return &Client{http: h, now: now}
}

// Register makes this service known to a provider (RFC 7591).
func (c *Client) Register(ctx context.Context, p Provider, redirect, name string) (Registration, error) {
	if p.Registration == "" {
		return Registration{}, errors.New("the provider registers nobody by itself: an administrator has to give a client id")
	}
	method := "none"
	if len(p.AuthMethods) > 0 && !slices.Contains(p.AuthMethods, method) {
		method = p.AuthMethods[0]
	}
	body, err := json.Marshal(map[string]any{
		"client_name": name, "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "token_endpoint_auth_method": method, "scope": p.Scope,
	})
	if err != nil {
		return Registration{}, fmt.Errorf("encode registration: %w", err)
	}
	var r Registration
	if err := c.post(ctx, p.Registration, "application/json", string(body), nil, &r); err != nil {
		return Registration{}, fmt.Errorf("register: %w", err)
	}
	if r.ClientID == "" {
		return Registration{}, errors.New("register: the provider gave no client id")
	}
	if r.Method == "" {
		r.Method = method
	}
	return r, nil
}

// Begin begins a user's sign-in.
func Begin(p Provider, r Registration, redirect string) (Attempt, error) {
	u, err := url.Parse(p.Authorize)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return Attempt{}, fmt.Errorf("the provider's sign-in page is no web address: %q", p.Authorize)
	}
	a := Attempt{State: secret(), Verifier: secret(), Redirect: redirect}
	sum := sha256.Sum256([]byte(a.Verifier))
	q := u.Query()
	for key, value := range map[string]string{
		"response_type": "code", "client_id": r.ClientID, "redirect_uri": redirect, "state": a.State, "resource": p.Resource, "scope": p.Scope,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	u.RawQuery = q.Encode()
	a.URL = u.String()
	return a, nil
}

// secret is 256 random bits. It cannot fail: without randomness, crypto/rand ends the process.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Finish takes what the browser brought back to the redirect address for a token. query is that address's whole query.
func (c *Client) Finish(ctx context.Context, p Provider, r Registration, a Attempt, query url.Values) (Token, error) {
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1 {
		return Token{}, errors.New("the sign-in was not begun here")
	}
	// A provider that another one pretends to be would otherwise get that one's code (RFC 9207).
	if iss := query.Get("iss"); iss != "" && iss != p.Issuer || iss == "" && p.NamesIssuer {
		return Token{}, errors.New("the answer is not the provider's")
	}
	if problem := query.Get("error"); problem != "" {
		return Token{}, fmt.Errorf("%w: %s", ErrRefused, clip(problem))
	}
	return c.token(ctx, p, r, url.Values{
		"grant_type": {"authorization_code"}, "code": {query.Get("code")}, "redirect_uri": {a.Redirect}, "code_verifier": {a.Verifier},
	})
}

// Refresh renews a token. The old refresh token stays in use when the provider gives no new one.
func (c *Client) Refresh(ctx context.Context, p Provider, r Registration, t Token) (Token, error) {
	if t.Refresh == "" {
		return Token{}, fmt.Errorf("%w: it cannot be renewed", ErrRefused)
	}
	fresh, err := c.token(ctx, p, r, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}})
	if err != nil {
		return Token{}, err
	}
	if fresh.Refresh == "" {
		fresh.Refresh = t.Refresh
	}
	return fresh, nil
}

func (c *Client) token(ctx context.Context, p Provider, r Registration, form url.Values) (Token, error) {
	if p.Resource != "" {
		form.Set("resource", p.Resource)
	}
	header := http.Header{}
	switch {
	case r.Secret == "" || r.Method == "none":
		form.Set("client_id", r.ClientID)
	case r.Method == "client_secret_post":
		form.Set("client_id", r.ClientID)
		form.Set("client_secret", r.Secret)
	default:
		pair := url.QueryEscape(r.ClientID) + ":" + url.QueryEscape(r.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	var answer struct {
		Token
		Type    string      `json:"token_type"`
		Seconds json.Number `json:"expires_in"`
	}
	if err := c.post(ctx, p.Token, "application/x-www-form-urlencoded", form.Encode(), header, &answer); err != nil {
		return Token{}, fmt.Errorf("get a token: %w", err)
	}
	if answer.Access == "" || answer.Type != "" && !strings.EqualFold(answer.Type, "bearer") {
		return Token{}, errors.New("get a token: the provider gave none that can be used")
	}
	t := answer.Token
	t.Expires = time.Time{}
	if seconds, err := answer.Seconds.Float64(); err == nil && seconds > 0 {
		t.Expires = c.now().Add(time.Duration(seconds) * time.Second)
	}
	return t, nil
}

// maxAnswer bounds what a provider may say.
const maxAnswer = 1 << 20

// post sends a request that may hold secrets, to the one address and no other.
func (c *Client) post(ctx context.Context, address, contentType, body string, header http.Header, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	still := *c.http
	still.Jar = nil
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return answer(&still, req, into)
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	code   string // OAuth's error code
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("answered %d %s", e.status, e.code))
}

// Is makes what only the user can mend ErrRefused.
func (e *statusError) Is(target error) bool {
	return target == ErrRefused && (e.code == "invalid_grant" || e.code == "invalid_client" || e.code == "unauthorized_client")
}

func answer(h *http.Client, req *http.Request, into any) error {
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		var problem struct {
			Code string `json:"error"`
		}
		_ = json.Unmarshal(body, &problem) // without a code, the status has to do
		return &statusError{status: resp.StatusCode, code: clip(problem.Code)}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// clip bounds a stranger's text.
func clip(s string) string { return s[:min(len(s), 100)] }
