package model

import (
	"context"
	"fmt"
	"maps"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// textUnknown is the refusal of a model that is unknown, off or not allowed.
const textUnknown = "Model not found"

// Resolved is a model that a user may ask.
type Resolved struct {
	ID       string
	Upstream string         // the id to ask the provider for
	Listed   map[string]any // as GET /api/models shows it
	Params   map[string]any // the entry's parameters; not nil
	Meta     map[string]any // the entry's meta; not nil
	Owner    string         // of the entry; "" when there is none
}

// Resolve finds the model a user asks for. One that is unknown, inactive or not allowed, or whose base is not served, is fault.Invalid
// "Model not found". While the provider has not answered once, an entry is taken at its word.
func (m *Models) Resolve(ctx context.Context, u access.User, id string) (Resolved, error) {
	unknown := fault.New(fault.Invalid, textUnknown)
	if id == "" || len(id) > table.MaxID {
		return Resolved{}, unknown
	}
	item, has, err := table.One(ctx, m.table, table.Model(id))
	if err != nil {
		return Resolved{}, fmt.Errorf("read model: %w", err)
	}
	r := Resolved{ID: id, Upstream: id, Params: map[string]any{}, Meta: map[string]any{}}
	if !has {
		entry, served := m.servedModel(ctx, id)
		if !served || !u.Admin() { // without an entry nobody else has been granted it
			return Resolved{}, unknown
		}
		r.Listed = base(entry, nil)
		return r, nil
	}
	e, err := entryOf(item)
	if err != nil {
		return Resolved{}, err
	}
	allowed, err := m.Allows(ctx, u, e, access.Read)
	if err != nil {
		return Resolved{}, err
	}
	if !allowed || !e.IsActive {
		return Resolved{}, unknown
	}
	if e.BaseModelID != nil && *e.BaseModelID != "" {
		r.Upstream = *e.BaseModelID
	}
	entry, served := m.servedModel(ctx, r.Upstream)
	if !served {
		if m.answered() {
			return Resolved{}, unknown
		}
		entry = map[string]any{"id": r.Upstream}
	}
	r.Owner, r.Params, r.Meta = e.UserID, e.Params, e.Meta
	if e.BaseModelID == nil {
		r.Listed = base(entry, &e)
	} else {
		r.Listed = custom(e, entry)
	}
	return r, nil
}

func (m *Models) answered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list != nil
}

// List is GET /api/models for the user: the provider's models in its order, then the workspace's, oldest first. Refresh asks the
// provider whatever is remembered.
func (m *Models) List(ctx context.Context, u access.User, refresh bool) ([]map[string]any, error) {
	entries, err := m.Entries(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := m.readable(ctx, u, entries)
	if err != nil {
		return nil, err
	}
	maxAge := m.opts.Fresh
	if refresh {
		maxAge = again
	}
	about, list := map[string]*Entry{}, []map[string]any{}
	for i := range entries {
		if entries[i].BaseModelID == nil {
			about[entries[i].ID] = &entries[i]
		}
	}
	served := map[string]map[string]any{}
	for _, s := range m.served(ctx, maxAge) {
		id, _ := s["id"].(string)
		if _, twice := served[id]; id == "" || twice {
			continue
		}
		served[id] = s
		switch e := about[id]; {
		case e == nil && u.Admin(), e != nil && e.IsActive && readable[id]:
			list = append(list, base(s, e))
		}
	}
	for _, e := range entries {
		if e.BaseModelID != nil && e.IsActive && readable[e.ID] {
			list = append(list, custom(e, served[*e.BaseModelID]))
		}
	}
	return list, nil
}

// readable tells which of the entries the user may read, reading the user's groups at most once.
func (m *Models) readable(ctx context.Context, u access.User, entries []Entry) (map[string]bool, error) {
	var groups []string
	for _, e := range entries {
		if access.NeedsGroups(u, e.UserID, e.Grants) {
			var err error
			if groups, err = m.groups.Groups(ctx, u.ID); err != nil {
				return nil, err
			}
			break
		}
	}
	may := map[string]bool{}
	for _, e := range entries {
		may[e.ID] = access.Allows(u, groups, e.UserID, e.Grants, access.Read)
	}
	return may, nil
}

// Shared are the entries with a base of their own that the user may read, oldest first.
func (m *Models) Shared(ctx context.Context, u access.User) ([]Entry, error) {
	entries, err := m.Entries(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := m.readable(ctx, u, entries)
	if err != nil {
		return nil, err
	}
	shared := []Entry{}
	for _, e := range entries {
		if e.BaseModelID != nil && readable[e.ID] {
			shared = append(shared, e)
		}
	}
	return shared, nil
}

// base is a served model as listed.
func base(served map[string]any, e *Entry) map[string]any {
	upstream := maps.Clone(served)
	upstream["connection_type"] = "external"
	id := served["id"]
	name := served["name"]
	if s, _ := name.(string); s == "" {
		name = id
	}
	l := map[string]any{"id": id, "object": "model", "created": served["created"], "owned_by": "openai", "connection_type": "external",
		"name": name, "openai": upstream, "provider": "", "urlIdx": 0, "actions": []any{}, "filters": []any{}, "tags": []any{}}
	if l["created"] == nil {
		l["created"] = 0
	}
	if e != nil {
		l["name"], l["info"], l["tags"] = e.Name, info(*e), tags(*e)
	}
	return l
}

// custom is a workspace model as listed. Served is its base, nil when that is not served now.
func custom(e Entry, served map[string]any) map[string]any {
	l := map[string]any{"id": e.ID, "name": e.Name, "object": "model", "created": e.CreatedAt, "owned_by": "openai",
		"connection_type": nil, "preset": true, "info": info(e), "actions": []any{}, "filters": []any{}, "tags": tags(e)}
	if served != nil {
		l["connection_type"] = "external"
	}
	return l
}

// info is an entry as lists show it: without parameters, and without the image, which may be large.
func info(e Entry) map[string]any {
	meta := maps.Clone(e.Meta)
	delete(meta, "profile_image_url")
	return map[string]any{"version_id": e.VersionID, "id": e.ID, "user_id": e.UserID, "base_model_id": e.BaseModelID, "name": e.Name,
		"params": map[string]any{}, "meta": meta, "access_grants": e.Grants, "is_active": e.IsActive, "updated_at": e.UpdatedAt,
		"created_at": e.CreatedAt}
}

// Tags are the names of the entry's tags: of meta.tags, a list of objects with a name.
func (e Entry) Tags() []string {
	names := []string{}
	given, _ := e.Meta["tags"].([]any)
	for _, t := range given {
		tag, _ := t.(map[string]any)
		if name, ok := tag["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func tags(e Entry) []any {
	all := []any{}
	for _, name := range e.Tags() {
		all = append(all, map[string]any{"name": name})
	}
	return all
}
