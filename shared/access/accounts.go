package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// The texts of refusals about accounts, word for word as clients know them.
const (
	textTaken    = "Uh-oh! This email is already registered. Sign in with your existing account or choose another email to start anew."
	textBadEmail = "The email format you entered is invalid. Please double-check and make sure you're using a valid email address (e.g., yourname@example.com)."
	textGuarded  = "The requested action has been restricted as a security measure."
)

// firstName is the record that names the first administrator. Its existence closes the first sign-up, and its account can be neither
// deleted nor demoted, so that there is always somebody who can let others in.
const firstName = "first"

// User reads an account. An unknown id is fault.NotFound.
func (a *Accounts) User(ctx context.Context, id string) (User, error) {
	if !usable(id) {
		return User{}, fault.New(fault.NotFound, fault.TextNotFound)
	}
	item, ok, err := table.One(ctx, a.table, table.User(id))
	if err != nil {
		return User{}, fmt.Errorf("read account: %w", err)
	}
	if !ok {
		return User{}, fault.New(fault.NotFound, fault.TextNotFound)
	}
	return userOf(item)
}

// Users reads several accounts in one go, by id; unknown ids are absent.
func (a *Accounts) Users(ctx context.Context, ids []string) (map[string]User, error) {
	users := make(map[string]User, len(ids))
	var keys []table.Key
	for _, id := range ids {
		if _, twice := users[id]; !twice && usable(id) {
			users[id] = User{}
			keys = append(keys, table.User(id))
		}
	}
	clear(users)
	if len(keys) == 0 {
		return users, nil
	}
	items, err := a.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	for _, item := range items {
		u, err := userOf(item)
		if err != nil {
			return nil, err
		}
		users[u.ID] = u
	}
	return users, nil
}

// List reads all accounts, by e-mail address. It may miss what changed a moment ago.
func (a *Accounts) List(ctx context.Context) ([]User, error) {
	users := []User{}
	for item, err := range a.table.Query(ctx, table.Query{PK: table.IndexUsers, Index: true}) {
		if err != nil {
			return nil, fmt.Errorf("list accounts: %w", err)
		}
		u, err := userOf(item)
		if err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	return users, nil
}

// First returns the id of the first administrator, "" while there is none.
func (a *Accounts) First(ctx context.Context) (string, error) {
	item, _, err := table.One(ctx, a.table, table.Config(firstName))
	if err != nil {
		return "", fmt.Errorf("read first administrator: %w", err)
	}
	return item.String("user"), nil
}

// SignupOpen tells whether somebody may sign up now, and whether that would be the first administrator.
func (a *Accounts) SignupOpen(ctx context.Context) (open, first bool, err error) {
	items, err := a.table.Get(ctx, table.Config(firstName), table.Config(configName))
	if err != nil {
		return false, false, fmt.Errorf("read settings: %w", err)
	}
	item, ok := items[table.Config(configName)]
	s, err := a.settingsOf(item, ok)
	if err != nil {
		return false, false, err
	}
	_, done := items[table.Config(firstName)]
	first = a.opts.FirstSignup && !done
	return first || done && s.Signup(), first, nil
}

// SignUp makes an account for somebody who asks for one. The first one becomes the administrator and closes sign-up: of several at
// once exactly one does. Later ones need sign-up to be open and get the default role. Closed is fault.Forbidden; a bad or taken
// address or password is fault.Invalid.
func (a *Accounts) SignUp(ctx context.Context, name, email, password string) (User, error) {
	for range 2 {
		open, first, err := a.SignupOpen(ctx)
		if err != nil {
			return User{}, err
		}
		if !open {
			return User{}, fault.New(fault.Forbidden, fault.TextProhibited)
		}
		if first {
			u, err := a.create(ctx, name, email, password, RoleAdmin, table.Put(firstItem, table.New()))
			if table.FailedOn(err, firstItem.Key) {
				continue // somebody else was first
			}
			return u, err
		}
		s, err := a.Settings(ctx)
		if err != nil {
			return User{}, err
		}
		role := s.text("DEFAULT_USER_ROLE")
		if role == RoleAdmin {
			role = RolePending // a stranger never becomes an administrator by a setting
		}
		u, err := a.create(ctx, name, email, password, role)
		if err != nil {
			return User{}, err
		}
		if group := s.text("DEFAULT_GROUP_ID"); group != "" {
			if _, err := a.AddMembers(ctx, group, []string{u.ID}); err != nil && fault.CodeOf(err) != fault.NotFound {
				return User{}, err
			}
		}
		return u, nil
	}
	return User{}, fault.New(fault.Forbidden, fault.TextProhibited)
}

// firstItem is put with the first administrator; create fills in who it is.
var firstItem = table.Item{Key: table.Config(firstName)}

// Add makes an account on an administrator's word. An empty role is pending. Bad or taken addresses and passwords are fault.Invalid.
func (a *Accounts) Add(ctx context.Context, name, email, password, role string) (User, error) {
	if role == "" {
		role = RolePending
	}
	if !validRole(role) {
		return User{}, fault.New(fault.Unprocessed, textBadRequest)
	}
	return a.create(ctx, name, email, password, role)
}

// CreateAdmin makes sure that there is an administrator with this address and returns the account with its API key, for an installation
// whose sign-up is closed. Called again for an address that is an administrator's it changes nothing, the password included. An
// address that belongs to anybody else is fault.Conflict.
func (a *Accounts) CreateAdmin(ctx context.Context, email, name, password string) (User, string, error) {
	u, ok, err := a.byEmail(ctx, email)
	if err != nil {
		return User{}, "", err
	}
	if !ok {
		first, err := a.First(ctx)
		if err != nil {
			return User{}, "", err
		}
		var more []table.Op
		if first == "" {
			more = append(more, table.Put(firstItem, table.New()))
		}
		if u, err = a.create(ctx, name, email, password, RoleAdmin, more...); err != nil {
			return User{}, "", err
		}
	}
	if !u.Admin() {
		return User{}, "", fault.New(fault.Conflict, textTaken)
	}
	key, err := a.Key(ctx, u.ID)
	if fault.CodeOf(err) == fault.NotFound {
		key, err = a.replaceKey(ctx, u.ID)
	}
	return u, key, err
}

var emailForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)

