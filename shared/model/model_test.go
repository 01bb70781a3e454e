package model

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/memory"
)

// provider serves what it holds and counts how often it is asked.
type provider struct {
	list  []map[string]any
	err   error
	asked int
}

func (p *provider) Models(context.Context) ([]map[string]any, error) {
	p.asked++
	return p.list, p.err
}

type groups map[string][]string

func (g groups) Groups(_ context.Context, user string) ([]string, error) { return g[user], nil }

var (
	admin  = access.User{ID: "a", Role: access.RoleAdmin}
	user   = access.User{ID: "u", Role: access.RoleUser}
	member = access.User{ID: "m", Role: access.RoleUser}
	all    = []access.Grant{{PrincipalType: "user", PrincipalID: "*", Permission: access.Read}}
)

type world struct {
	*Models
	provider *provider
	at       time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{provider: &provider{list: []map[string]any{{"id": "stub", "object": "model", "created": json.Number("17"), "owned_by": "stub"}, {"id": "hidden"}}},
		at: time.Unix(1_800_000_000, 0)}
	w.Models = New(&memory.Table{}, w.provider, groups{"m": {"g"}}, &Options{Task: "task", Now: func() time.Time { return w.at },
		Log: slog.New(slog.DiscardHandler)})
	return w
}

func (w *world) create(t *testing.T, f Form) Entry {
	t.Helper()
	if f.Name == "" {
		f.Name = f.ID
	}
	f.IsActive = true
	w.at = w.at.Add(time.Second) // entries are listed in the order they are made
	e, err := w.Create(t.Context(), admin, f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (w *world) ids(t *testing.T, u access.User) []string {
	t.Helper()
	list, err := w.List(t.Context(), u, false)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, m := range list {
		ids = append(ids, m["id"].(string))
	}
	return ids
}

func text(s string) *string { return &s }

func TestListAndResolve(t *testing.T) {
	w := newWorld(t)
	w.create(t, Form{ID: "stub", Name: "Stub", Grants: all, Params: map[string]any{"system": "S"}})
	w.create(t, Form{ID: "gone"}) // speaks of a model that is not served
	w.create(t, Form{ID: "own", BaseModelID: text("stub"), Grants: all, Params: map[string]any{"system": "secret"},
		Meta: map[string]any{"toolIds": []any{"x"}, "tags": []any{map[string]any{"name": "t"}, "odd"}, "profile_image_url": "data:"}})
	w.create(t, Form{ID: "baseless", BaseModelID: text("nothing"), Grants: all})
	w.create(t, Form{ID: "private", BaseModelID: text("hidden")})
	w.create(t, Form{ID: "grouped", BaseModelID: text("hidden"), Grants: []access.Grant{{PrincipalType: "group", PrincipalID: "g", Permission: access.Read}}})
	w.create(t, Form{ID: "off", BaseModelID: text("stub"), Grants: all})
	if _, err := w.Toggle(t.Context(), admin, "off"); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		user access.User
		want []string
	}{
		{admin, []string{"stub", "hidden", "own", "baseless", "private", "grouped"}},
		{user, []string{"stub", "own", "baseless"}},
		{member, []string{"stub", "own", "baseless", "grouped"}},
	} {
		if got := w.ids(t, c.user); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v", c.user.ID, got)
		}
	}

	for _, c := range []struct {
		user     access.User
		id       string
		upstream string // "": refused
	}{
		{user, "stub", "stub"}, {user, "own", "stub"}, {member, "grouped", "hidden"}, {admin, "hidden", "hidden"}, {admin, "private", "hidden"},
		{user, "hidden", ""}, {user, "private", ""}, {user, "grouped", ""}, {admin, "off", ""}, {admin, "baseless", ""}, {admin, "gone", ""},
		{admin, "unknown", ""}, {admin, "", ""}, {admin, string(make([]byte, 300)), ""},
	} {
		r, err := w.Resolve(t.Context(), c.user, c.id)
		if c.upstream == "" {
			if _, detail := fault.Status(err); fault.CodeOf(err) != fault.Invalid || detail != "Model not found" {
				t.Errorf("%s asks %q: %v", c.user.ID, c.id, err)
			}
		} else if err != nil || r.Upstream != c.upstream || r.ID != c.id || r.Listed["id"] != c.id || r.Params == nil || r.Meta == nil {
			t.Errorf("%s asks %q: %+v %v", c.user.ID, c.id, r, err)
		}
	}

	r, err := w.Resolve(t.Context(), user, "own")
	if err != nil || r.Params["system"] != "secret" || r.Owner != "a" || r.Meta["toolIds"] == nil {
		t.Fatalf("%+v %v", r, err)
	}
	info := r.Listed["info"].(map[string]any)
	meta := info["meta"].(map[string]any)
	if len(info["params"].(map[string]any)) != 0 || meta["toolIds"] == nil || r.Listed["preset"] != true || r.Listed["connection_type"] != "external" {
		t.Errorf("listed %v", r.Listed)
	}
	if _, has := meta["profile_image_url"]; has || len(r.Listed["tags"].([]any)) != 1 {
		t.Errorf("listed %v", r.Listed)
	}
	r, _ = w.Resolve(t.Context(), user, "stub")
	if r.Listed["name"] != "Stub" || r.Listed["created"] != json.Number("17") || r.Listed["owned_by"] != "openai" || r.Listed["preset"] != nil {
		t.Errorf("listed %v", r.Listed)
	}
	if upstream := r.Listed["openai"].(map[string]any); upstream["owned_by"] != "stub" || w.provider.list[0]["connection_type"] != nil {
		t.Errorf("upstream %v", upstream)
	}
	if w.Task(t.Context()) != "task" {
		t.Error("no task model")
	}
}

