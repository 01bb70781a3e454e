package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

const textNoGroup = "Group not found."

// Group is a set of accounts that may do more together. Times are Unix seconds.
type Group struct {
	ParentGroupID *string        `json:"parent_group_id"`
	ID            string         `json:"id"`
	UserID        string         `json:"user_id"` // who made it
	Name          string         `json:"name"`
	Description   string         `json:"description"`
	Data          map[string]any `json:"data"`
	Meta          map[string]any `json:"meta"`
	Permissions   map[string]any `json:"permissions"` // as given: sections of flags; null: none
	CreatedAt     int64          `json:"created_at"`
	UpdatedAt     int64          `json:"updated_at"`
}

// GroupForm is what a client says of a group. Nil maps leave what there is.
type GroupForm struct {
	Name, Description       string
	Permissions, Data, Meta map[string]any
}

func groupOf(item table.Item) (Group, error) {
	var g Group
	err := item.JSON("group", &g)
	return g, err
}

func groupItem(g Group, revision int64) table.Item {
	return table.Item{Key: table.Group(g.ID), IndexPK: table.IndexGroups, IndexSK: g.Name + "\x00" + g.ID,
		Attr: map[string]any{"group": table.MustJSON(g), "revision": revision}}
}

// CreateGroup makes a group without members.
func (a *Accounts) CreateGroup(ctx context.Context, u User, f GroupForm) (Group, error) {
	now := a.now()
	g := Group{ID: NewID(), UserID: u.ID, Name: f.Name, Description: f.Description, Data: f.Data, Meta: f.Meta,
		Permissions: f.Permissions, CreatedAt: now, UpdatedAt: now}
	if g.Data == nil {
		g.Data = map[string]any{"config": map[string]any{"share": "members"}}
	}
	if _, err := a.table.Apply(ctx, table.Put(groupItem(g, 1), table.New())); err != nil {
		return Group{}, fmt.Errorf("store group: %w", err)
	}
	return g, nil
}

// Group reads a group. Unknown: fault.NotFound.
func (a *Accounts) Group(ctx context.Context, id string) (Group, error) {
	g, _, err := a.group(ctx, id)
	return g, err
}

func (a *Accounts) group(ctx context.Context, id string) (Group, table.Item, error) {
	missing := fault.New(fault.NotFound, textNoGroup)
	if !usable(id) {
		return Group{}, table.Item{}, missing
	}
	item, ok, err := table.One(ctx, a.table, table.Group(id))
	if err != nil {
		return Group{}, table.Item{}, fmt.Errorf("read group: %w", err)
	}
	if !ok || item.Has("deleting") {
		return Group{}, table.Item{}, missing
	}
	g, err := groupOf(item)
	return g, item, err
}

// UpdateGroup changes a group. Unknown: fault.NotFound.
func (a *Accounts) UpdateGroup(ctx context.Context, id string, f GroupForm) (Group, error) {
	for range attempts {
		g, item, err := a.group(ctx, id)
		if err != nil {
			return Group{}, err
		}
		g.Name, g.Description, g.UpdatedAt = f.Name, f.Description, a.now()
		if f.Permissions != nil {
			g.Permissions = f.Permissions
		}
		if f.Data != nil {
			g.Data = f.Data
		}
		if f.Meta != nil {
			g.Meta = f.Meta
		}
		_, err = a.table.Apply(ctx, table.Put(groupItem(g, item.Int("revision")+1), table.Is("revision", item.Int("revision")),
			table.No("deleting")))
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Group{}, fmt.Errorf("store group: %w", err)
		}
	}
	return Group{}, errBusy
}

// DeleteGroup removes a group and its memberships. Unknown: fault.NotFound. It may be called again when it was cut off: the group
// goes last, and while it goes nobody joins it.
func (a *Accounts) DeleteGroup(ctx context.Context, id string) error {
	if !usable(id) {
		return fault.New(fault.NotFound, textNoGroup)
	}
	_, err := a.table.Apply(ctx, table.Update(table.Group(id), table.Change{Set: map[string]any{"deleting": true}, Add: map[string]int64{"revision": 1}}))
	if errors.Is(err, table.ErrCondition) {
		return fault.New(fault.NotFound, textNoGroup)
	}
	if err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	members, err := a.Members(ctx, id)
	if err != nil {
		return err
	}
	if err := a.RemoveMembers(ctx, id, members); err != nil {
		return err
	}
	if _, err := a.table.Apply(ctx, table.Delete(table.Group(id))); err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	return nil
}

