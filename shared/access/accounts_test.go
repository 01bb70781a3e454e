package access

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/bcrypt"

	"toolrounds/shared/fault"
	"toolrounds/shared/memory"
	"toolrounds/shared/table"
)

func TestFirstSignUp(t *testing.T) {
	ctx := t.Context()
	tab := &memory.Table{}
	var group sync.WaitGroup
	made := make([]User, 8)
	for i := range made {
		group.Go(func() {
			a := accounts(t, tab, nil) // each in a process of its own
			made[i], _ = a.SignUp(ctx, "N", string(rune('a'+i))+"@example.com", "secret")
		})
	}
	group.Wait()
	made = slices.DeleteFunc(made, func(u User) bool { return u.ID == "" })
	if len(made) != 1 || !made[0].Admin() {
		t.Fatalf("%d accounts: %+v", len(made), made)
	}
	a := accounts(t, tab, nil)
	_, err := a.SignUp(ctx, "N", "z@example.com", "secret")
	wantCode(t, err, fault.Forbidden, fault.TextProhibited)
	must[Settings](t)(a.Change(ctx, map[string]any{"ENABLE_SIGNUP": true, "DEFAULT_USER_ROLE": RoleAdmin}, nil))
	if u := must[User](t)(a.SignUp(ctx, "N", "z@example.com", "secret")); u.Role != RolePending {
		t.Errorf("a stranger became %s", u.Role)
	}
}

func TestFirstSignUpFailedByTheTableCanBeRepeated(t *testing.T) {
	ctx := t.Context()
	lost := errors.New("lost")
	tab := &memory.Table{Fault: func(n int, after bool, _ []table.Op) error {
		if n == 1 && !after {
			return lost
		}
		return nil
	}}
	a := accounts(t, tab, nil)
	if _, err := a.SignUp(ctx, "A", "a@example.com", "secret"); !errors.Is(err, lost) {
		t.Fatalf("got %v", err)
	}
	if u := must[User](t)(a.SignUp(ctx, "A", "a@example.com", "secret")); !u.Admin() {
		t.Errorf("got %+v", u)
	}
}

func TestSignUpIsClosedWhereItIsNotOpened(t *testing.T) {
	a := accounts(t, &memory.Table{}, func(o *Options) { o.FirstSignup = false })
	_, err := a.SignUp(t.Context(), "N", "a@example.com", "secret")
	wantCode(t, err, fault.Forbidden, "")
}

func TestCreateAdmin(t *testing.T) {
	ctx := t.Context()
	a := accounts(t, &memory.Table{}, func(o *Options) { o.FirstSignup = false; o.DisableAPIKeys = true })
	u, key, err := a.CreateAdmin(ctx, "Root@example.com", "Root", "secret")
	if err != nil || !u.Admin() || key == "" {
		t.Fatalf("%+v %q %v", u, key, err)
	}
	again, same, err := a.CreateAdmin(ctx, "root@example.com", "Other", "other")
	if err != nil || again.ID != u.ID || same != key || again.Name != "Root" {
		t.Errorf("%+v %q %v", again, same, err)
	}
	if _, err := a.SignIn(ctx, "root@example.com", "secret"); err != nil {
		t.Errorf("the password changed: %v", err)
	}
	must[User](t)(a.Add(ctx, "U", "u@example.com", "secret", RoleUser))
	_, _, err = a.CreateAdmin(ctx, "u@example.com", "U", "secret")
	wantCode(t, err, fault.Conflict, "")
	second, _, err := a.CreateAdmin(ctx, "second@example.com", "S", "secret")
	if err != nil || !second.Admin() {
		t.Errorf("%+v %v", second, err)
	}
	if first, _ := a.First(ctx); first != u.ID {
		t.Errorf("first is %s", first)
	}
}

func TestAccountsAreChecked(t *testing.T) {
	ctx := t.Context()
	a, _, _ := office(t, &memory.Table{}, nil)
	for _, c := range []struct {
		email, password, role string
		code                  fault.Code
		detail                string
	}{
		{"no address", "secret", RoleUser, fault.Invalid, textBadEmail},
		{"admin@EXAMPLE.com", "secret", RoleUser, fault.Invalid, textTaken},
		{"x@example.com", "", RoleUser, fault.Invalid, textNoPassword},
		{"x@example.com", string(make([]byte, 73)), RoleUser, fault.Invalid, textLong},
		{"x@example.com", "secret", "boss", fault.Unprocessed, textBadRequest},
	} {
		_, err := a.Add(ctx, "X", c.email, c.password, c.role)
		wantCode(t, err, c.code, c.detail)
	}
	if u := must[User](t)(a.Add(ctx, "X", "x@example.com", "secret", "")); u.Role != RolePending || u.Active() {
		t.Errorf("got %+v", u)
	}
}

func TestSignIn(t *testing.T) {
	ctx := t.Context()
	a, _, user := office(t, &memory.Table{}, nil)
	if u := must[User](t)(a.SignIn(ctx, "USER@example.com", "secret")); u.ID != user.ID || u.LastActiveAt != start.Unix() {
		t.Errorf("got %+v", u)
	}
	for email, password := range map[string]string{"user@example.com": "wrong", "nobody@example.com": "secret", "": ""} {
		_, err := a.SignIn(ctx, email, password)
		wantCode(t, err, fault.Invalid, textBadSignin)
	}
}

