// Package model knows the models one can ask for: what the provider serves, and the workspace entries that give a served model a
// name, parameters and readers, or make a new model on top of one.
//
// # What it promises
//
// Resolve and the access it checks read the entry itself, so a withdrawn grant or a switched-off model counts at once. Only the
// provider's own list is remembered, for about half a minute; a model that is not in it is asked for once more before it is called
// unknown, and while the provider is down the last list stays in use.
//
// A model that one may not use is no different from one that does not exist. Parameters, system prompts among them, are never in
// a list (spec/http.md B).
package model

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"toolrounds/shared/table"
)

// Provider serves models: the entries of an OpenAI-compatible GET /models, each with at least an "id".
type Provider interface {
	Models(ctx context.Context) ([]map[string]any, error)
}

// Groups tells which groups an account is in; access.Accounts does.
type Groups interface {
	Groups(ctx context.Context, userID string) ([]string, error)
}

// Options are what an installation may choose.
type Options struct {
	Fresh time.Duration // how long the provider's list is used without asking again; default 30 s
	Task  string        // the model of background tasks; empty: the chat's own
	Now   func() time.Time
	Log   *slog.Logger
}

// Models is the store of workspace entries and the merged list. It is safe for concurrent use.
type Models struct {
	table    table.Table
	provider Provider
	groups   Groups
	opts     Options

	mu   sync.Mutex
	list []map[string]any // the provider's; never changed once it is here
	at   time.Time        // when it was fetched or, after a failure, last tried
}

// New makes Models on a table. Opts may be nil.
func New(t table.Table, provider Provider, groups Groups, opts *Options) *Models {
	m := &Models{table: t, provider: provider, groups: groups}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Fresh <= 0 {
		m.opts.Fresh = 30 * time.Second
	}
	if m.opts.Now == nil {
		m.opts.Now = time.Now
	}
	if m.opts.Log == nil {
		m.opts.Log = slog.Default()
	}
	return m
}

// Task is the model that background tasks ask, "" for the chat's own.
func (m *Models) Task(ctx context.Context) string { return m.opts.Task }

// again is the shortest time between two requests to the provider for the sake of unknown models.
const again = time.Second

// served returns the provider's list, at most maxAge old if the provider answers. Callers must not change it.
func (m *Models) served(ctx context.Context, maxAge time.Duration) []map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock() // others wait for the answer instead of asking too
	if age := m.opts.Now().Sub(m.at); !m.at.IsZero() && age >= 0 && age <= maxAge {
		return m.list
	}
	list, err := m.provider.Models(ctx)
	if ctx.Err() != nil {
		return m.list // the caller gave up, which says nothing about the provider
	}
	m.at = m.opts.Now()
	if err != nil {
		m.opts.Log.WarnContext(ctx, "list the provider's models", "error", err, "kept", len(m.list))
		return m.list
	}
	m.list = list
	return list
}

// servedModel finds one of the provider's models, asking again when it is not in the remembered list.
func (m *Models) servedModel(ctx context.Context, id string) (map[string]any, bool) {
	for _, maxAge := range []time.Duration{m.opts.Fresh, again} {
		for _, entry := range m.served(ctx, maxAge) {
			if entry["id"] == id {
				return entry, true
			}
		}
	}
	return nil, false
}
