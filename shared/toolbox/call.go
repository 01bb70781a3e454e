package toolbox

import (
	"encoding/json"

	"toolrounds/shared/tool"
)

// CallRequest runs one function of a toolkit. Fields that are json.RawMessage hold what only the tool understands; an absent one
// travels as an empty object or list.
type CallRequest struct {
	UserID    string          // whose environment it runs in
	Tool      Tool            // the toolkit
	Function  string          // which of its functions
	Arguments string          // JSON text of an object, exactly as stored
	Key       string          // idempotency key: "<run>/<round>/<index>"
	User      json.RawMessage // the account record, for __user__
	Context   Context
	Limits    Limits
	Broker    *Broker // nil: no events while it runs, they come with the result
	SpillURL  string  // presigned PUT for a result over 4 MB; empty: a larger one is cut
}

// Tool is a toolkit as the container needs it.
type Tool struct {
	ID         string          `json:"id"`
	Version    string          `json:"version"` // cache key of the source
	Source     string          `json:"source"`
	Valves     json.RawMessage `json:"valves"`
	UserValves json.RawMessage `json:"user_valves"`
}

// Context is what a toolkit may ask for beside its arguments. A nil MessageID or SessionID becomes None.
type Context struct {
	Metadata   json.RawMessage `json:"metadata"`
	Messages   json.RawMessage `json:"messages"`
	Files      json.RawMessage `json:"files"`
	Model      json.RawMessage `json:"model"`
	OAuthToken json.RawMessage `json:"oauth_token"`
	ChatID     string          `json:"chat_id"`
	MessageID  *string         `json:"message_id"`
	SessionID  *string         `json:"session_id"`
}

// Limits bound a call; zero leaves the container's own.
type Limits struct {
	Seconds     int `json:"seconds,omitempty"`
	MemoryMB    int `json:"memory_mb,omitempty"`
	ResultBytes int `json:"result_bytes,omitempty"`
}

// Broker is where the container posts events and questions while the tool runs.
type Broker struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// CallResult is what a call came to.
type CallResult struct {
	Result Result  `json:"result"`
	Events []Event `json:"events"` // those that were not posted to the broker
	Logs   string  `json:"logs"`   // what the tool printed
}

// Status is how a tool ended.
type Status string

// The statuses of a result.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Result is a tool's result. With Spilled the whole of it, in this same shape, lies where SpillURL pointed to.
type Result struct {
	Content string            `json:"content"` // the text for the model
	Status  Status            `json:"status"`
	Embeds  []string          `json:"embeds"`
	Files   []json.RawMessage `json:"files"`
	Images  []string          `json:"images"` // data URIs
	Spilled bool              `json:"spilled"`
}

// Event is something the tool emitted.
type Event struct {
	At    int64           `json:"at"` // Unix milliseconds
	N     int             `json:"n"`  // 0, 1, 2, … of the call
	Event json.RawMessage `json:"event"`
}

type sourceOf struct {
	ID     string `json:"id"`
	Source string `json:"source"`
}

type describeRequest struct {
	Op   string   `json:"op"`
	Tool sourceOf `json:"tool,omitzero"`
}

type valvesRequest struct {
	Op     string          `json:"op"`
	Tool   sourceOf        `json:"tool"`
	Kind   tool.ValvesKind `json:"kind"`
	Values json.RawMessage `json:"values,omitempty"`
}

type callRequest struct {
	Op        string          `json:"op"`
	Tool      Tool            `json:"tool"`
	Function  string          `json:"function"`
	Arguments string          `json:"arguments"`
	Key       string          `json:"key"`
	User      json.RawMessage `json:"user"`
	Context   Context         `json:"context"`
	Limits    Limits          `json:"limits"`
	Broker    *Broker         `json:"broker"`
	Spill     *spill          `json:"spill"`
}

type spill struct {
	PutURL string `json:"put_url"`
}

// wire is the request as the protocol has it.
func (r CallRequest) wire() callRequest {
	w := callRequest{
		Op: "call", Tool: r.Tool, Function: r.Function, Arguments: r.Arguments, Key: r.Key, User: or(r.User, "{}"),
		Context: r.Context, Limits: r.Limits, Broker: r.Broker,
	}
	w.Tool.Valves, w.Tool.UserValves = or(r.Tool.Valves, "{}"), or(r.Tool.UserValves, "{}")
	c := &w.Context
	c.Metadata, c.Messages, c.Files = or(c.Metadata, "{}"), or(c.Messages, "[]"), or(c.Files, "[]")
	c.Model, c.OAuthToken = or(c.Model, "{}"), or(c.OAuthToken, "null")
	if r.SpillURL != "" {
		w.Spill = &spill{PutURL: r.SpillURL}
	}
	return w
}

func or(raw json.RawMessage, absent string) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(absent)
	}
	return raw
}
