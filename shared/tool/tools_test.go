package tool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/memory"
	"toolrounds/shared/table"
)

// container understands sources of words: "broken" does not load, "valves" and "uservalves" are classes, "def NAME" a function.
// Valves are the keys that do not begin with "x"; a value "bad" is refused.
type container struct{ down bool }

func (c *container) Describe(_ context.Context, id, source string) (d Description, err error) {
	if c.down {
		return d, errors.New("no answer")
	}
	if strings.Contains(source, "broken") {
		return d, &ContainerError{Kind: "syntax", Message: "broken (<string>, line 1)"}
	}
	words := strings.Fields(source)
	for i, w := range words {
		if w == "def" {
			d.Specs = append(d.Specs, Spec{Name: words[i+1], Parameters: json.RawMessage(`{"type":"object"}`)})
		}
	}
	d.Offered = slices.Clone(d.Specs)
	d.Manifest = map[string]string{"title": id}
	d.HasValves, d.HasUserValves = slices.Contains(words, "valves"), slices.Contains(words, "uservalves")
	return d, nil
}

func (c *container) ValvesSpec(context.Context, string, string, ValvesKind) (json.RawMessage, error) {
	return json.RawMessage(`{"title":"V"}`), nil
}

func (c *container) CheckValves(_ context.Context, _, source string, kind ValvesKind, values json.RawMessage) (json.RawMessage, error) {
	var v map[string]any
	if err := json.Unmarshal(values, &v); err != nil {
		return nil, err
	}
	for k, value := range v {
		if value == "bad" || strings.Contains(source, "strict") {
			return nil, &ContainerError{Kind: "valves", Message: k + " is bad"}
		}
		if value == nil || strings.HasPrefix(k, "x") {
			delete(v, k)
		}
	}
	return json.Marshal(v)
}

// sealer binds what it seals to what it is about, and hides it.
type sealer struct{}

func (sealer) Seal(_ context.Context, plain []byte, about string) ([]byte, error) {
	sealed := []byte(about + "\x00" + string(plain))
	for i := range sealed {
		sealed[i] ^= 0x55
	}
	return sealed, nil
}

func (sealer) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	open := slices.Clone(sealed)
	for i := range open {
		open[i] ^= 0x55
	}
	plain, ok := strings.CutPrefix(string(open), about+"\x00")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	return []byte(plain), nil
}

type groupsOf map[string][]string

func (g groupsOf) Groups(_ context.Context, user string) ([]string, error) { return g[user], nil }

var (
	admin  = access.User{ID: "a", Role: access.RoleAdmin}
	user   = access.User{ID: "u", Role: access.RoleUser}
	member = access.User{ID: "m", Role: access.RoleUser}
	public = []access.Grant{{PrincipalType: "user", PrincipalID: "*", Permission: access.Read}}
)

type shop struct {
	*Tools
	tab       *memory.Table
	container *container
	at        time.Time
}

func newShop() *shop {
	s := &shop{tab: &memory.Table{}, container: &container{}, at: time.Unix(1_800_000_000, 0)}
	s.Tools = New(s.tab, s.container, sealer{}, groupsOf{"m": {"g"}}, &Options{Now: func() time.Time { return s.at }})
	return s
}

