package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"toolrounds/shared/fault"
	"toolrounds/shared/memory"
	"toolrounds/shared/table"
)

type fixedKeys struct{}

func (fixedKeys) Signing(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// labelled "encrypts" by naming what the text is about.
type labelled struct{}

func (labelled) Seal(_ context.Context, plain []byte, about string) ([]byte, error) {
	return []byte(about + "\x00" + string(plain)), nil
}

func (labelled) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	return []byte(plain), nil
}

// counting counts the reads of a table.
type counting struct {
	*memory.Table
	gets atomic.Int64
}

func (c *counting) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	c.gets.Add(1)
	return c.Table.Get(ctx, keys...)
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

var start = time.Unix(1_800_000_000, 0)

func accounts(t *testing.T, tab table.Table, change func(*Options)) *Accounts {
	t.Helper()
	opts := &Options{FirstSignup: true, BcryptCost: bcrypt.MinCost, Now: func() time.Time { return start }, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(opts)
	}
	return New(tab, fixedKeys{}, labelled{}, opts)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantCode(t *testing.T, err error, code fault.Code, detail string) {
	t.Helper()
	_, got := fault.Status(err)
	if err == nil || fault.CodeOf(err) != code || detail != "" && got != detail {
		t.Fatalf("got %v, want %s %q", err, code, detail)
	}
}

// office is a table with an administrator and a plain user.
func office(t *testing.T, tab table.Table, change func(*Options)) (a *Accounts, admin, user User) {
	t.Helper()
	ctx := t.Context()
	a = accounts(t, tab, change)
	admin = must[User](t)(a.SignUp(ctx, "Admin", "admin@example.com", "secret"))
	user = must[User](t)(a.Add(ctx, "User", "User@Example.com", "secret", RoleUser))
	return a, admin, user
}

func TestAllows(t *testing.T) {
	user, admin := User{ID: "u", Role: RoleUser}, User{ID: "a", Role: RoleAdmin}
	grant := func(kind, id, permission string) []Grant {
		return []Grant{{PrincipalType: kind, PrincipalID: id, Permission: permission}}
	}
	for _, c := range []struct {
		name       string
		user       User
		owner      string
		grants     []Grant
		permission string
		want       bool
	}{
		{"nobody", User{}, "", grant("user", "*", Read), Read, false},
		{"owner", user, "u", nil, Write, true},
		{"administrator", admin, "u", nil, Write, true},
		{"no grant", user, "o", nil, Read, false},
		{"everybody reads", user, "o", grant("user", "*", Read), Read, true},
		{"everybody does not write", user, "o", grant("user", "*", Read), Write, false},
		{"the user", user, "o", grant("user", "u", Write), Write, true},
		{"write is not read", user, "o", grant("user", "u", Write), Read, false},
		{"another user", user, "o", grant("user", "x", Read), Read, false},
		{"own group", user, "o", grant("group", "g", Read), Read, true},
		{"another group", user, "o", grant("group", "x", Read), Read, false},
		{"no group is everybody", user, "o", grant("group", "*", Read), Read, false},
		{"a kind of principal that is none", user, "o", grant("role", "u", Read), Read, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Allows(c.user, []string{"g"}, c.owner, c.grants, c.permission); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestGrantsAreCleaned(t *testing.T) {
	present := []Grant{{ID: "kept", PrincipalType: "user", PrincipalID: "u", Permission: Read, CreatedAt: 1}}
	got := Grants("tool", "t", []Grant{
		{PrincipalType: "user", PrincipalID: "u", Permission: Read}, {PrincipalType: "user", PrincipalID: "u", Permission: Read},
		{PrincipalType: "role", PrincipalID: "u", Permission: Read}, {PrincipalType: "user", PrincipalID: "u", Permission: "own"},
		{PrincipalType: "user", Permission: Read}, {PrincipalType: "group", PrincipalID: "g", Permission: Write},
	}, present, 7)
	if len(got) != 2 || got[0].ID != "kept" || got[1].ResourceID != "t" || got[1].CreatedAt != 7 || got[1].ID == "" {
		t.Errorf("got %+v", got)
	}
}

func TestShareable(t *testing.T) {
	everybody, one := Grant{PrincipalType: "user", PrincipalID: "*"}, Grant{PrincipalType: "user", PrincipalID: "x"}
	p := DefaultPermissions()
	if allowed, all := Shareable(User{Role: RoleUser}, p, "tools", []Grant{everybody, one}); len(allowed) != 0 || all {
		t.Error("without permission nothing is shared")
	}
	p["sharing"]["tools"] = true
	if allowed, all := Shareable(User{Role: RoleUser}, p, "tools", []Grant{everybody, one}); len(allowed) != 1 || all {
		t.Errorf("sharing.tools is for single users: %v", allowed)
	}
	p["sharing"]["public_tools"] = true
	if _, all := Shareable(User{Role: RoleUser}, p, "tools", []Grant{everybody, one}); !all {
		t.Error("both permissions share both")
	}
	if _, all := Shareable(User{Role: RoleAdmin}, nil, "tools", []Grant{everybody}); !all {
		t.Error("administrators share everything")
	}
}

func TestCredential(t *testing.T) {
	a := accounts(t, &memory.Table{}, nil)
	for _, c := range []struct {
		authorization, cookie, key, token string
		found                             bool
	}{
		{"Bearer T", "C", "K", "T", true},
		{"bearer  T ", "", "", "T", true},
		{"Basic T", "", "", "T", true},
		{"T", "", "", "", false}, // no scheme
		{"T", "", "K", "K", true},
		{"Bearer", "", "K", "K", true},
		{"Bearer", "", "", "", true}, // a bad one
		{"Bearer a b", "", "", "a b", true},
		{"", "C", "K", "C", true},
		{"", "", "K", "K", true},
		{"", "", "", "", false},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set("Authorization", c.authorization)
		r.Header.Set("X-Api-Key", c.key)
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: "token", Value: c.cookie})
		}
		if got := a.Credential(r); got != (Credential{c.token, c.found}) {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}

func TestAccountTravelsAsJSON(t *testing.T) {
	u := User{ID: "i", Name: "<N>", Email: "e", Role: "user", Settings: map[string]any{"big": json.Number("9007199254740993")},
		Profile: map[string]any{"bio": "b"}, CreatedAt: 1, UpdatedAt: 2, LastActiveAt: 3, password: "hash", stamp: "stamp"}
	raw, err := json.Marshal(u)
	if err != nil || strings.Contains(string(raw), "hash") || strings.Contains(string(raw), `"stamp"`) {
		t.Fatalf("%s %v", raw, err)
	}
	var back User
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	u.password, u.stamp = "", ""
	if !reflect.DeepEqual(u, back) {
		t.Errorf("got %+v", back)
	}
	if _, has := u.Record()["username"]; !has {
		t.Error("unset fields are there as null")
	}
}

func TestKeys(t *testing.T) {
	ctx := t.Context()
	tab := &counting{Table: &memory.Table{}}
	a, _, user := office(t, tab, nil)
	other := accounts(t, tab, nil) // another process
	if _, err := a.Key(ctx, user.ID); fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("got %v", err)
	}
	first := must[string](t)(a.ReplaceKey(ctx, user))
	if got := must[string](t)(a.Key(ctx, user.ID)); got != first || len(first) != 35 || !strings.HasPrefix(first, "sk-") {
		t.Fatalf("got %q and %q", got, first)
	}
	check := func(a *Accounts, key string) error {
		c, err := a.Authenticate(ctx, Bearer(key), "GET", "/x")
		if err == nil && (!c.ByKey || c.User.ID != user.ID) {
			t.Fatalf("got %+v", c)
		}
		return err
	}
	for _, process := range []*Accounts{a, other} {
		if err := check(process, first); err != nil {
			t.Fatal(err)
		}
	}
	before := tab.gets.Load()
	if err := check(other, first); err != nil || tab.gets.Load() != before+1 {
		t.Errorf("a warm request made %d reads: %v", tab.gets.Load()-before, err)
	}
	second := must[string](t)(a.ReplaceKey(ctx, user))
	wantCode(t, check(other, first), fault.Unauthorized, textExpired)
	if err := check(other, second); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteKey(ctx, user.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, check(other, second), fault.Unauthorized, textExpired)
	third := must[string](t)(a.ReplaceKey(ctx, user))
	if err := check(other, third); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(ctx, user.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, check(other, third), fault.Unauthorized, textExpired)
	if _, err := a.ReplaceKey(ctx, user); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a deleted account got a key: %v", err)
	}
}

func TestKeysReplacedAtOnceLeaveOne(t *testing.T) {
	ctx := t.Context()
	a, _, user := office(t, &memory.Table{}, nil)
	var group sync.WaitGroup
	keys := make([]string, 4)
	for i := range keys {
		group.Go(func() { keys[i], _ = a.ReplaceKey(ctx, user) })
	}
	group.Wait()
	valid := 0
	for _, key := range keys {
		if _, err := a.Authenticate(ctx, Bearer(key), "GET", "/"); key != "" && err == nil {
			valid++
		}
	}
	if current := must[string](t)(a.Key(ctx, user.ID)); valid != 1 {
		t.Errorf("%d keys are valid; the account's is %s", valid, current)
	}
}

func TestWhereKeysAreRefused(t *testing.T) {
	ctx := t.Context()
	tab := &memory.Table{}
	a, admin, user := office(t, tab, nil)
	keys := map[string]string{"admin": must[string](t)(a.ReplaceKey(ctx, admin)), "user": must[string](t)(a.ReplaceKey(ctx, user))}
	try := func(who, path string) error {
		_, err := a.Authenticate(ctx, Bearer(keys[who]), "GET", path)
		return err
	}
	change := func(admin map[string]any, p Permissions) {
		t.Helper()
		if _, err := a.Change(ctx, admin, p); err != nil {
			t.Fatal(err)
		}
	}
	change(map[string]any{"ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS": true, "API_KEYS_ALLOWED_ENDPOINTS": "/api/v1/tools, /api/models/"}, nil)
	for path, ok := range map[string]bool{"/api/v1/tools": true, "/api/v1/tools/": true, "/api/v1/tools/id/x": true, "/api/models": true,
		"/api/v1/toolsx": false, "/api/v1": false, "/": false} {
		if err := try("admin", path); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	wantCode(t, try("admin", "/x"), fault.Forbidden, fault.TextProhibited)
	change(map[string]any{"ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS": false}, Permissions{"features": {"api_keys": false}})
	if err := try("admin", "/x"); err != nil {
		t.Error(err)
	}
	wantCode(t, try("user", "/x"), fault.Forbidden, textNoKeys)
	g := must[Group](t)(a.CreateGroup(ctx, admin, GroupForm{Name: "g", Permissions: map[string]any{"features": map[string]any{"api_keys": true}}}))
	must[Group](t)(a.AddMembers(ctx, g.ID, []string{user.ID}))
	if err := try("user", "/x"); err != nil {
		t.Errorf("a group's permission counts: %v", err)
	}
	change(map[string]any{"ENABLE_API_KEYS": false}, nil)
	for who := range keys {
		wantCode(t, try(who, "/x"), fault.Forbidden, textNoKeys)
	}
	if _, err := a.ReplaceKey(ctx, admin); fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("got %v", err)
	}
	s := must[Session](t)(a.Session(ctx, user))
	if _, err := a.Authenticate(ctx, Bearer(s.Token), "GET", "/x"); err != nil {
		t.Errorf("sessions go on working: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	ctx := t.Context()
	a, _, _ := office(t, &memory.Table{}, nil)
	for key, value := range map[string]any{"ENABLE_API_KEYS": "yes", "DEFAULT_USER_ROLE": "boss", "JWT_EXPIRES_IN": "soon", "API_KEYS_ALLOWED_ENDPOINTS": true} {
		if _, err := a.Change(ctx, map[string]any{key: value}, nil); fault.CodeOf(err) != fault.Unprocessed {
			t.Errorf("%s=%v: got %v", key, value, err)
		}
	}
	s := must[Settings](t)(a.Change(ctx, map[string]any{"NOT_A_SETTING": 1, "JWT_EXPIRES_IN": "1h30m"}, nil))
	if _, has := s.Admin["NOT_A_SETTING"]; has || s.session() != 90*time.Minute {
		t.Errorf("got %v", s)
	}
}

func TestOptions(t *testing.T) {
	env := map[string]string{"ENABLE_API_KEYS": "False", "USER_API_KEYS": "0", "FIRST_SIGNUP": "true", "CUSTOM_API_KEY_HEADER": "x-k"}
	if got := OptionsFrom(func(k string) string { return env[k] }); !got.DisableAPIKeys || !got.DenyUserAPIKeys || !got.FirstSignup || got.KeyHeader != "x-k" {
		t.Errorf("got %+v", got)
	}
	if got := OptionsFrom(func(string) string { return "" }); got.DisableAPIKeys || got.DenyUserAPIKeys || got.FirstSignup {
		t.Errorf("got %+v", got)
	}
}

func TestLasting(t *testing.T) {
	for text, want := range map[string]time.Duration{"4w": 672 * time.Hour, "1d": 24 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond, "-1": 0, "0": 0} {
		if got, ok := lasting(text); !ok || got != want {
			t.Errorf("%s: got %v %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "w", "4", "4y", "1h-2m", "0s"} {
		if got, ok := lasting(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestNewIDsDiffer(t *testing.T) {
	if a, b := NewID(), NewID(); a == b || len(a) != 36 || a[14] != '4' {
		t.Error(fmt.Sprint(a, b))
	}
}
