// Package access knows who may do what: accounts, groups and what they permit, grants on shared things, API keys, sessions and
// passwords. Everything lies in the one table, so an answer never depends on which process gives it.
//
// # What it promises
//
// No stale acceptance. A deleted or replaced API key, a deleted account, a changed role or password counts from the next request
// on, in every process. The only thing kept in memory is which account a key's hash belongs to, which never changes; a warm
// request therefore costs one strongly consistent read of the key, the account and the settings together.
//
// Nothing half done. The first administrator, an e-mail address, an API key and its hash change in one conditional transaction each.
//
// No secrets at rest or in records. Passwords are bcrypt, keys are found by SHA-256 and kept readable only under the Sealer, and
// User.Record, which tools get to see, has neither.
//
// The measured behaviour of Open WebUI that it follows is spec/http.md A; the texts of its refusals are the ones clients know.
package access

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"toolrounds/shared/table"
)

// Keys gives the secret that sessions are signed with. It may be called for every request; the implementation remembers.
type Keys interface {
	Signing(ctx context.Context) ([]byte, error)
}

// Sealer encrypts what must be readable later. About is authenticated with the text: what was sealed about one thing does not open
// as another.
type Sealer interface {
	Seal(ctx context.Context, plain []byte, about string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, about string) ([]byte, error)
}

// Options are what an installation may choose. Values that administrators can change at run time are only the defaults here.
type Options struct {
	DisableAPIKeys  bool   // the switch ENABLE_API_KEYS, inverted so that the zero value is usable
	DenyUserAPIKeys bool   // plain users' default permission features.api_keys, inverted likewise
	FirstSignup     bool   // whether the first sign-up is open and makes an administrator
	KeyHeader       string // the header that may carry a key instead of Authorization; default x-api-key
	BcryptCost      int    // default bcrypt.DefaultCost
	Now             func() time.Time
	Log             *slog.Logger
}

// OptionsFrom reads Options from the environment: ENABLE_API_KEYS and USER_API_KEYS (default true), FIRST_SIGNUP (default false),
// CUSTOM_API_KEY_HEADER.
func OptionsFrom(getenv func(string) string) *Options {
	return &Options{
		DisableAPIKeys:  !flag(getenv("ENABLE_API_KEYS"), true),
		DenyUserAPIKeys: !flag(getenv("USER_API_KEYS"), true),
		FirstSignup:     flag(getenv("FIRST_SIGNUP"), false),
		KeyHeader:       getenv("CUSTOM_API_KEY_HEADER"),
	}
}

func flag(text string, otherwise bool) bool {
	switch text {
	case "true", "True", "TRUE", "1", "yes", "on":
		return true
	case "false", "False", "FALSE", "0", "no", "off":
		return false
	}
	return otherwise
}

// Accounts is the store of accounts and the judge of requests. It is safe for concurrent use.
type Accounts struct {
	table table.Table
	keys  Keys
	seal  Sealer
	opts  Options

	mu    sync.Mutex
	known map[string]string // SHA-256 of an API key -> its account; immutable facts only
}

// New makes Accounts on a table. Opts may be nil.
func New(t table.Table, keys Keys, seal Sealer, opts *Options) *Accounts {
	a := &Accounts{table: t, keys: keys, seal: seal, known: map[string]string{}}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.KeyHeader == "" {
		a.opts.KeyHeader = "x-api-key"
	}
	if a.opts.Now == nil {
		a.opts.Now = time.Now
	}
	if a.opts.Log == nil {
		a.opts.Log = slog.Default()
	}
	return a
}

func (a *Accounts) now() int64 { return a.opts.Now().Unix() }

// NewID makes a random UUID (version 4).
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
