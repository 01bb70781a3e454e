package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// TextNotAuthenticated answers a request without a credential.
const TextNotAuthenticated = "Not authenticated"

// Credential is what a request shows: an API key or a session token. Found false: nothing.
type Credential struct {
	Token string
	Found bool
}

// Bearer is the credential of a bare token, as sockets bring it.
func Bearer(token string) Credential { return Credential{Token: token, Found: token != ""} }

// Credential finds a request's credential: Authorization with any scheme, then the cookie token, then the key header. The first one
// decides, however wrong it is (spec/http.md A1).
func (a *Accounts) Credential(r *http.Request) Credential {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); token != "" {
		return Credential{token, true}
	}
	if cookie, err := r.Cookie("token"); err == nil && cookie.Value != "" {
		return Credential{cookie.Value, true}
	}
	if token := strings.TrimSpace(r.Header.Get(a.opts.KeyHeader)); token != "" {
		return Credential{token, true}
	}
	// A scheme word alone is a bad credential, a key without a scheme is none.
	return Credential{"", strings.EqualFold(scheme, "bearer")}
}

// KeyHeader is the name of the header that may carry a key.
func (a *Accounts) KeyHeader() string { return a.opts.KeyHeader }

// Caller is who makes a request.
type Caller struct {
	User      User
	ByKey     bool   // with an API key, not as a person
	Token     string // the session, when not ByKey
	ExpiresAt int64  // of the session, Unix seconds; 0: never
}

// Authenticate tells who makes a request, pending accounts included. Method and path are the request's, for the endpoint restriction
// of API keys. Faults: Unauthorized for no or a bad credential; Forbidden where keys are switched off, not permitted to this
// account, or restricted to other paths (spec/http.md A3, A5).
func (a *Accounts) Authenticate(ctx context.Context, cred Credential, method, path string) (Caller, error) {
	if !cred.Found {
		return Caller{}, fault.New(fault.Unauthorized, TextNotAuthenticated)
	}
	if strings.HasPrefix(cred.Token, keyPrefix) {
		return a.byKey(ctx, cred.Token, path)
	}
	return a.bySession(ctx, cred.Token)
}

func (a *Accounts) bySession(ctx context.Context, token string) (Caller, error) {
	c, err := a.verify(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	item, ok, err := table.One(ctx, a.table, table.User(c.ID))
	if err != nil {
		return Caller{}, fmt.Errorf("authenticate: %w", err)
	}
	if !ok || item.String("stamp") != c.Stamp {
		return Caller{}, fault.New(fault.Unauthorized, textExpired)
	}
	u, err := userOf(item)
	if err != nil {
		return Caller{}, err
	}
	caller := Caller{User: u, Token: token}
	if c.ExpiresAt != nil {
		caller.ExpiresAt = c.ExpiresAt.Unix()
	}
	return caller, nil
}

func (a *Accounts) byKey(ctx context.Context, key, path string) (Caller, error) {
	hash := keyHash(key)
	record, config := table.APIKey(hash), table.Config(configName)
	keys := []table.Key{record, config}
	owner := a.owner(hash)
	if owner != "" {
		keys = append(keys, table.User(owner))
	}
	items, err := a.table.Get(ctx, keys...)
	if err != nil {
		return Caller{}, fmt.Errorf("authenticate: %w", err)
	}
	item, ok := items[config]
	s, err := a.settingsOf(item, ok)
	if err != nil {
		return Caller{}, err
	}
	if !s.APIKeys() {
		return Caller{}, fault.New(fault.Forbidden, textNoKeys)
	}
	found, ok := items[record]
	if !ok {
		return Caller{}, fault.New(fault.Unauthorized, textExpired)
	}
	account, ok := items[table.User(owner)]
	if owner == "" {
		owner = found.String("user")
		a.remember(hash, owner)
		if account, ok, err = table.One(ctx, a.table, table.User(owner)); err != nil {
			return Caller{}, fmt.Errorf("authenticate: %w", err)
		}
	}
	if !ok {
		return Caller{}, fault.New(fault.Unauthorized, textExpired)
	}
	u, err := userOf(account)
	if err != nil {
		return Caller{}, err
	}
	if err := a.mayUseKeys(ctx, u, s); err != nil {
		return Caller{}, err
	}
	if !s.allowsPath(path) {
		return Caller{}, fault.New(fault.Forbidden, fault.TextProhibited)
	}
	return Caller{User: u, ByKey: true}, nil
}

// seen notes that somebody signed in. It is not worth failing for.
func (a *Accounts) seen(ctx context.Context, u User) User {
	u.LastActiveAt = a.now()
	if _, err := a.table.Apply(ctx, table.Update(table.User(u.ID), table.Change{Set: map[string]any{"active": u.LastActiveAt}})); err != nil {
		a.opts.Log.WarnContext(ctx, "note sign-in", "user", u.ID, "error", err)
	}
	return u
}