func TestSessions(t *testing.T) {
	ctx := t.Context()
	tab := &counting{Table: &memory.Table{}}
	c := &clock{start}
	a, _, user := office(t, tab, func(o *Options) { o.Now = c.now })
	s := must[Session](t)(a.Session(ctx, user))
	if s.ExpiresAt != start.Add(28*24*time.Hour).Unix() {
		t.Errorf("ends at %d", s.ExpiresAt)
	}
	try := func(token string) (Caller, error) { return a.Authenticate(ctx, Bearer(token), "GET", "/") }
	before := tab.gets.Load()
	if got := must[Caller](t)(try(s.Token)); got.User.ID != user.ID || got.ByKey || got.Token != s.Token || tab.gets.Load() != before+1 {
		t.Errorf("%+v with %d reads", got, tab.gets.Load()-before)
	}
	_, err := a.Authenticate(ctx, Credential{}, "GET", "/")
	wantCode(t, err, fault.Unauthorized, TextNotAuthenticated)
	sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		return must[string](t)(jwt.NewWithClaims(method, c).SignedString(key))
	}
	good, _ := fixedKeys{}.Signing(ctx)
	for name, token := range map[string]string{
		"garbage":       "not-a-token",
		"another key":   sign(jwt.SigningMethodHS256, []byte("x"), jwt.MapClaims{"id": user.ID, "typ": "session", "session_stamp": user.stamp}),
		"unsigned":      sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"id": user.ID, "typ": "session"}),
		"another kind":  sign(jwt.SigningMethodHS256, good, jwt.MapClaims{"id": user.ID, "typ": "broker", "session_stamp": user.stamp}),
		"no account":    sign(jwt.SigningMethodHS256, good, jwt.MapClaims{"typ": "session"}),
		"another stamp": sign(jwt.SigningMethodHS256, good, jwt.MapClaims{"id": user.ID, "typ": "session", "session_stamp": "old"}),
	} {
		if _, err := try(token); fault.CodeOf(err) != fault.Unauthorized {
			t.Errorf("%s: got %v", name, err)
		}
	}
	role := RolePending
	must[User](t)(a.Update(ctx, user.ID, Edit{Role: &role}))
	if _, err := try(s.Token); fault.CodeOf(err) != fault.Unauthorized {
		t.Errorf("another role ends sessions: %v", err)
	}
	user = must[User](t)(a.User(ctx, user.ID))
	s = must[Session](t)(a.Session(ctx, user))
	c.at = c.at.Add(28*24*time.Hour + time.Second)
	if _, err := try(s.Token); fault.CodeOf(err) != fault.Unauthorized {
		t.Errorf("an ended session: %v", err)
	}
	s = must[Session](t)(a.Session(ctx, user))
	wantCode(t, a.ChangePassword(ctx, user, "wrong", "new"), fault.Invalid, textBadPassword)
	if err := a.ChangePassword(ctx, user, "secret", "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := try(s.Token); fault.CodeOf(err) != fault.Unauthorized {
		t.Errorf("a new password ends sessions: %v", err)
	}
	must[User](t)(a.SignIn(ctx, "user@example.com", "new"))
}

func TestUpdateAndDelete(t *testing.T) {
	ctx := t.Context()
	tab := &memory.Table{}
	a, admin, user := office(t, tab, nil)
	text := func(s string) *string { return &s }
	u := must[User](t)(a.Update(ctx, user.ID, Edit{Email: text("New@example.com"), Name: text("N"), Settings: map[string]any{"ui": true},
		Profile: map[string]any{"bio": "b", "unknown": 1}}))
	if u.Email != "new@example.com" || u.Profile["bio"] != "b" || u.Profile["unknown"] != nil {
		t.Errorf("got %+v", u)
	}
	if _, err := a.SignIn(ctx, "user@example.com", "secret"); err == nil {
		t.Error("the old address still signs in")
	}
	must[User](t)(a.SignIn(ctx, "new@example.com", "secret"))
	must[User](t)(a.Add(ctx, "O", "user@example.com", "secret", RoleUser)) // it is free again
	_, err := a.Update(ctx, user.ID, Edit{Email: text("admin@example.com")})
	wantCode(t, err, fault.Invalid, textTaken)
	_, err = a.Update(ctx, user.ID, Edit{Role: text("boss")})
	wantCode(t, err, fault.Unprocessed, "")
	_, err = a.Update(ctx, admin.ID, Edit{Role: text(RoleUser)})
	wantCode(t, err, fault.Forbidden, textGuarded)
	wantCode(t, a.Delete(ctx, admin.ID), fault.Forbidden, textGuarded)
	_, err = a.Update(ctx, "nobody", Edit{})
	wantCode(t, err, fault.NotFound, "")

	g := must[Group](t)(a.CreateGroup(ctx, admin, GroupForm{Name: "g"}))
	must[Group](t)(a.AddMembers(ctx, g.ID, []string{user.ID}))
	for range 2 {
		if err := a.Delete(ctx, user.ID); err != nil {
			t.Fatal(err)
		}
	}
	if members, _ := a.Members(ctx, g.ID); len(members) != 0 {
		t.Errorf("members %v", members)
	}
	if all := must[[]User](t)(a.List(ctx)); len(all) != 2 {
		t.Errorf("listed %v", all)
	}
}

