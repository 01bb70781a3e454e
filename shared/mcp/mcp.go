// Package mcp is the client of MCP servers: it lists the tools of a server and calls them, over streamable HTTP or, where a server
// has only that, over the older SSE transport. The protocol itself is the official SDK's; this package adds what a service that
// calls strangers' servers on behalf of many users needs:
//
//   - Nothing is lost on the way. Schemas, numbers and texts reach the model as the server wrote them: 9007199254740993 keeps its
//     digits, "007" its zeros, a schema its $defs and the order of its keys.
//   - A call that may have had an effect is not sent again. It is repeated, once, only when the server said that it does not know
//     the session, or when nothing had been sent.
//   - No server holds a run up: there is a limit for connecting, listing, calling and for the size of every answer, and none of
//     slow, huge, endless, broken or lying servers takes more than that.
//   - Credentials go to the configured server only: to no redirect, and to no address that the server names.
//   - Sessions are kept for a short time within a process, for one server and one user, and used by one call at a time.
//
// Failures of the server while it does what it was asked (isError, a JSON-RPC error) are results with status Failed, which the
// model is shown. Everything else is an error: *AuthError when somebody has to sign in, *Error for the rest. Failure turns an error
// into such a result for callers that go on anyway.
//
//	client := mcp.New(mcp.Options{HTTP: safeClient})
//	listing, err := client.List(ctx, server)
//	result, err := client.Call(ctx, server, mcp.Request{Name: "add", Arguments: raw, Parameters: tool.Parameters})
package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// The ways in which a server wants to be told who asks.
const (
	AuthNone    = "none"
	AuthBearer  = "bearer"       // Key
	AuthSession = "session"      // Key, which the caller sets to the user's own session token
	AuthSystem  = "system_oauth" // Key, which the caller sets to the token that the user signed in with
	AuthOAuth   = "oauth_2.1"    // a token per user, from Options.Tokens
)

// Server is a configured server and the user on whose behalf it is used.
type Server struct {
	ID       string
	URL      string // used as written, a trailing slash included
	AuthType string
	Key      string
	Headers  map[string]string // sent as given, after the ones of AuthType: placeholders are filled in already
	Filter   []string          // names of tools that are offered; "!name" are not offered; empty: all
	User     string            // the user's id; sessions and tokens are never used for another one
}

// Tool is one tool of a server.
type Tool struct {
	Name        string          // as the server calls it, and as Call wants it
	Offered     string          // as models see it: SERVERID_name, at most 64 characters of a-z, A-Z, 0-9, _ and -
	Description string          // for the model
	Parameters  json.RawMessage // the JSON Schema as the server gave it; always an object with type and properties
}

// Listing is what a server offers.
type Listing struct {
	Instructions string // for the system prompt, "" for none
	Tools        []Tool // in the server's order, after the filter
}

// Request is one call.
type Request struct {
	Name       string          // the original name
	Arguments  json.RawMessage // a JSON object; empty: {}
	Parameters json.RawMessage // the tool's schema, by which strings are made integers and the like; nil: nothing is changed
	Progress   func(Progress)  // nil: nobody listens. Called in order, never after Call has returned; it holds up the answer
	Elicit     Elicit          // nil: the server is told that nobody can be asked
}

// Progress is how far a call is.
type Progress struct {
	Done    float64
	Total   float64 // 0: unknown
	Message string
}

// Elicit asks the user a question of the server. Its context ends with the call's, whose time goes on while it waits.
type Elicit func(ctx context.Context, q Question) (Answer, error)

// Question is what a server wants to know.
type Question struct {
	Message string
	Schema  json.RawMessage // of the answer: a flat object; nil when URL is set
	URL     string          // a page to visit instead of a form
}

// Answer is what the user said.
type Answer struct {
	Action  string         // "accept", "decline" or "cancel"
	Content map[string]any // with "accept"
}

// The statuses of a result.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Result is what a call gave.
type Result struct {
	Content string // the text for the model
	Status  string // Completed or Failed
	Media   []Media
}

// Media is a part of a result that is not text.
type Media struct {
	Type    string // "image" or "audio"
	DataURI string
	Shown   bool // the model is shown it, in a message of its own
	Kept    bool // it is stored as a file of the result
}

// Tokens knows the OAuth tokens of users. rejected is "" at first; when the server has refused a token, it is that token, and the
// answer has to be another one. An error that wraps ErrSignIn means that the user has to sign in first.
type Tokens interface {
	Token(ctx context.Context, s Server, rejected string) (string, error)
}

// Options are the surroundings of a client; the zero value of each field is the default.
type Options struct {
	HTTP        *http.Client     // what connects; it decides which addresses may be reached. Timeout, jar and redirects are the client's own
	Tokens      Tokens           // nil: servers with AuthOAuth need a sign-in that nobody can give
	Now         func() time.Time // time.Now
	Connect     time.Duration    // for connecting and initialising, default 10 s
	List        time.Duration    // for listing in all, connecting included, default 20 s
	Call        time.Duration    // for one call, default 5 min
	Idle        time.Duration    // how long an unused session is kept, default 30 s; negative: not at all
	MaxBytes    int64            // of one answer of the server, default 16 MiB
	MaxTools    int              // of one server, default 1000
	MaxSessions int              // unused ones in all, default 32
	Name        string           // how the client introduces itself, default "toolrounds"
	Version     string           // default "1"
}

// Client talks to servers. It may be used by many goroutines at once. Close it when it is not needed any more.
type Client struct {
	opts Options

	mu   sync.Mutex
	idle []*session // the longest unused first
}

// New makes a client.
func New(o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	setDefault(&o.Connect, 10*time.Second)
	setDefault(&o.List, 20*time.Second)
	setDefault(&o.Call, 5*time.Minute)
	setDefault(&o.Idle, 30*time.Second)
	setDefault(&o.MaxBytes, 16<<20)
	setDefault(&o.MaxTools, 1000)
	setDefault(&o.MaxSessions, 32)
	setDefault(&o.Name, "toolrounds")
	setDefault(&o.Version, "1")
	return &Client{opts: o}
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
