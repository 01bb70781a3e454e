package run

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/folder"
	"toolrounds/shared/model"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// Machine drives runs: it executes the steps of a run in order.
type Machine interface {
	// Start begins an execution; starting one of the same name again does nothing.
	Start(ctx context.Context, name string, input any) error
	// Stop ends an execution, if it is still running.
	Stop(ctx context.Context, name, cause string) error
}

// Models knows the models that may be asked.
type Models interface {
	// Resolve returns fault.Invalid for a model that is unknown or not for this user.
	Resolve(ctx context.Context, u access.User, id string) (model.Resolved, error)
	// Task is the id of the model that does background tasks, "" for the model itself.
	Task(ctx context.Context) string
}

// Toolkits knows the toolkits that users may use.
type Toolkits interface {
	Readable(ctx context.Context, u access.User, ids []string) ([]tool.Toolkit, error)
	Load(ctx context.Context, u access.User, id string) (tool.Loaded, error)
}

// Folders knows the folders that users put their chats in.
type Folders interface {
	// Find reads one of the user's own folders; found is false when the user has none of that id.
	Find(ctx context.Context, user, id string) (f folder.Folder, found bool, err error)
}

// Accounts knows the users.
type Accounts interface {
	User(ctx context.Context, id string) (access.User, error)
}

// Provider asks models.
type Provider interface {
	Stream(ctx context.Context, body []byte, opts openai.StreamOptions, sink func(openai.Delta) error) (*openai.Round, error)
	Complete(ctx context.Context, body []byte) (*openai.Completion, error)
	Do(ctx context.Context, body []byte) (*http.Response, error)
}

// Container runs one function of a toolkit.
type Container interface {
	Call(ctx context.Context, inv Invocation) (Result, error)
}

// Invocation is one call as the container gets it.
type Invocation struct {
	Toolkit   tool.Loaded
	Function  string
	Arguments string // JSON text of an object
	Key       string // idempotency key: run, round and index
	User      access.User
	Context   map[string]any // metadata, messages, files, model, chat_id, message_id, session_id, oauth_token
	Seconds   int
	Token     string // for the broker, "" without one
	BrokerURL string
}

// Result is what a call gave.
type Result struct {
	Content string   `json:"content"` // the text for the model
	Status  string   `json:"status"`  // completed or failed
	Embeds  []string `json:"embeds,omitempty"`
	Files   []any    `json:"files,omitempty"`
	Images  []string `json:"images,omitempty"` // data URIs, as the model is shown them
	Events  []Event  `json:"-"`                // what the tool emitted and nobody stored yet

	ImageURLs []string `json:"image_urls,omitempty"` // where users find the images
	ItemID    string   `json:"item_id"`              // the id of the result's output item
}

// Event is one thing that a tool emitted.
type Event struct {
	At    int64          `json:"at"` // Unix milliseconds
	N     int            `json:"n"`  // its number within the call
	Event map[string]any `json:"event"`
}

// The statuses of a result.
const (
	Completed  = "completed"
	FailedCall = "failed"
	Incomplete = "incomplete"
)

// Files stores what tools make that is not text, and names it by a URL that the user can fetch.
type Files interface {
	// Save stores a data URI as a file of the user and returns its URL; other strings are returned as they are.
	Save(ctx context.Context, user, dataURI string) (url string, err error)
}

// Broker lets a tool's process in while the tool runs.
type Broker interface {
	// Ticket is what a call's process shows.
	Ticket(ctx context.Context, t Ticket, lasts time.Duration) (string, error)
}

// Questions are what tools ask users.
type Questions interface {
	// Put asks the user whom the ticket names, as the n-th question of its call, and returns the answer. An error says that there is none:
	// nobody can be asked, nobody answered in time, or the run is over, as working tells.
	Put(ctx context.Context, t Ticket, n int, e event.Event, working func(context.Context, Ticket) (Run, error)) (json.RawMessage, error)
	// Drop ends the questions of a run that are still open, and tells those who were asked.
	Drop(ctx context.Context, run string)
}

// Ticket names the call that a tool's process belongs to.
type Ticket struct {
	Run     string `json:"run"`
	Chat    string `json:"chat"`
	Message string `json:"message"`
	Round   int    `json:"round"`
	Index   int    `json:"index"`
	User    string `json:"user"`
	Session string `json:"session,omitempty"` // the socket that asked for the run
	Wait    bool   `json:"wait,omitempty"`    // questions wait for an answer over HTTP where no socket is
}

// Limits are the settings of the loop.
type Limits struct {
	Rounds      int // executed tool rounds, negative: no limit
	ToolSeconds int // a call's time
	ResultChars int // what the model gets of a result
	Events      int // history events after which a new execution goes on
}

// Service carries out runs. All fields are required, except that a process which never takes the steps that use them may leave Provider,
// Container, Files and Machine nil.
type Service struct {
	Table     table.Table
	Chats     *chat.Store
	Accounts  Accounts
	Models    Models
	Tools     Toolkits
	Provider  Provider
	Container Container
	Files     Files
	Folders   Folders // nil: chats are in no folders
	Servers   Servers // nil: there are no tools but those of toolkits
	Machine   Machine
	Live      Live      // nil: nobody is shown anything
	Broker    Broker    // nil: tools' events come with their results, and their questions find nobody
	Questions Questions // of the Broker's calls
	Limits    Limits
	// ModelTools adds the tools that a model names in meta.toolIds to every request to it.
	ModelTools bool
	Now        func() time.Time
	NewID      func() string // a fresh, sortable id
	ItemID     func(prefix string) string
}

// workTTL is how long a run's working items are kept.
const workTTL = 7 * 24 * time.Hour
