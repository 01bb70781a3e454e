package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"toolrounds/shared/mcp"
)

// provider is an MCP server and its provider in one: what is served at which path.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	docs  map[string]string // path -> JSON; BASE is the server's address
	forms []url.Values
	basic []string
	token func(form url.Values) (int, string)
}

func serve(t *testing.T, docs map[string]string) *provider {
	p := &provider{docs: docs}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			_ = r.ParseForm()
			p.mu.Lock()
			p.forms = append(p.forms, r.PostForm)
			p.basic = append(p.basic, r.Header.Get("Authorization"))
			p.mu.Unlock()
			status, body := p.token(r.PostForm)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return
		}
		doc, ok := docs[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, strings.ReplaceAll(doc, "BASE", p.URL))
	}))
	t.Cleanup(p.Close)
	return p
}

const meta = `{"issuer":"BASE","authorization_endpoint":"BASE/authorize?tenant=1","token_endpoint":"BASE/token","registration_endpoint":"BASE/register","code_challenge_methods_supported":["plain","S256"]}`

func TestDiscover(t *testing.T) {
	with := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	const prm, as = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
	for name, c := range map[string]struct {
		docs      map[string]string
		challenge string
		want      string // "authorize resource scope", or a part of the error
	}{
		"by path":              {with(prm+"/mcp", `{"resource":"BASE/mcp","authorization_servers":["BASE"],"scopes_supported":["a","b"]}`, as, meta), "", "BASE/authorize?tenant=1 BASE/mcp a b"},
		"by root":              {with(prm, `{"resource":"BASE","authorization_servers":["BASE/"]}`, as, meta), "", "BASE/authorize?tenant=1 BASE "},
		"by challenge":         {with("/m", `{"resource":"BASE/mcp/","authorization_servers":["BASE"],"scopes_supported":["a"]}`, as, meta), `Bearer realm="x", resource_metadata="BASE/m", scope="s t"`, "BASE/authorize?tenant=1 BASE/mcp/ s t"},
		"issuer with path":     {with(prm, `{"resource":"BASE","authorization_servers":["BASE/t"]}`, as+"/t", strings.Replace(meta, `"BASE"`, `"BASE/t"`, 1)), "", "BASE/authorize?tenant=1 BASE "},
		"openid":               {with(prm, `{"resource":"BASE","authorization_servers":["BASE/t"]}`, "/t/.well-known/openid-configuration", strings.Replace(meta, `"BASE"`, `"BASE/t"`, 1)), "", "BASE/authorize?tenant=1 BASE "},
		"no resource metadata": {with(as, meta), "", "BASE/authorize?tenant=1 BASE/mcp "},
		"nothing at all":       {with(), "", "BASE/authorize BASE/mcp "},
		"another resource":     {with(prm, `{"resource":"https://bank.test","authorization_servers":["BASE"]}`, as, meta), "", "another one"},
		"sibling resource":     {with(prm, `{"resource":"BASE/mc","authorization_servers":["BASE"]}`, as, meta), "", "another one"},
		"another issuer":       {with(as, strings.Replace(meta, `"BASE"`, `"https://bank.test"`, 1)), "", "another one"},
		"no PKCE":              {with(as, `{"issuer":"BASE","authorization_endpoint":"BASE/a","token_endpoint":"BASE/token"}`), "", "PKCE"},
		"no provider":          {with(prm, `{"resource":"BASE"}`), "", "names no provider"},
		"no provider metadata": {with(prm, `{"resource":"BASE","authorization_servers":["BASE"]}`), "", "no metadata"},
		"broken":               {with(prm, `<html>`), "", "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, c.docs)
			got, err := New(nil, nil).Discover(t.Context(), p.URL+"/mcp", strings.ReplaceAll(c.challenge, "BASE", p.URL))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if s := strings.ReplaceAll(got.Authorize+" "+got.Resource+" "+got.Scope, p.URL, "BASE"); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

func TestSignIn(t *testing.T) {
	p := serve(t, map[string]string{"/register": `{"client_id":"c 1","client_secret":"s:1","token_endpoint_auth_method":"client_secret_basic"}`})
	where := Provider{Issuer: p.URL, Authorize: p.URL + "/authorize?tenant=1", Token: p.URL + "/token", Registration: p.URL + "/register", Resource: p.URL + "/mcp", Scope: "a"}
	now := time.Unix(1000, 0)
	c := New(nil, func() time.Time { return now })
	reg, err := c.Register(t.Context(), where, "https://us.test/back", "us")
	if err != nil {
		t.Fatal(err)
	}
	try, err := Begin(where, reg, "https://us.test/back")
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(try.URL)
	q := u.Query()
	sum := sha256.Sum256([]byte(try.Verifier))
	if q.Get("tenant") != "1" || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("resource") != p.URL+"/mcp" || q.Get("scope") != "a" || q.Get("state") != try.State {
		t.Errorf("sign-in page %s", try.URL)
	}
	p.token = func(url.Values) (int, string) {
		return 200, `{"access_token":"A","refresh_token":"R","token_type":"bearer","expires_in":3600}`
	}
	for _, wrong := range []string{"state=other&code=1", "code=1", "state=" + try.State + "&error=access_denied", "state=" + try.State + "&code=1&iss=https://bank.test"} {
		query, _ := url.ParseQuery(wrong)
		if _, err := c.Finish(t.Context(), where, reg, try, query); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
	if len(p.forms) != 0 {
		t.Errorf("the provider was asked: %v", p.forms)
	}
	token, err := c.Finish(t.Context(), where, reg, try, url.Values{"state": {try.State}, "code": {"42"}})
	if err != nil || token.Access != "A" || token.Refresh != "R" || !token.Expires.Equal(now.Add(time.Hour)) {
		t.Fatalf("%+v, %v", token, err)
	}
	f := p.forms[0]
	if f.Get("code") != "42" || f.Get("code_verifier") != try.Verifier || f.Get("resource") != p.URL+"/mcp" || f.Get("client_id") != "" ||
		p.basic[0] != "Basic "+base64.StdEncoding.EncodeToString([]byte("c+1:s%3A1")) {
		t.Errorf("form %v, %s", f, p.basic[0])
	}
	raw, err := json.Marshal(Grant{where, reg, token})
	var back Grant
	if err != nil || json.Unmarshal(raw, &back) != nil || back.Registration != reg || back.Token.Access != "A" || back.Provider.Resource != where.Resource {
		t.Errorf("stored as %s", raw)
	}
}

func TestBeginRefusesWhatIsNoPage(t *testing.T) {
	for _, page := range []string{"javascript:alert(1)", "", "data:text/html,x", "/authorize"} {
		if a, err := Begin(Provider{Authorize: page}, Registration{}, "https://us.test"); err == nil {
			t.Errorf("%q gave %s", page, a.URL)
		}
	}
}

// shelf is a store of one grant.
type shelf struct {
	mu    sync.Mutex
	grant *Grant
	saved int
}

func (s *shelf) Load(context.Context, string, string) (Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grant == nil {
		return Grant{}, mcp.ErrSignIn
	}
	return *s.grant, nil
}

func (s *shelf) Save(_ context.Context, _, _ string, g Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant, s.saved = &g, s.saved+1
	return nil
}

func TestSource(t *testing.T) {
	p := serve(t, nil)
	now := time.Unix(1000, 0)
	store := &shelf{}
	source := NewSource(New(nil, func() time.Time { return now }), store)
	server := mcp.Server{ID: "s", User: "u"}
	get := func(rejected string) (string, error) { return source.Token(t.Context(), server, rejected) }

	if _, err := get(""); !errors.Is(err, mcp.ErrSignIn) {
		t.Errorf("nobody: %v", err)
	}
	grant := func(refresh string, left time.Duration) {
		store.grant = &Grant{Provider{Token: p.URL + "/token"}, Registration{ClientID: "c"}, Token{"old", refresh, now.Add(left)}}
	}
	p.token = func(url.Values) (int, string) { return 200, `{"access_token":"new","expires_in":"3600"}` }

	grant("R", time.Hour)
	if token, err := get(""); token != "old" || err != nil {
		t.Errorf("good token: %s, %v", token, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if token, err := get("old"); token != "new" || err != nil {
				t.Errorf("rejected token: %s, %v", token, err)
			}
		})
	}
	all.Wait()
	if len(p.forms) != 1 || store.grant.Token.Refresh != "R" || p.forms[0].Get("client_id") != "c" {
		t.Errorf("renewed by %v, kept %+v", p.forms, store.grant.Token)
	}
	grant("R", 30*time.Second)
	if token, err := get(""); token != "new" || err != nil {
		t.Errorf("ending token: %s, %v", token, err)
	}
	grant("", -time.Second)
	if _, err := get(""); !errors.Is(err, mcp.ErrSignIn) {
		t.Errorf("no refresh token: %v", err)
	}
	p.token = func(url.Values) (int, string) { return 400, `{"error":"invalid_grant"}` }
	grant("R", -time.Second)
	if _, err := get(""); !errors.Is(err, mcp.ErrSignIn) {
		t.Errorf("refused: %v", err)
	}
	p.token = func(url.Values) (int, string) { return 503, `` }
	if _, err := get(""); err == nil || errors.Is(err, mcp.ErrSignIn) {
		t.Errorf("provider down: %v", err)
	}
	// Another process was quicker: the refresh token is used up, and a good token is there.
	p.token = func(url.Values) (int, string) {
		grant("R2", time.Hour)
		store.grant.Token.Access = "theirs"
		return 400, `{"error":"invalid_grant"}`
	}
	grant("R", -time.Second)
	if token, err := get(""); token != "theirs" || err != nil {
		t.Errorf("lost race: %s, %v", token, err)
	}
}
