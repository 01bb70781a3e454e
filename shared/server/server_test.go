package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/guard"
	"toolrounds/shared/mcp"
	"toolrounds/shared/memory"
	"toolrounds/shared/openapi"
	"toolrounds/shared/run"
	"toolrounds/shared/server"
	"toolrounds/shared/table"
)

// sealer "encrypts" by turning every byte, and binds a text to what it is about.
type sealer struct{}

func (sealer) Seal(_ context.Context, plain []byte, about string) ([]byte, error) {
	out := []byte(about + "\x00")
	for _, b := range plain {
		out = append(out, ^b)
	}
	return out, nil
}

func (sealer) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	text, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	out := []byte(text)
	for i := range out {
		out[i] = ^out[i]
	}
	return out, nil
}

type groups map[string][]string

func (g groups) Groups(_ context.Context, user string) ([]string, error) { return g[user], nil }

type sessions struct{}

func (sessions) Session(_ context.Context, u access.User) (access.Session, error) {
	return access.Session{Token: "session-of-" + u.ID}, nil
}

var (
	admin = access.User{ID: "admin", Name: "Admin", Role: access.RoleAdmin}
	user  = access.User{ID: "user", Name: "Ann\r\nX-Evil: 1", Email: "ann@example.com", Role: access.RoleUser}
	other = access.User{ID: "other", Role: access.RoleUser}
)

func everybody() []any {
	return []any{map[string]any{"principal_type": "user", "principal_id": "*", "permission": "read"}}
}

func newService(t *testing.T, kind server.Kind, list ...map[string]any) (*server.Service, *memory.Table) {
	t.Helper()
	tab := &memory.Table{}
	c := guard.New(netip.MustParsePrefix("127.0.0.0/8")).Client(guard.Limits{Time: 5 * time.Second, Size: 1 << 20})
	s := &server.Service{
		Table: tab, Seal: sealer{}, Groups: groups{"user": {"staff"}}, Sessions: sessions{}, OpenAPI: openapi.New(c),
		MCP: mcp.New(mcp.Options{HTTP: c, Connect: time.Second, List: 3 * time.Second}), HTTP: c,
	}
	if err := s.Set(t.Context(), kind, list); err != nil {
		t.Fatal(err)
	}
	return s, tab
}

func connection(id, url string, grants []any) map[string]any {
	return map[string]any{
		"url": url, "path": "openapi.json", "auth_type": "bearer", "key": "secret-key", "headers": map[string]any{"X-User": "u-{{USER_NAME}}-{{CHAT_ID}}"},
		"config": map[string]any{"enable": true, "access_grants": grants}, "info": map[string]any{"id": id, "name": "N " + id},
	}
}

const document = `{"openapi":"3.1.0","info":{"title":"T"},"paths":{"/echo":{"post":{"operationId":"echo","requestBody":{"content":{"application/json":{"schema":{
	"type":"object","properties":{"a":{"type":"string"}}}}}}}},"/who":{"get":{"operationId":"who"}}}}`

