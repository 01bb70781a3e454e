// Package tool is the toolkits that people write: their store, their specs and valves, and the arguments that models call them with.
//
// # What it promises
//
// Source, specs and version change together or not at all, and only to what the container could load. Access is checked with every
// read of a toolkit, so a withdrawn grant counts at the next call of a running answer.
//
// Valves hold other services' secrets: they are stored encrypted, bound to the one toolkit and user they were given for, and leave
// here only in Values, for those who may change them, and in Load, for the container. A toolkit made under the id of a deleted one
// starts without any.
//
// The measured behaviour that it follows is spec/http.md C. The Python is read and run by the Container alone.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// Groups tells which groups an account is in; access.Accounts does.
type Groups interface {
	Groups(ctx context.Context, userID string) ([]string, error)
}

// Sealer encrypts valves; see access.Sealer.
type Sealer interface {
	Seal(ctx context.Context, plain []byte, about string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, about string) ([]byte, error)
}

// Toolkit is a toolkit without its source and valves. Times are Unix seconds.
type Toolkit struct {
	ID            string
	UserID        string // the owner
	Name          string
	Version       string         // another one whenever the source is another: the key of whatever is cached of it
	VersionID     string         // another one whenever name, meta or source is
	Meta          map[string]any // as given, with manifest and has_user_valves as found in the source
	Specs         []Spec         // as the HTTP API shows them
	Offered       []Spec         // as a model is offered them
	Grants        []access.Grant
	HasValves     bool
	HasUserValves bool
	CreatedAt     int64
	UpdatedAt     int64

	born     string // tells this toolkit from an earlier one of the same id
	revision int64
}

// Form is what a client says of a toolkit. Grants count only at creation.
type Form struct {
	ID, Name, Source string
	Meta             map[string]any
	Grants           []access.Grant
}

// Options are what an installation may choose.
type Options struct {
	Client *http.Client // fetches sources by URL; the caller's guard against inner addresses belongs into its transport
	Now    func() time.Time
	Log    *slog.Logger
}

// Tools is the store of toolkits. It is safe for concurrent use.
type Tools struct {
	table     table.Table
	container Container
	seal      Sealer
	groups    Groups
	opts      Options
}

// New makes Tools on a table. Opts may be nil.
func New(t table.Table, container Container, seal Sealer, groups Groups, opts *Options) *Tools {
	s := &Tools{table: t, container: container, seal: seal, groups: groups}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Client == nil {
		s.opts.Client = &http.Client{Timeout: 30 * time.Second}
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Log == nil {
		s.opts.Log = slog.Default()
	}
	return s
}

func (t *Tools) now() int64 { return t.opts.Now().Unix() }

func version(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:16])
}

func (k Toolkit) item() table.Item {
	return table.Item{Key: table.Tool(k.ID), IndexPK: table.IndexTools, IndexSK: k.ID, Attr: map[string]any{
		"id": k.ID, "owner": k.UserID, "name": k.Name, "version": k.Version, "version_id": k.VersionID,
		"meta": table.MustJSON(k.Meta), "specs": table.MustJSON(k.Specs), "offered": table.MustJSON(k.Offered),
		"grants": table.MustJSON(k.Grants), "valves": k.HasValves, "user_valves": k.HasUserValves, "created": k.CreatedAt,
		"updated": k.UpdatedAt, "born": k.born, "revision": k.revision}}
}

func (k Toolkit) source(text string) table.Item {
	return table.Item{Key: table.ToolSource(k.ID), Attr: map[string]any{"source": table.Blob(text), "version": k.Version, "born": k.born}}
}

func toolkitOf(item table.Item) (Toolkit, error) {
	k := Toolkit{ID: item.String("id"), UserID: item.String("owner"), Name: item.String("name"), Version: item.String("version"),
		VersionID: item.String("version_id"), HasValves: item.Bool("valves"), HasUserValves: item.Bool("user_valves"),
		CreatedAt: item.Int("created"), UpdatedAt: item.Int("updated"), born: item.String("born"), revision: item.Int("revision")}
	for name, v := range map[string]any{"meta": &k.Meta, "specs": &k.Specs, "offered": &k.Offered, "grants": &k.Grants} {
		if err := item.JSON(name, v); err != nil {
			return Toolkit{}, err
		}
	}
	return k, nil
}

// usable tells whether a text from outside can be a toolkit's id at all. Ids of servers ("server:...") are never one.
func usable(id string) bool {
	return id != "" && len(id) <= table.MaxID && !strings.Contains(id, ":")
}

func notFound() error   { return fault.New(fault.NotFound, fault.TextNotFound) }
func prohibited() error { return fault.New(fault.Unauthorized, fault.TextProhibited) }

// Toolkit reads one toolkit, whoever asks. Unknown: fault.NotFound.
func (t *Tools) Toolkit(ctx context.Context, id string) (Toolkit, error) {
	if !usable(id) {
		return Toolkit{}, notFound()
	}
	item, ok, err := table.One(ctx, t.table, table.Tool(id))
	if err != nil {
		return Toolkit{}, fmt.Errorf("read toolkit: %w", err)
	}
	if !ok {
		return Toolkit{}, notFound()
	}
	return toolkitOf(item)
}