func TestProviderIsAskedSeldom(t *testing.T) {
	w := newWorld(t)
	ask := func(id string, code fault.Code) {
		t.Helper()
		if _, err := w.Resolve(t.Context(), admin, id); (code == "") != (err == nil) {
			t.Fatalf("%s: %v", id, err)
		}
	}
	expect := func(asked int) {
		t.Helper()
		if w.provider.asked != asked {
			t.Fatalf("asked %d times, want %d", w.provider.asked, asked)
		}
	}
	ask("stub", "")
	ask("stub", "")
	expect(1)
	w.at = w.at.Add(31 * time.Second)
	ask("stub", "")
	expect(2)
	w.provider.list = append(w.provider.list, map[string]any{"id": "new"})
	w.at = w.at.Add(2 * time.Second)
	ask("new", "") // a model that is not in the remembered list
	expect(3)
	for range 5 { // unknown ones do not make a storm
		ask("unknown", fault.Invalid)
	}
	expect(3)
	w.provider.err, w.at = errors.New("down"), w.at.Add(time.Hour)
	for range 5 {
		ask("new", "")
	}
	expect(4)
	if got := w.ids(t, admin); len(got) != 3 {
		t.Errorf("while it is down the last list stays: %v", got)
	}
	w.provider.err, w.at = nil, w.at.Add(2*time.Second)
	if _, err := w.List(t.Context(), admin, true); err != nil {
		t.Fatal(err)
	}
	expect(5)
}

func TestProviderThatHasNeverAnswered(t *testing.T) {
	w := newWorld(t)
	w.provider.err, w.provider.list = errors.New("down"), nil
	w.create(t, Form{ID: "own", BaseModelID: text("stub"), Grants: all})
	if r, err := w.Resolve(t.Context(), user, "own"); err != nil || r.Upstream != "stub" {
		t.Errorf("an entry is taken at its word: %+v %v", r, err)
	}
	if _, err := w.Resolve(t.Context(), admin, "stub"); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestEntries(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	e := w.create(t, Form{ID: "own", BaseModelID: text("stub"), Meta: map[string]any{"extra": json.Number("9007199254740993")}})
	if v, has := e.Meta["voice"]; v != nil || !has || e.Params == nil || e.Grants == nil {
		t.Errorf("got %+v", e)
	}
	for form, code := range map[*Form]fault.Code{{ID: "own"}: fault.Unauthorized, {ID: ""}: fault.Unprocessed, {ID: "a b"}: fault.Unprocessed,
		{ID: string(slices.Repeat([]byte("z"), 257))}: fault.Invalid} {
		if _, err := w.Create(ctx, admin, *form); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v", form, err)
		}
	}
	grants := []access.Grant{{PrincipalType: "user", PrincipalID: "u", Permission: access.Write}}
	if e, err := w.Grant(ctx, admin, "own", grants); err != nil || len(e.Grants) != 1 || e.Grants[0].ResourceID != "own" {
		t.Fatalf("%+v %v", e, err)
	}
	changed, err := w.Update(ctx, user, Form{ID: "own", Name: "Renamed", IsActive: true})
	if err != nil || changed.Name != "Renamed" || changed.VersionID == e.VersionID || len(changed.Grants) != 1 || changed.BaseModelID != nil {
		t.Errorf("%+v %v", changed, err)
	}
	read, err := w.Entry(ctx, "own")
	if err != nil || read.VersionID != changed.VersionID {
		t.Errorf("%+v %v", read, err)
	}
	for name, err := range map[string]error{
		"update": func() error { _, err := w.Update(ctx, member, Form{ID: "own"}); return err }(),
		"toggle": func() error { _, err := w.Toggle(ctx, member, "own"); return err }(),
		"grant":  func() error { _, err := w.Grant(ctx, member, "own", nil); return err }(),
		"delete": w.Delete(ctx, member, "own"),
	} {
		if fault.CodeOf(err) != fault.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Delete(ctx, user, "own"); err != nil {
		t.Error(err)
	}
	if err := w.Delete(ctx, admin, "own"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestSharedLeavesOutServedModels(t *testing.T) {
	w := newWorld(t)
	w.create(t, Form{ID: "stub", Grants: all})
	w.create(t, Form{ID: "own", BaseModelID: text("stub"), Grants: all})
	w.create(t, Form{ID: "private", BaseModelID: text("stub")})
	if got, err := w.Shared(t.Context(), user); err != nil || len(got) != 1 || got[0].ID != "own" {
		t.Errorf("%+v %v", got, err)
	}
}