// AllGroups lists the groups by name. It may miss what changed a moment ago.
func (a *Accounts) AllGroups(ctx context.Context) ([]Group, error) {
	groups := []Group{}
	for item, err := range a.table.Query(ctx, table.Query{PK: table.IndexGroups, Index: true}) {
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		g, err := groupOf(item)
		if err != nil {
			return nil, err
		}
		if !item.Has("deleting") {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// Groups lists the ids of the groups that the user is in.
func (a *Accounts) Groups(ctx context.Context, userID string) ([]string, error) {
	return a.edges(ctx, table.User(userID).PK, table.MembershipPrefix)
}

// Members lists the ids of a group's members.
func (a *Accounts) Members(ctx context.Context, group string) ([]string, error) {
	return a.edges(ctx, table.Group(group).PK, table.MemberPrefix)
}

func (a *Accounts) edges(ctx context.Context, pk, prefix string) ([]string, error) {
	ids := []string{}
	for item, err := range a.table.Query(ctx, table.Query{PK: pk, Prefix: prefix}) {
		if err != nil {
			return nil, fmt.Errorf("read memberships: %w", err)
		}
		ids = append(ids, item.String("of"))
	}
	return ids, nil
}

// GroupsOf reads the groups that the user is in, by name.
func (a *Accounts) GroupsOf(ctx context.Context, userID string) ([]Group, error) {
	ids, err := a.Groups(ctx, userID)
	if err != nil || len(ids) == 0 {
		return []Group{}, err
	}
	keys := make([]table.Key, len(ids))
	for i, id := range ids {
		keys[i] = table.Group(id)
	}
	items, err := a.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	groups := []Group{}
	for _, item := range items {
		g, err := groupOf(item)
		if err != nil {
			return nil, err
		}
		if !item.Has("deleting") {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	return groups, nil
}

// AddMembers puts accounts into a group; unknown accounts are skipped, members stay. An unknown group is fault.NotFound.
func (a *Accounts) AddMembers(ctx context.Context, group string, users []string) (Group, error) {
	g, _, err := a.group(ctx, group)
	if err != nil {
		return Group{}, err
	}
	known, err := a.Users(ctx, users)
	if err != nil {
		return Group{}, err
	}
	for id := range known {
		// One transaction each: nobody ends up half in, in a group that goes, or back after being deleted.
		err := a.table.Transact(ctx,
			table.Check(table.Group(group), table.Must(), table.No("deleting")),
			table.Check(table.User(id), table.Must()),
			table.Put(table.Item{Key: table.Membership(id, group), Attr: map[string]any{"of": group}}),
			table.Put(table.Item{Key: table.Member(group, id), Attr: map[string]any{"of": id}}))
		switch {
		case table.FailedOn(err, table.Group(group)):
			return Group{}, fault.New(fault.NotFound, textNoGroup)
		case errors.Is(err, table.ErrCondition): // the account has just gone
		case err != nil:
			return Group{}, fmt.Errorf("add member: %w", err)
		}
	}
	return g, nil
}

// RemoveMembers takes accounts out of a group, whether they are in it or not.
func (a *Accounts) RemoveMembers(ctx context.Context, group string, users []string) error {
	for _, id := range users {
		if !usable(id) {
			continue
		}
		if err := a.table.Transact(ctx, table.Delete(table.Membership(id, group)), table.Delete(table.Member(group, id))); err != nil {
			return fmt.Errorf("remove member: %w", err)
		}
	}
	return nil
}

// Permissions are the default ones and those of the user's groups, any of which suffices.
func (a *Accounts) Permissions(ctx context.Context, u User) (Permissions, error) {
	s, err := a.Settings(ctx)
	if err != nil {
		return nil, err
	}
	return a.merged(ctx, u, s)
}

func (a *Accounts) merged(ctx context.Context, u User, s Settings) (Permissions, error) {
	groups, err := a.GroupsOf(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	p := s.Default.Clone()
	for _, g := range groups {
		for section, value := range g.Permissions {
			names, _ := value.(map[string]any)
			for name, on := range names {
				if on == true {
					if p[section] == nil {
						p[section] = map[string]bool{}
					}
					p[section][name] = true
				}
			}
		}
	}
	return p, nil
}
