package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// The texts of refusals about entries, word for word as clients know them.
const (
	textTaken = "Uh-oh! This model id is already registered. Please choose another model id string."
	textLong  = "The model id is too long. Please make sure your model id is less than 256 characters long."
)

// Entry is a workspace model: a model of its own on top of BaseModelID or, without one, what is said of the served model of the same
// id. Meta and Params keep every key they were given. Times are Unix seconds.
type Entry struct {
	VersionID   string         `json:"version_id"` // another one after every change but of grants and IsActive
	ID          string         `json:"id"`
	UserID      string         `json:"user_id"` // the owner
	BaseModelID *string        `json:"base_model_id"`
	Name        string         `json:"name"`
	Params      map[string]any `json:"params"`
	Meta        map[string]any `json:"meta"`
	Grants      []access.Grant `json:"access_grants"`
	IsActive    bool           `json:"is_active"`
	UpdatedAt   int64          `json:"updated_at"`
	CreatedAt   int64          `json:"created_at"`
}

// metaFields are shown in every entry's meta, null unless given.
var metaFields = []string{"profile_image_url", "background_image_url", "description", "i18n", "capabilities", "knowledge", "voice", "voice_avatar"}

// Form is what a client says of an entry.
type Form struct {
	ID, Name     string
	BaseModelID  *string
	Meta, Params map[string]any
	IsActive     bool
	Grants       []access.Grant // only at creation
}

func entryOf(item table.Item) (Entry, error) {
	var e Entry
	err := item.JSON("entry", &e)
	return e, err
}

func itemOf(e Entry, revision int64) table.Item {
	return table.Item{Key: table.Model(e.ID), IndexPK: table.IndexModels, IndexSK: e.ID,
		Attr: map[string]any{"entry": table.MustJSON(e), "revision": revision}}
}

func completed(given map[string]any) map[string]any {
	meta := maps.Clone(given)
	if meta == nil {
		meta = map[string]any{}
	}
	for _, k := range metaFields {
		if _, ok := meta[k]; !ok {
			meta[k] = nil
		}
	}
	return meta
}

// Create stores a new entry. A taken id is fault.Unauthorized and one that is too long fault.Invalid, as clients know it; an empty id
// or one with white space is fault.Unprocessed. An unknown base is accepted: it may be served later.
func (m *Models) Create(ctx context.Context, u access.User, f Form) (Entry, error) {
	if len(f.ID) > table.MaxID {
		return Entry{}, fault.New(fault.Invalid, textLong)
	}
	if f.ID == "" || strings.ContainsFunc(f.ID, unicode.IsSpace) {
		return Entry{}, fault.Fields(fault.Field{Type: "string_pattern_mismatch", Loc: []any{"body", "id"},
			Msg: `String should match pattern '^\S+$'`, Input: f.ID})
	}
	now := m.opts.Now().Unix()
	e := Entry{VersionID: access.NewID(), ID: f.ID, UserID: u.ID, BaseModelID: f.BaseModelID, Name: f.Name, Params: f.Params,
		Meta: completed(f.Meta), Grants: access.Grants("model", f.ID, f.Grants, nil, now), IsActive: f.IsActive, UpdatedAt: now, CreatedAt: now}
	if e.Params == nil {
		e.Params = map[string]any{}
	}
	_, err := m.table.Apply(ctx, table.Put(itemOf(e, 1), table.New()))
	if errors.Is(err, table.ErrCondition) {
		return Entry{}, fault.New(fault.Unauthorized, textTaken)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("store model: %w", err)
	}
	return e, nil
}

// Entry reads an entry, whoever asks. Unknown: fault.NotFound.
func (m *Models) Entry(ctx context.Context, id string) (Entry, error) {
	e, _, err := m.entry(ctx, id)
	return e, err
}