func (s *shop) make(t *testing.T, id, source string, grants []access.Grant) Toolkit {
	t.Helper()
	s.at = s.at.Add(time.Second)
	k, err := s.Create(t.Context(), admin, Form{ID: id, Name: "Name of " + id, Source: source, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ids(kits []Toolkit) string {
	var all []string
	for _, k := range kits {
		all = append(all, k.ID)
	}
	return strings.Join(all, " ")
}

func TestIdentifier(t *testing.T) {
	for id, want := range map[string]bool{"a": true, "_": true, "a1_b": true, "Größe": true, "学": true, "": false, "1a": false, "a-b": false,
		"a b": false, "a.b": false, "a#b": false, "server:x": false, "a\n": false} {
		if identifier(id) != want {
			t.Errorf("%q", id)
		}
	}
}

func TestCreate(t *testing.T) {
	s, ctx := newShop(), t.Context()
	k, err := s.Create(ctx, user, Form{ID: "Mixed", Name: "N", Source: "def f", Meta: map[string]any{"manifest": "forged", "extra": 1}, Grants: public})
	if err != nil || k.ID != "mixed" || k.UserID != "u" || len(k.Specs) != 1 || len(k.Grants) != 1 || k.Grants[0].ResourceID != "mixed" {
		t.Fatalf("%+v %v", k, err)
	}
	if m, _ := k.Meta["manifest"].(map[string]any); m["title"] != "mixed" || k.Meta["extra"] != 1 || k.Meta["has_user_valves"] != false {
		t.Errorf("meta %v", k.Meta)
	}
	for _, c := range []struct {
		form Form
		text string
	}{
		{Form{ID: "MIXED", Source: "def f"}, textTaken}, {Form{ID: "a-b", Source: "def f"}, textBadID}, {Form{ID: "", Source: "def f"}, textBadID},
		{Form{ID: strings.Repeat("a", 257), Source: "def f"}, textBadID}, {Form{ID: "new", Source: "broken"}, textNotMade + " broken (<string>, line 1)"},
	} {
		_, err := s.Create(ctx, user, c.form)
		if _, detail := fault.Status(err); fault.CodeOf(err) != fault.Invalid || detail != c.text {
			t.Errorf("%+v: %v", c.form, err)
		}
	}
	s.container.down = true
	if _, err := s.Create(ctx, user, Form{ID: "new", Source: "def f"}); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a container that is down is not the author's fault: %v", err)
	}
	if _, err := s.Toolkit(ctx, "new"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("something was stored: %v", err)
	}
}

func TestReadable(t *testing.T) {
	s, ctx := newShop(), t.Context()
	s.make(t, "one", "def f", public)
	s.make(t, "two", "def f", nil)
	s.make(t, "three", "def f", []access.Grant{{PrincipalType: "group", PrincipalID: "g", Permission: access.Read}})
	s.make(t, "four", "def f", []access.Grant{{PrincipalType: "user", PrincipalID: "u", Permission: access.Write}})
	asked := []string{"three", "none", "one", "three", "server:mcp:x", "", "two", strings.Repeat("x", 999), "four", "one#SRC"}
	for _, c := range []struct {
		user access.User
		want string
	}{{admin, "three one two four"}, {user, "one"}, {member, "three one"}} {
		got, err := s.Readable(ctx, c.user, asked)
		if err != nil || ids(got) != c.want {
			t.Errorf("%s: %q %v", c.user.ID, ids(got), err)
		}
	}
	if got, err := s.Readable(ctx, user, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	if got, _ := s.List(ctx, admin, ""); ids(got) != "four three two one" {
		t.Errorf("listed %q", ids(got))
	}
	if got, _ := s.List(ctx, admin, "OF THR"); ids(got) != "three" {
		t.Errorf("listed %q", ids(got))
	}
}

func TestLoad(t *testing.T) {
	s, ctx := newShop(), t.Context()
	k := s.make(t, "kit", "valves uservalves def f", public)
	l, err := s.Load(ctx, user, "kit")
	if err != nil || l.Source != "valves uservalves def f" || string(l.Valves) != "{}" || string(l.UserValves) != "{}" || l.Version != k.Version {
		t.Fatalf("%+v %v", l, err)
	}
	set := func(u access.User, kind ValvesKind, values string) {
		t.Helper()
		if _, err := s.SetValues(ctx, u, "kit", kind, json.RawMessage(values)); err != nil {
			t.Fatal(err)
		}
	}
	set(admin, Valves, `{"key":"K"}`)
	set(user, UserValves, `{"units":"u"}`)
	set(member, UserValves, `{"units":"m"}`)
	if l, err = s.Load(ctx, user, "kit"); err != nil || string(l.Valves) != `{"key":"K"}` || string(l.UserValves) != `{"units":"u"}` {
		t.Errorf("%s %s %v", l.Valves, l.UserValves, err)
	}
	for item := range s.tab.Query(ctx, table.Query{PK: table.Tool("kit").PK}) {
		if sealed, _ := item.Attr["sealed"].(table.Blob); strings.Contains(string(sealed), "key") || strings.Contains(string(sealed), "units") {
			t.Errorf("stored in the clear: %s", sealed)
		}
	}
	updated, err := s.Update(ctx, admin, "kit", Form{Name: "N", Source: "valves uservalves def g"})
	if err != nil || updated.Version == k.Version || updated.VersionID == k.VersionID || len(updated.Grants) != 1 {
		t.Fatalf("%+v %v", updated, err)
	}
	if l, _ = s.Load(ctx, user, "kit"); l.Version != updated.Version || l.Specs[0].Name != "g" || string(l.Valves) != `{"key":"K"}` {
		t.Errorf("%+v", l)
	}
	if _, err := s.Grant(ctx, admin, "kit", nil); err != nil {
		t.Fatal(err)
	}
	for id, code := range map[string]fault.Code{"kit": fault.Unauthorized, "none": fault.NotFound, "": fault.NotFound, "server:x": fault.NotFound} {
		if _, err := s.Load(ctx, user, id); fault.CodeOf(err) != code {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestAnotherToolkitOfTheSameIDStartsEmpty(t *testing.T) {
	s, ctx := newShop(), t.Context()
	source := "valves uservalves def f"
	s.make(t, "kit", source, public)
	for kind, u := range map[ValvesKind]access.User{Valves: admin, UserValves: user} {
		if _, err := s.SetValues(ctx, u, "kit", kind, json.RawMessage(`{"key":"old"}`)); err != nil {
			t.Fatal(err)
		}
	}
	cut := errors.New("cut off")
	s.tab.Fault = func(_ int, after bool, ops []table.Op) error {
		if !after && strings.HasPrefix(ops[0].Key.SK, "UV#") {
			return cut
		}
		return nil
	}
	if err := s.Delete(ctx, admin, "kit"); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	s.tab.Fault = nil
	s.make(t, "kit", source, public)
	if l, err := s.Load(ctx, user, "kit"); err != nil || string(l.Valves) != "{}" || string(l.UserValves) != "{}" {
		t.Errorf("%s %s %v", l.Valves, l.UserValves, err)
	}
	if err := s.Delete(ctx, admin, "kit"); err != nil {
		t.Fatal(err)
	}
	if rest, _ := table.All(ctx, s.tab, table.Query{PK: table.Tool("kit").PK}); len(rest) != 0 {
		t.Errorf("left behind: %v", rest)
	}
}

func TestChangesAreRefused(t *testing.T) {
	s, ctx := newShop(), t.Context()
	s.make(t, "kit", "valves def f", public)
	if _, err := s.SetValues(ctx, admin, "kit", Valves, json.RawMessage(`{"key":"K"}`)); err != nil {
		t.Fatal(err)
	}
	form := Form{Name: "N", Source: "def g"}
	code := func(err error) fault.Code {
		if err == nil {
			return ""
		}
		return fault.CodeOf(err)
	}
	update := func(u access.User, id, source string) fault.Code {
		_, err := s.Update(ctx, u, id, Form{Name: "N", Source: source})
		return code(err)
	}
	grant := func(u access.User, id string) fault.Code { _, err := s.Grant(ctx, u, id, nil); return code(err) }
	for i, c := range []struct{ got, want fault.Code }{
		{update(user, "kit", form.Source), fault.Forbidden}, {update(admin, "none", form.Source), fault.NotFound},
		{update(admin, "kit", "broken"), fault.Invalid}, {update(admin, "kit", "valves strict"), fault.Invalid},
		{grant(user, "kit"), fault.Forbidden}, {grant(admin, "none"), fault.NotFound},
		{code(s.Delete(ctx, user, "kit")), fault.Forbidden}, {code(s.Delete(ctx, admin, "none")), fault.NotFound},
	} {
		if c.got != c.want {
			t.Errorf("%d: got %q, want %q", i, c.got, c.want)
		}
	}
	if l, _ := s.Load(ctx, user, "kit"); l.Source != "valves def f" || l.Name != "Name of kit" {
		t.Errorf("a refused change changed something: %+v", l)
	}
	_, err := s.Update(ctx, admin, "kit", Form{Source: "broken"})
	if _, detail := fault.Status(err); detail != "broken (<string>, line 1)" {
		t.Errorf("got %v", detail)
	}
	if update(admin, "kit", "def g") != "" { // without the class the stored valves do not matter
		t.Error("refused")
	}
}

func TestValves(t *testing.T) {
	s, ctx := newShop(), t.Context()
	s.make(t, "kit", "valves uservalves def f", public)
	s.make(t, "plain", "def f", public)
	s.make(t, "mine", "valves uservalves def f", nil)
	values := func(u access.User, id string, kind ValvesKind) (string, fault.Code) {
		raw, err := s.Values(ctx, u, id, kind)
		if err != nil {
			return "", fault.CodeOf(err)
		}
		return string(raw), ""
	}
	set := func(u access.User, id string, kind ValvesKind, v string) (string, fault.Code) {
		raw, err := s.SetValues(ctx, u, id, kind, json.RawMessage(v))
		if err != nil {
			return "", fault.CodeOf(err)
		}
		return string(raw), ""
	}
	schema := func(u access.User, id string, kind ValvesKind) (string, fault.Code) {
		raw, err := s.Schema(ctx, u, id, kind)
		if err != nil {
			return "", fault.CodeOf(err)
		}
		return string(raw), ""
	}
	check := func(name string) func(got string, code fault.Code) func(want string, wantCode fault.Code) {
		return func(got string, code fault.Code) func(string, fault.Code) {
			return func(want string, wantCode fault.Code) {
				t.Helper()
				if got != want || code != wantCode {
					t.Errorf("%s: got %q %q, want %q %q", name, got, code, want, wantCode)
				}
			}
		}
	}
	check("at first")(values(admin, "kit", Valves))("{}", "")
	check("set")(set(admin, "kit", Valves, `{"a":1,"b":null,"x":2}`))(`{"a":1}`, "")
	check("bad")(set(admin, "kit", Valves, `{"a":"bad"}`))("", fault.Invalid)
	check("kept")(values(admin, "kit", Valves))(`{"a":1}`, "")
	check("replaced")(set(admin, "kit", Valves, `{"c":1}`))(`{"c":1}`, "")
	check("reader")(values(user, "kit", Valves))("", fault.Forbidden)
	check("reader sets")(set(user, "kit", Valves, `{}`))("", fault.Forbidden)
	check("reader's schema")(schema(user, "kit", Valves))("", fault.Forbidden)
	check("own")(set(user, "kit", UserValves, `{"u":1}`))(`{"u":1}`, "")
	check("own read")(values(user, "kit", UserValves))(`{"u":1}`, "")
	check("others'")(values(admin, "kit", UserValves))(`{}`, "")
	check("schema")(schema(user, "kit", UserValves))(`{"title":"V"}`, "")
	check("no class")(schema(admin, "plain", Valves))(`null`, "")
	check("no class set")(set(admin, "plain", Valves, `{}`))("", fault.Unauthorized)
	check("private")(values(user, "mine", UserValves))("", fault.Forbidden)
	check("private set")(set(user, "mine", UserValves, `{}`))("", fault.Forbidden)
	check("unknown")(values(admin, "none", Valves))("", fault.NotFound)
	check("unknown set")(set(admin, "none", Valves, `{}`))("", fault.NotFound)
}

// web answers every request with what it holds and remembers what it was asked.
type web struct {
	status int
	body   string
	err    error
	asked  string
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked = r.URL.String()
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: w.status, Body: io.NopCloser(strings.NewReader(w.body)), Header: http.Header{}, Request: r}, nil
}

func TestFetchURL(t *testing.T) {
	for _, c := range []struct{ url, asked, name string }{
		{"https://x.org/a/weather.py", "https://x.org/a/weather.py", "weather"},
		{"https://x.org/a/main.py?v=1", "https://x.org/a/main.py?v=1", "a"},
		{"https://x.org/a/__init__.py", "https://x.org/a/__init__.py", "a"},
		{"http://x.org:80/health", "http://x.org:80/health", "x.org:80"},
		{"http://x.org/", "http://x.org/", "x.org"},
		{"https://github.com/o/r/blob/main/tools/t.py", "https://raw.githubusercontent.com/o/r/refs/heads/main/tools/t.py", "t"},
		{"https://github.com/o/r/tree/main/tools/t", "https://raw.githubusercontent.com/o/r/refs/heads/main/tools/t/main.py", "t"},
	} {
		w := &web{status: 200, body: "source"}
		s := New(nil, nil, nil, nil, &Options{Client: &http.Client{Transport: w}})
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		name, source, err := s.FetchURL(t.Context(), u)
		if err != nil || name != c.name || source != "source" || w.asked != c.asked {
			t.Errorf("%s: %q from %s, %v", c.url, name, w.asked, err)
		}
	}
	u, _ := url.Parse("http://x.org/x.py")
	fetch := func(w web) error {
		_, _, err := New(nil, nil, nil, nil, &Options{Client: &http.Client{Transport: &w}}).FetchURL(t.Context(), u)
		return err
	}
	var status *StatusError
	if err := fetch(web{status: 404}); !errors.As(err, &status) || status.Status != 404 {
		t.Errorf("got %v", err)
	}
	refused := errors.New("refused")
	if err := fetch(web{err: refused}); !errors.As(err, &status) || status.Status != 500 || !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	for code, w := range map[fault.Code]web{fault.Invalid: {status: 200},
		fault.TooLarge: {status: 200, body: strings.Repeat("x", maxSource+1)}} {
		if err := fetch(w); fault.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{"": "url_parsing", "no url": "url_parsing", "ftp://x/y": "url_scheme", "file:///etc/passwd": "url_scheme",
		"http://": "url_parsing", "http://:80": "url_parsing", "http://a b/": "url_parsing", "https://x.org": ""} {
		if _, kind, err := CheckURL(text); kind != want || (err == nil) != (want == "") {
			t.Errorf("%q: %q %v", text, kind, err)
		}
	}
}