// Source reads a toolkit's source text, whoever asks. Unknown: fault.NotFound.
func (t *Tools) Source(ctx context.Context, id string) (string, error) {
	if !usable(id) {
		return "", notFound()
	}
	item, ok, err := table.One(ctx, t.table, table.ToolSource(id))
	if err != nil {
		return "", fmt.Errorf("read source: %w", err)
	}
	if !ok {
		return "", notFound()
	}
	source, _ := item.Attr["source"].(table.Blob)
	return string(source), nil
}

// Allows tells whether the user has the permission on the toolkit.
func (t *Tools) Allows(ctx context.Context, u access.User, k Toolkit, permission string) (bool, error) {
	kept, err := t.allowed(ctx, u, []Toolkit{k}, permission)
	return len(kept) == 1, err
}

// allowed keeps the toolkits on which the user has the permission, reading the user's groups at most once and only if they matter.
func (t *Tools) allowed(ctx context.Context, u access.User, all []Toolkit, permission string) ([]Toolkit, error) {
	var groups []string
	for _, k := range all {
		if access.NeedsGroups(u, k.UserID, k.Grants) {
			var err error
			if groups, err = t.groups.Groups(ctx, u.ID); err != nil {
				return nil, fmt.Errorf("read groups: %w", err)
			}
			break
		}
	}
	kept := []Toolkit{}
	for _, k := range all {
		if access.Allows(u, groups, k.UserID, k.Grants, permission) {
			kept = append(kept, k)
		}
	}
	return kept, nil
}

// List lists the toolkits that the user may read and whose name contains the query in any case, last changed first. It may miss what
// changed a moment ago.
func (t *Tools) List(ctx context.Context, u access.User, query string) ([]Toolkit, error) {
	var all []Toolkit
	for item, err := range t.table.Query(ctx, table.Query{PK: table.IndexTools, Index: true}) {
		if err != nil {
			return nil, fmt.Errorf("list toolkits: %w", err)
		}
		k, err := toolkitOf(item)
		if err != nil {
			return nil, err
		}
		if strings.Contains(strings.ToLower(k.Name), strings.ToLower(query)) {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b Toolkit) int { return int(b.UpdatedAt - a.UpdatedAt) })
	return t.allowed(ctx, u, all, access.Read)
}

// Sources reads the source texts of several toolkits in one go, by id.
func (t *Tools) Sources(ctx context.Context, all []Toolkit) (map[string]string, error) {
	sources := make(map[string]string, len(all))
	if len(all) == 0 {
		return sources, nil
	}
	keys := make([]table.Key, len(all))
	for i, k := range all {
		keys[i] = table.ToolSource(k.ID)
	}
	items, err := t.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	for _, k := range all {
		source, _ := items[table.ToolSource(k.ID)].Attr["source"].(table.Blob)
		sources[k.ID] = string(source)
	}
	return sources, nil
}

// Readable reads the toolkits of the ids that the user may read, in the order of the ids, each once; unknown ones and those one may
// not read are skipped. One read, and one of the user's groups when they matter.
func (t *Tools) Readable(ctx context.Context, u access.User, ids []string) ([]Toolkit, error) {
	var keys []table.Key
	for _, id := range ids {
		if key := table.Tool(id); usable(id) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return []Toolkit{}, nil
	}
	items, err := t.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read toolkits: %w", err)
	}
	all := make([]Toolkit, 0, len(keys))
	for _, key := range keys {
		item, ok := items[key]
		if !ok {
			continue
		}
		k, err := toolkitOf(item)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return t.allowed(ctx, u, all, access.Read)
}

// Loaded is all that one call of a toolkit needs.
type Loaded struct {
	Toolkit
	Source     string
	Valves     json.RawMessage // the stored ones, an object; {} when there are none
	UserValves json.RawMessage // the user's own, likewise
}

// Load reads a toolkit for one call by the user, in one read and, if they matter, one of the user's groups. Access is checked anew.
// Unknown: fault.NotFound; no access: fault.Unauthorized. Version is that of the Source, even if it is being replaced just now.
func (t *Tools) Load(ctx context.Context, u access.User, id string) (Loaded, error) {
	if !usable(id) {
		return Loaded{}, notFound()
	}
	meta, source := table.Tool(id), table.ToolSource(id)
	valves, own := table.ToolValves(id), table.ToolUserValves(id, u.ID)
	items, err := t.table.Get(ctx, meta, source, valves, own)
	if err != nil {
		return Loaded{}, fmt.Errorf("load toolkit: %w", err)
	}
	if _, ok := items[meta]; !ok {
		return Loaded{}, notFound()
	}
	l := Loaded{}
	if l.Toolkit, err = toolkitOf(items[meta]); err != nil {
		return Loaded{}, err
	}
	allowed, err := t.Allows(ctx, u, l.Toolkit, access.Read)
	if err != nil {
		return Loaded{}, err
	}
	if !allowed {
		return Loaded{}, prohibited()
	}
	text, ok := items[source].Attr["source"].(table.Blob)
	if !ok || items[source].String("born") != l.born {
		return Loaded{}, notFound() // deleted, and perhaps made anew, between the two
	}
	l.Source, l.Version = string(text), items[source].String("version")
	if l.Valves, err = t.open(ctx, l.Toolkit, "", items[valves]); err != nil {
		return Loaded{}, err
	}
	l.UserValves, err = t.open(ctx, l.Toolkit, u.ID, items[own])
	return l, err
}