// api is an OpenAPI server that echoes bodies and headers.
func api(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/openapi.json":
			fmt.Fprint(w, document)
		case "/echo":
			_, _ = io.Copy(w, r.Body)
		default:
			_, _ = w.Write(table.MustJSON(map[string]any{"auth": r.Header.Get("Authorization"), "user": r.Header.Get("X-User"), "evil": r.Header.Get("X-Evil")}))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func names(offer run.Offer) (all []string) {
	for _, f := range offer.Functions {
		all = append(all, f.Spec.Name)
	}
	return all
}

func TestSecretsAreSealed(t *testing.T) {
	s, tab := newService(t, server.Tools, connection("a", "https://inner.example", everybody()))
	item, ok, err := table.One(t.Context(), tab, table.Config("tool_servers"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for name, v := range item.Attr {
		if text := fmt.Sprintf("%s", v); strings.Contains(text, "secret-key") || strings.Contains(text, "inner.example") {
			t.Errorf("%s lies open", name)
		}
	}
	list, err := s.List(t.Context(), server.Tools)
	if err != nil || len(list) != 1 || list[0]["key"] != "secret-key" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestWhoIsOfferedWhat(t *testing.T) {
	at := api(t)
	group := []any{map[string]any{"principal_type": "group", "principal_id": "staff", "permission": "read"}}
	off := connection("off", at.URL, everybody())
	off["config"].(map[string]any)["enable"] = false
	filtered := connection("filtered", at.URL, everybody())
	filtered["config"].(map[string]any)["function_name_filter_list"] = "who,!echo"
	nameless := connection("", at.URL, everybody())
	s, _ := newService(t, server.Tools, connection("all", at.URL, everybody()), connection("admins", at.URL, nil), connection("staff", at.URL, group),
		off, filtered, connection("dead", "http://127.0.0.1:1", everybody()), nameless)
	ids := []string{"server:staff", "server:admins", "server:all", "server:off", "server:dead", "server:filtered", "server:nope", "server:6", "server:all", "server:mcp:all"}
	for _, c := range []struct {
		u    access.User
		want string
	}{
		{admin, "server:staff server:admins server:all server:filtered server:6"},
		{user, "server:staff server:all server:filtered server:6"},
		{other, "server:all server:filtered server:6"},
		{access.User{}, ""},
	} {
		offers, err := s.Offer(t.Context(), run.Ask{User: c.u, ToolIDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range offers.Tools {
			got = append(got, o.ID)
			want := []string{"echo", "who"}
			if o.ID == "server:filtered" {
				want = want[1:]
			}
			if !slices.Equal(names(o), want) || o.Provider != run.OpenAPI {
				t.Errorf("%s: %+v", o.ID, o)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s is offered %v", c.u.ID, got)
		}
		for _, id := range ids {
			function := "who"
			_, err := s.Call(t.Context(), run.ServerCall{Ask: run.Ask{User: c.u}, Name: function, Entry: run.Entry{Provider: run.OpenAPI, Toolkit: id, Function: function}})
			if may := slices.Contains(got, id) || id == "server:dead" && c.u.ID != ""; may != (err == nil) || !may && fault.CodeOf(err) != fault.NotFound {
				t.Errorf("%s calls %s: %v", c.u.ID, id, err)
			}
		}
	}
	listed, err := s.Listed(t.Context(), user, "n ")
	if err != nil || len(listed) != 4 || listed[0].Name != "N all" {
		t.Errorf("%+v, %v", listed, err)
	}
}

func TestCallsTellWhoAsks(t *testing.T) {
	at := api(t)
	list := []map[string]any{connection("bearer", at.URL, everybody())}
	for id, change := range map[string]map[string]any{
		"given": {"key": "Bearer secret-key"}, "none": {"auth_type": "none"}, "session": {"auth_type": "session"},
		"own": {"headers": map[string]any{"authorization": "Token {{USER_ID}}"}}, "empty": {"key": nil, "headers": nil},
	} {
		c := connection(id, at.URL, everybody())
		for k, v := range change {
			c[k] = v
		}
		list = append(list, c)
	}
	s, _ := newService(t, server.Tools, list...)
	for id, want := range map[string]string{
		"bearer": "Bearer secret-key", "given": "Bearer secret-key", "none": "", "session": "Bearer session-of-user", "own": "Token user", "empty": "",
	} {
		result, err := s.Call(t.Context(), run.ServerCall{
			Ask: run.Ask{User: user, Chat: "c1"}, Name: "who", Entry: run.Entry{Provider: run.OpenAPI, Toolkit: "server:" + id, Function: "who"},
		})
		var seen map[string]string
		if err != nil || json.Unmarshal([]byte(result.Content), &seen) != nil || seen["auth"] != want || seen["evil"] != "" {
			t.Errorf("%s: %+v, %v", id, result, err)
		}
		if id == "bearer" && seen["user"] != "u-AnnX-Evil: 1-c1" {
			t.Errorf("header %q", seen["user"])
		}
	}
}

// TestMCPThatIsDown: what is down has a problem to tell, and no functions.
func TestMCPThatIsDown(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refuses.Close()
	dead, stranger := connection("dead", "http://127.0.0.1:1/mcp", everybody()), connection("stranger", refuses.URL+"/mcp", everybody())
	dead["type"], stranger["type"] = "mcp", "mcp"
	s, _ := newService(t, server.Tools, dead, stranger)
	offers, err := s.Offer(t.Context(), run.Ask{User: user, ToolIDs: []string{"server:mcp:dead", "server:mcp:stranger"}})
	if err != nil || len(offers.Tools) != 2 || offers.Tools[0].Problem != "Failed to connect to MCP server 'dead'" || !strings.Contains(offers.Tools[1].Problem, "Sign-in needed") {
		t.Fatalf("%+v, %v", offers, err)
	}
	if _, err := s.Specs(t.Context(), user, "server:mcp:dead"); fault.CodeOf(err) != fault.BadGateway {
		t.Error(err)
	}
	if _, err := s.Specs(t.Context(), user, "server:mcp:nope"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, _, err := s.Verify(t.Context(), admin, dead); fault.CodeOf(err) != fault.Invalid {
		t.Error(err)
	}
	result, err := s.Call(t.Context(), run.ServerCall{Ask: run.Ask{User: user}, Entry: run.Entry{Provider: run.MCP, Toolkit: "server:mcp:dead", Function: "f"}, Arguments: json.RawMessage(`{}`)})
	if err != nil || result.Status != run.FailedCall {
		t.Errorf("%+v, %v", result, err)
	}
}