func (m *Models) entry(ctx context.Context, id string) (Entry, int64, error) {
	if id == "" || len(id) > table.MaxID {
		return Entry{}, 0, fault.New(fault.NotFound, fault.TextNotFound)
	}
	item, ok, err := table.One(ctx, m.table, table.Model(id))
	if err != nil {
		return Entry{}, 0, fmt.Errorf("read model: %w", err)
	}
	if !ok {
		return Entry{}, 0, fault.New(fault.NotFound, fault.TextNotFound)
	}
	e, err := entryOf(item)
	return e, item.Int("revision"), err
}

// Entries lists all entries, oldest first, whoever asks. It may miss what changed a moment ago.
func (m *Models) Entries(ctx context.Context) ([]Entry, error) {
	entries := []Entry{}
	for item, err := range m.table.Query(ctx, table.Query{PK: table.IndexModels, Index: true}) {
		if err != nil {
			return nil, fmt.Errorf("list models: %w", err)
		}
		e, err := entryOf(item)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return int(a.CreatedAt - b.CreatedAt) })
	return entries, nil
}

// Update replaces what the form says of an entry; grants stay. Unknown: fault.NotFound. No access: fault.Forbidden.
func (m *Models) Update(ctx context.Context, u access.User, f Form) (Entry, error) {
	return m.change(ctx, u, f.ID, func(e *Entry) {
		e.VersionID, e.UpdatedAt = access.NewID(), m.opts.Now().Unix()
		e.BaseModelID, e.Name, e.Meta, e.Params, e.IsActive = f.BaseModelID, f.Name, completed(f.Meta), f.Params, f.IsActive
		if e.Params == nil {
			e.Params = map[string]any{}
		}
	})
}

// Toggle switches an entry on or off. Faults as Update.
func (m *Models) Toggle(ctx context.Context, u access.User, id string) (Entry, error) {
	return m.change(ctx, u, id, func(e *Entry) { e.IsActive, e.UpdatedAt = !e.IsActive, m.opts.Now().Unix() })
}

// Grant replaces an entry's grants. Faults as Update.
func (m *Models) Grant(ctx context.Context, u access.User, id string, asked []access.Grant) (Entry, error) {
	return m.change(ctx, u, id, func(e *Entry) {
		e.Grants = access.Grants("model", id, asked, e.Grants, m.opts.Now().Unix())
	})
}

// attempts is how often a change is tried against others of the same entry.
const attempts = 8

func (m *Models) change(ctx context.Context, u access.User, id string, change func(*Entry)) (Entry, error) {
	for range attempts {
		e, revision, err := m.entry(ctx, id)
		if err != nil {
			return Entry{}, err
		}
		if err := m.check(ctx, u, e, access.Write); err != nil {
			return Entry{}, err
		}
		change(&e)
		_, err = m.table.Apply(ctx, table.Put(itemOf(e, revision+1), table.Is("revision", revision)))
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Entry{}, fmt.Errorf("store model: %w", err)
		}
	}
	return Entry{}, fault.New(fault.Unavailable, "Too many changes at once. Please try again.")
}

// Delete removes an entry. Faults as Update.
func (m *Models) Delete(ctx context.Context, u access.User, id string) error {
	e, _, err := m.entry(ctx, id)
	if err != nil {
		return err
	}
	if err := m.check(ctx, u, e, access.Write); err != nil {
		return err
	}
	if _, err := m.table.Apply(ctx, table.Delete(table.Model(id))); err != nil {
		return fmt.Errorf("delete model: %w", err)
	}
	return nil
}

// Allows tells whether the user has the permission on the entry.
func (m *Models) Allows(ctx context.Context, u access.User, e Entry, permission string) (bool, error) {
	var groups []string
	if access.NeedsGroups(u, e.UserID, e.Grants) {
		var err error
		if groups, err = m.groups.Groups(ctx, u.ID); err != nil {
			return false, err
		}
	}
	return access.Allows(u, groups, e.UserID, e.Grants, permission), nil
}

func (m *Models) check(ctx context.Context, u access.User, e Entry, permission string) error {
	ok, err := m.Allows(ctx, u, e, permission)
	if err == nil && !ok {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	return err
}