// create stores a new account and reserves its address in one transaction with more. A Put of firstItem gets the account's id.
func (a *Accounts) create(ctx context.Context, name, email, password, role string, more ...table.Op) (User, error) {
	email = strings.ToLower(email)
	if !emailForm.MatchString(email) || len(email) > table.MaxID {
		return User{}, fault.New(fault.Invalid, textBadEmail)
	}
	hash, err := a.hash(password)
	if err != nil {
		return User{}, err
	}
	now := a.now()
	u := User{ID: NewID(), Name: name, Email: email, Role: role, ProfileImageURL: DefaultImage, CreatedAt: now, UpdatedAt: now,
		LastActiveAt: now, stamp: NewID(), password: hash, revision: 1}
	ops := []table.Op{
		table.Put(u.item(), table.New()),
		table.Put(table.Item{Key: table.Email(email), Attr: map[string]any{"user": u.ID}}, table.New()),
	}
	for _, op := range more {
		if op.Key == firstItem.Key {
			op.Item.Attr = map[string]any{"user": u.ID, "at": now}
		}
		ops = append(ops, op)
	}
	err = a.table.Transact(ctx, ops...)
	switch {
	case table.FailedOn(err, firstItem.Key):
		return User{}, err
	case table.FailedOn(err, table.Email(email)):
		return User{}, fault.New(fault.Invalid, textTaken)
	case err != nil:
		return User{}, fmt.Errorf("store account: %w", err)
	}
	return u, nil
}

// byEmail finds an account by its address.
func (a *Accounts) byEmail(ctx context.Context, email string) (User, bool, error) {
	email = strings.ToLower(email)
	if !usable(email) {
		return User{}, false, nil
	}
	item, ok, err := table.One(ctx, a.table, table.Email(email))
	if err != nil {
		return User{}, false, fmt.Errorf("find account: %w", err)
	}
	if !ok {
		return User{}, false, nil
	}
	u, err := a.User(ctx, item.String("user"))
	if fault.CodeOf(err) == fault.NotFound {
		return User{}, false, nil
	}
	return u, err == nil, err
}

// Edit is what changes of an account; nil: nothing.
type Edit struct {
	Name, Email, Role, Image, Password *string
	Settings                           map[string]any // replaces all of them
	Profile                            map[string]any // the fields named in it; null clears one
}

