// Package live shows users what happens in their runs while it happens, and asks them what tools want to know.
//
// A user's open connections lie in the table: sockets of Socket.IO clients, sockets that speak the plain JSON protocol, and
// HTTP requests that follow a chat. Whoever works on a run opens a Feed and publishes events to it; the feed finds the user's
// connections, pushes to the sockets through the gateway, and forgets those that are gone.
//
// The record is the truth and pushing is best effort (promise P8): nothing here fails a run or holds it up for long. What follows by
// numbers (plain sockets, HTTP) sees a log of the run's events, numbered from 1 without a gap, whose first entry gives everything up
// to then. The log is begun when the first such follower appears and goes on to the end of the run, so that a run that nobody
// follows costs nothing; its numbers are allocated by the conditional write of the entry itself.
package live

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/table"
)

// Poster reaches the connections of the WebSocket API.
type Poster interface {
	// Post sends one frame. ErrGone: there is no such connection any more.
	Post(ctx context.Context, connection string, frame []byte) error
	// Close ends a connection.
	Close(ctx context.Context, connection string) error
}

// ErrGone says that a connection does not exist any more.
var ErrGone = errors.New("the connection is gone")

// Accounts knows who a credential belongs to.
type Accounts interface {
	Authenticate(ctx context.Context, cred access.Credential, method, path string) (access.Caller, error)
}

// Service is the live side of the application. All fields are required; Post may be nil where no WebSocket API is, then only HTTP
// followers are served.
type Service struct {
	Table    table.Table
	Post     Poster
	Accounts Accounts
	Keys     access.Keys   // sign the tickets of tool calls
	Patience time.Duration // how long a question may wait, WEBSOCKET_EVENT_CALLER_TIMEOUT
	Now      func() time.Time
}

// DefaultPatience is how long a question waits unless it is configured.
const DefaultPatience = 300 * time.Second

// The sizes of what is sent, in bytes: API Gateway takes 128 KB a message, and frames of 32 KB.
const (
	MaxFrame = 120 << 10
)

// How long a batch may take on its way to one connection, and the last words of a message: a step that has more to do does not wait
// longer, and a connection that missed pieces of text is told all of it with the next batch.
const (
	batchTime = 20 * time.Second
	finalTime = 25 * time.Second
)

// randomID is an acknowledgement id that no other question of the connection has.
func randomID() int64 {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000_000))
	if err != nil {
		panic("live: " + err.Error()) // the platform has no randomness
	}
	return n.Int64() + 1
}