func TestConcurrentUpdatesAllCount(t *testing.T) {
	ctx := t.Context()
	a, _, user := office(t, &memory.Table{}, nil)
	var group sync.WaitGroup
	for _, field := range []string{"bio", "gender", "timezone", "username"} {
		group.Go(func() {
			if _, err := a.Update(ctx, user.ID, Edit{Profile: map[string]any{field: field}}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if u := must[User](t)(a.User(ctx, user.ID)); len(u.Profile) != 4 {
		t.Errorf("got %v", u.Profile)
	}
}

func TestGroups(t *testing.T) {
	ctx := t.Context()
	tab := &memory.Table{}
	a, admin, user := office(t, tab, nil)
	tools := map[string]any{"workspace": map[string]any{"tools": true, "models": false}, "new": map[string]any{"thing": true}, "odd": "x"}
	g := must[Group](t)(a.CreateGroup(ctx, admin, GroupForm{Name: "g", Permissions: tools}))
	must[Group](t)(a.AddMembers(ctx, g.ID, []string{user.ID, user.ID, "nobody", ""}))
	if ids := must[[]string](t)(a.Groups(ctx, user.ID)); !slices.Equal(ids, []string{g.ID}) {
		t.Errorf("got %v", ids)
	}
	if members := must[[]string](t)(a.Members(ctx, g.ID)); !slices.Equal(members, []string{user.ID}) {
		t.Errorf("got %v", members)
	}
	p := must[Permissions](t)(a.Permissions(ctx, user))
	if !p.Has("workspace.tools") || p.Has("workspace.models") || !p.Has("new.thing") || !p.Has("chat.delete") || p.Has("no.such") || p.Has("") {
		t.Errorf("got %v", p)
	}
	if must[Permissions](t)(a.Permissions(ctx, admin)).Has("workspace.tools") {
		t.Error("permissions of a group are its members'")
	}
	if g = must[Group](t)(a.UpdateGroup(ctx, g.ID, GroupForm{Name: "h"})); g.Name != "h" || g.Permissions == nil {
		t.Errorf("got %+v", g)
	}
	if err := a.RemoveMembers(ctx, g.ID, []string{user.ID, "nobody"}); err != nil {
		t.Fatal(err)
	}
	if must[Permissions](t)(a.Permissions(ctx, user)).Has("workspace.tools") {
		t.Error("who left has no more permission")
	}
	must[Group](t)(a.AddMembers(ctx, g.ID, []string{user.ID}))

	// A deletion that is cut off ends what the group permits, lets nobody in, and can be repeated.
	cut := errors.New("cut off")
	tab.Fault = func(_ int, after bool, ops []table.Op) error {
		if !after && ops[0].Kind == table.KindDelete {
			return cut
		}
		return nil
	}
	if err := a.DeleteGroup(ctx, g.ID); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	if must[Permissions](t)(a.Permissions(ctx, user)).Has("workspace.tools") || len(must[[]Group](t)(a.AllGroups(ctx))) != 0 {
		t.Error("a group that goes still counts")
	}
	_, err := a.AddMembers(ctx, g.ID, []string{admin.ID})
	wantCode(t, err, fault.NotFound, textNoGroup)
	tab.Fault = nil
	if err := a.DeleteGroup(ctx, g.ID); err != nil {
		t.Fatal(err)
	}
	if ids := must[[]string](t)(a.Groups(ctx, user.ID)); len(ids) != 0 {
		t.Errorf("got %v", ids)
	}
	wantCode(t, a.DeleteGroup(ctx, g.ID), fault.NotFound, textNoGroup)
	for _, err := range []error{
		func() error { _, err := a.Group(ctx, g.ID); return err }(),
		func() error { _, err := a.UpdateGroup(ctx, "", GroupForm{}); return err }(),
	} {
		wantCode(t, err, fault.NotFound, textNoGroup)
	}
}

func TestOddIDs(t *testing.T) {
	ctx := context.Background()
	a, _, user := office(t, &memory.Table{}, nil)
	long := string(make([]byte, table.MaxID+1))
	for _, id := range []string{"", long, "a#b", "%23", user.ID + "#KEY", "../x", "\x00"} {
		if _, err := a.User(ctx, id); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%q: got %v", id, err)
		}
		if users, err := a.Users(ctx, []string{id, user.ID, user.ID}); err != nil || len(users) != 1 {
			t.Errorf("%q: got %v %v", id, users, err)
		}
	}
}

func TestNobodysPasswordIsComparedInEarnest(t *testing.T) {
	if err := bcrypt.CompareHashAndPassword([]byte(nobody), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("got %v", err)
	}
}