// Update changes an account and returns it. Another role or password ends its sessions. Unknown ids are fault.NotFound, a taken or
// bad address fault.Invalid, demoting the first administrator fault.Forbidden.
func (a *Accounts) Update(ctx context.Context, id string, e Edit) (User, error) {
	for range attempts {
		old, err := a.User(ctx, id)
		if err != nil {
			return User{}, err
		}
		u, ops, err := a.edited(ctx, old, e)
		if err != nil {
			return User{}, err
		}
		u.revision, u.UpdatedAt = old.revision+1, a.now()
		ops = append(ops, table.Put(u.item(), table.Is("revision", old.revision)))
		err = a.table.Transact(ctx, ops...)
		switch {
		case err == nil:
			return u, nil
		case table.FailedOn(err, table.Email(u.Email)) && u.Email != old.Email:
			return User{}, fault.New(fault.Invalid, textTaken)
		case !errors.Is(err, table.ErrCondition):
			return User{}, fmt.Errorf("store account: %w", err)
		}
	}
	return User{}, errBusy
}

func (a *Accounts) edited(ctx context.Context, u User, e Edit) (User, []table.Op, error) {
	var ops []table.Op
	if e.Name != nil {
		u.Name = *e.Name
	}
	if e.Image != nil {
		u.ProfileImageURL = *e.Image
	}
	if e.Role != nil && *e.Role != u.Role {
		if !validRole(*e.Role) {
			return u, nil, fault.Fields(fault.Field{Type: "value_error", Loc: []any{"body", "role"},
				Msg: "Input should be 'admin', 'user' or 'pending'", Input: *e.Role})
		}
		first, err := a.First(ctx)
		if err != nil {
			return u, nil, err
		}
		if first == u.ID {
			return u, nil, fault.New(fault.Forbidden, textGuarded)
		}
		u.Role, u.stamp = *e.Role, NewID()
	}
	if e.Password != nil {
		hash, err := a.hash(*e.Password)
		if err != nil {
			return u, nil, err
		}
		u.password, u.stamp = hash, NewID()
	}
	if e.Email != nil && strings.ToLower(*e.Email) != u.Email {
		email := strings.ToLower(*e.Email)
		if !emailForm.MatchString(email) || len(email) > table.MaxID {
			return u, nil, fault.New(fault.Invalid, textBadEmail)
		}
		ops = append(ops, table.Delete(table.Email(u.Email)),
			table.Put(table.Item{Key: table.Email(email), Attr: map[string]any{"user": u.ID}}, table.New()))
		u.Email = email
	}
	if e.Settings != nil {
		u.Settings = maps.Clone(e.Settings)
	}
	for _, k := range optional {
		if v, given := e.Profile[k]; given {
			u.set(k, v)
		}
	}
	return u, ops, nil
}

// Delete removes an account with its address, key and memberships. It may be called again for one that is gone. The first
// administrator is fault.Forbidden. What the account owns stays.
func (a *Accounts) Delete(ctx context.Context, id string) error {
	for range attempts {
		u, err := a.User(ctx, id)
		if fault.CodeOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		first, err := a.First(ctx)
		if err != nil {
			return err
		}
		if first == id {
			return fault.New(fault.Forbidden, textGuarded)
		}
		groups, err := a.Groups(ctx, id)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if err := a.RemoveMembers(ctx, g, []string{id}); err != nil {
				return err
			}
		}
		key, _, err := table.One(ctx, a.table, table.UserKey(id))
		if err != nil {
			return fmt.Errorf("read key: %w", err)
		}
		ops := []table.Op{table.Delete(table.User(id), table.Is("revision", u.revision)), table.Delete(table.Email(u.Email)),
			table.Delete(table.UserKey(id), keyCond(key))}
		if hash := key.String("hash"); hash != "" {
			ops = append(ops, table.Delete(table.APIKey(hash)))
		}
		err = a.table.Transact(ctx, ops...)
		if err == nil {
			return nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return fmt.Errorf("delete account: %w", err)
		}
	}
	return errBusy
}

// usable tells whether a text from outside can be part of a key at all.
func usable(id string) bool { return id != "" && len(id) <= table.MaxID }
