// Package folder keeps the folders in which users put their chats. A folder belongs to one user, and lies with the user's account, so
// that nobody else's folder can even be found.
//
// What a folder says in its data applies to every chat in it, whichever model answers: a system prompt, and tools (Prompt, Tools).
package folder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// Folder is a folder as clients see it. Times are Unix seconds.
type Folder struct {
	ID        string         `json:"id"`
	ParentID  *string        `json:"parent_id"` // null: at the root
	UserID    string         `json:"user_id"`
	Name      string         `json:"name"`
	Items     map[string]any `json:"items"` // always null; clients expect the key
	Meta      map[string]any `json:"meta"`
	Data      map[string]any `json:"data"`
	Expanded  bool           `json:"is_expanded"`
	CreatedAt int64          `json:"created_at"`
	UpdatedAt int64          `json:"updated_at"`
}

// Prompt is what the folder adds to the system prompt, "" for nothing.
func (f Folder) Prompt() string { s, _ := f.Data["system_prompt"].(string); return s }

// Tools are the tool ids that the folder adds to every request in it.
func (f Folder) Tools() []string {
	var ids []string
	given, _ := f.Data["tool_ids"].([]any)
	for _, v := range given {
		if id, ok := v.(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// Form is what a client says of a folder. Nil leaves what there is.
type Form struct {
	Name       *string
	Data, Meta map[string]any // their keys are merged into those that there are
}

// Store keeps folders in the table.
type Store struct {
	Table table.Table
	Now   func() time.Time
	NewID func() string
}

// The texts of refusals, as clients of Open WebUI know them.
const (
	textExists = "[ERROR: Folder already exists]"
	textInside = "[ERROR: Cannot move a folder into itself or one of its subfolders]"
)

// attempts is how often a read, change, conditional write is tried against others doing the same.
const attempts = 8

const (
	attrFolder   = "folder"
	attrRevision = "revision"
)

func missing() error { return fault.New(fault.NotFound, fault.TextNotFound) }

func put(f Folder, revision int64, cond table.Cond) table.Op {
	return table.Put(table.Item{Key: table.Folder(f.UserID, f.ID), Attr: map[string]any{
		attrFolder: table.MustJSON(f), attrRevision: revision,
	}}, cond)
}

// Find reads a folder of the user; found is false when the user has none of that id.
func (s *Store) Find(ctx context.Context, user, id string) (f Folder, found bool, err error) {
	f, _, err = s.read(ctx, user, id)
	if fault.CodeOf(err) == fault.NotFound && err != nil {
		return Folder{}, false, nil
	}
	return f, err == nil, err
}

// Get reads a folder of the user. Fault: NotFound.
func (s *Store) Get(ctx context.Context, user, id string) (Folder, error) {
	f, _, err := s.read(ctx, user, id)
	return f, err
}

func (s *Store) read(ctx context.Context, user, id string) (f Folder, revision int64, err error) {
	if id == "" || len(id) > table.MaxID {
		return f, 0, missing()
	}
	item, ok, err := table.One(ctx, s.Table, table.Folder(user, id))
	if err != nil {
		return f, 0, fmt.Errorf("read folder: %w", err)
	}
	if !ok {
		return f, 0, missing()
	}
	err = item.JSON(attrFolder, &f)
	return f, item.Int(attrRevision), err
}

// List returns the user's folders, the one changed last first. One whose parent is gone, or lies within itself, is at the root: no
// folder is ever out of reach.
func (s *Store) List(ctx context.Context, user string) ([]Folder, error) {
	all := []Folder{}
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.User(user).PK, Prefix: table.FolderPrefix}) {
		if err != nil {
			return nil, fmt.Errorf("list folders: %w", err)
		}
		var f Folder
		if err := item.JSON(attrFolder, &f); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	parents := map[string]*string{}
	for _, f := range all {
		parents[f.ID] = f.ParentID
	}
	for i := range all {
		if !reaches(parents, all[i].ID) {
			all[i].ParentID = nil
		}
	}
	slices.SortStableFunc(all, func(a, b Folder) int {
		if a.UpdatedAt != b.UpdatedAt {
			return int(b.UpdatedAt - a.UpdatedAt)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// reaches tells whether the way from a folder upwards ends at the root; one to a folder that is gone does not.
func reaches(parents map[string]*string, id string) bool {
	at := id
	for range len(parents) + 1 {
		parent, known := parents[at]
		if !known {
			return false
		}
		if parent == nil {
			return true
		}
		at = *parent
	}
	return false
}

// Within lists the ids of a folder and all below it, from a List.
func Within(all []Folder, id string) []string {
	ids := []string{id}
	for i := 0; i < len(ids); i++ {
		for _, f := range all {
			if f.ParentID != nil && *f.ParentID == ids[i] && !slices.Contains(ids, f.ID) {
				ids = append(ids, f.ID)
			}
		}
	}
	return ids
}

// named refuses a name that a sibling has, in whatever case.
func named(all []Folder, self, name string, parent *string) error {
	for _, f := range all {
		same := f.ParentID == nil && parent == nil || f.ParentID != nil && parent != nil && *f.ParentID == *parent
		if same && f.ID != self && strings.EqualFold(f.Name, name) {
			return fault.New(fault.Invalid, textExists)
		}
	}
	return nil
}

// inside refuses a parent that is none of the user's folders.
func inside(all []Folder, parent *string) error {
	if parent == nil || slices.ContainsFunc(all, func(f Folder) bool { return f.ID == *parent }) {
		return nil
	}
	return missing()
}

// Create makes a folder. Faults: Invalid (the name is taken there), NotFound (the parent).
func (s *Store) Create(ctx context.Context, user, name string, parent *string, form Form) (Folder, error) {
	all, err := s.List(ctx, user)
	if err != nil {
		return Folder{}, err
	}
	if err := inside(all, parent); err != nil {
		return Folder{}, err
	}
	if err := named(all, "", name, parent); err != nil {
		return Folder{}, err
	}
	now := s.Now().Unix()
	f := Folder{ID: s.NewID(), ParentID: parent, UserID: user, Name: name, Data: form.Data, Meta: form.Meta, CreatedAt: now, UpdatedAt: now}
	if _, err := s.Table.Apply(ctx, put(f, 1, table.New())); err != nil {
		return Folder{}, fmt.Errorf("store folder: %w", err)
	}
	return f, nil
}

// Update changes a folder's name, data and meta. Faults: NotFound, Invalid (a sibling has the name).
func (s *Store) Update(ctx context.Context, user, id string, form Form) (Folder, error) {
	return s.change(ctx, user, id, func(f *Folder, all []Folder) error {
		if form.Name != nil {
			if err := named(all, id, *form.Name, f.ParentID); err != nil {
				return err
			}
			f.Name = *form.Name
		}
		f.Data, f.Meta = merged(f.Data, form.Data), merged(f.Meta, form.Meta)
		return nil
	})
}

func merged(old, more map[string]any) map[string]any {
	if more == nil {
		return old
	}
	m := map[string]any{}
	maps.Copy(m, old)
	maps.Copy(m, more)
	return m
}

// Move puts a folder into another one, or with nil at the root. Faults: NotFound (either), Invalid (a sibling there has the name, or
// the parent lies within the folder).
func (s *Store) Move(ctx context.Context, user, id string, parent *string) (Folder, error) {
	return s.change(ctx, user, id, func(f *Folder, all []Folder) error {
		if err := inside(all, parent); err != nil {
			return err
		}
		if parent != nil && slices.Contains(Within(all, id), *parent) {
			return fault.New(fault.Invalid, textInside)
		}
		f.ParentID = parent
		return named(all, id, f.Name, parent)
	})
}

// Expand notes whether clients show what is in the folder. Fault: NotFound.
func (s *Store) Expand(ctx context.Context, user, id string, expanded bool) (Folder, error) {
	return s.change(ctx, user, id, func(f *Folder, _ []Folder) error {
		f.Expanded = expanded
		return nil
	})
}

func (s *Store) change(ctx context.Context, user, id string, edit func(f *Folder, all []Folder) error) (Folder, error) {
	for range attempts {
		f, revision, err := s.read(ctx, user, id)
		if err != nil {
			return Folder{}, err
		}
		all, err := s.List(ctx, user)
		if err != nil {
			return Folder{}, err
		}
		if err := edit(&f, all); err != nil {
			return Folder{}, err
		}
		f.UpdatedAt = s.Now().Unix()
		_, err = s.Table.Apply(ctx, put(f, revision+1, table.Is(attrRevision, revision)))
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Folder{}, fmt.Errorf("store folder: %w", err)
		}
	}
	return Folder{}, fault.New(fault.Unavailable, "Too many changes at once. Please try again.")
}

// Delete removes folders, those that are not there included.
func (s *Store) Delete(ctx context.Context, user string, ids []string) error {
	ops := make([]table.Op, len(ids))
	for i, id := range ids {
		ops[i] = table.Delete(table.Folder(user, id))
	}
	if err := s.Table.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("delete folders: %w", err)
	}
	return nil
}
