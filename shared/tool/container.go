package tool

import (
	"context"
	"encoding/json"
)

// Spec is one function as the model and the HTTP API see it. Parameters is a JSON Schema object.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Description is what the container finds in a toolkit's source at save time.
type Description struct {
	Specs         []Spec            `json:"specs"`   // as the HTTP API shows them
	Offered       []Spec            `json:"offered"` // the same functions as the model is offered them
	Manifest      map[string]string `json:"manifest"`
	HasValves     bool              `json:"has_valves"`
	HasUserValves bool              `json:"has_user_valves"`
	Warnings      []string          `json:"warnings"`
	Missing       []string          `json:"missing"` // requirements that are not installed
}

// ValvesKind tells the administrator's valves from a user's own.
type ValvesKind string

// The kinds of valves, named as in the container's protocol.
const (
	Valves     ValvesKind = "valves"
	UserValves ValvesKind = "user_valves"
)

// ContainerError is a refusal of the container: the operation failed, with a message for people.
type ContainerError struct {
	Kind    string `json:"kind"` // syntax, load, spec, requirements, valves, no_valves, no_function, request
	Message string `json:"message"`
}

func (e *ContainerError) Error() string { return e.Kind + ": " + e.Message }

// Container runs toolkit sources. See functions/toolbox/PROTOCOL.md. Refusals are *ContainerError; anything else is a failure of the
// platform.
type Container interface {
	Describe(ctx context.Context, id, source string) (Description, error)
	// ValvesSpec returns the JSON schema, "null" when the class does not exist.
	ValvesSpec(ctx context.Context, id, source string, kind ValvesKind) (json.RawMessage, error)
	// CheckValves validates and coerces values and returns what is to be stored.
	CheckValves(ctx context.Context, id, source string, kind ValvesKind, values json.RawMessage) (json.RawMessage, error)
}
