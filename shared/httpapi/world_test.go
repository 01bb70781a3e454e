package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/file"
	"toolrounds/shared/folder"
	"toolrounds/shared/guard"
	"toolrounds/shared/mcp"
	"toolrounds/shared/memory"
	"toolrounds/shared/model"
	"toolrounds/shared/openai"
	"toolrounds/shared/openapi"
	"toolrounds/shared/run"
	remote "toolrounds/shared/server"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// secrets sign with a fixed key and "encrypt" by naming what the text is about.
type secrets struct{}

func (secrets) Signing(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

func (secrets) Seal(_ context.Context, plain []byte, about string) ([]byte, error) {
	return []byte(about + "\x00" + string(plain)), nil
}

func (secrets) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	return []byte(plain), nil
}

type provider struct{}

func (provider) Models(context.Context) ([]map[string]any, error) {
	return []map[string]any{{"id": "stub-model", "object": "model", "created": json.Number("1700000000"), "owned_by": "stub"}}, nil
}

// python stands in for the tool container: a source without "class Tools" does not load, "class Valves" has a key "limit".
type python struct{}

func (python) Describe(_ context.Context, _, source string) (d tool.Description, err error) {
	if !strings.Contains(source, "class Tools") {
		return d, &tool.ContainerError{Kind: "load", Message: "No Tools class found in the module"}
	}
	for _, line := range strings.Split(source, "\n") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "def "); ok {
			name, _, _ = strings.Cut(name, "(")
			d.Specs = append(d.Specs, tool.Spec{Name: name, Description: "<b>", Parameters: json.RawMessage(`{"type":"object"}`)})
		}
	}
	d.HasValves, d.HasUserValves = strings.Contains(source, "class Valves"), strings.Contains(source, "class UserValves")
	return d, nil
}

func (python) ValvesSpec(context.Context, string, string, tool.ValvesKind) (json.RawMessage, error) {
	return json.RawMessage(`{"title":"Valves","properties":{"z":1,"a":2}}`), nil
}

func (python) CheckValves(_ context.Context, _, _ string, _ tool.ValvesKind, values json.RawMessage) (json.RawMessage, error) {
	var v map[string]json.RawMessage
	if err := json.Unmarshal(values, &v); err != nil {
		return nil, err
	}
	if string(v["limit"]) == "99" {
		return nil, &tool.ContainerError{Kind: "valves", Message: "limit is too large"}
	}
	return json.Marshal(map[string]json.RawMessage{"limit": v["limit"]})
}

// idle stands in for the machine that runs answers, for the provider's answers and for what purges chats: nothing happens.
type idle struct{}

func (idle) Start(context.Context, string, any) error                 { return nil }
func (idle) Stop(context.Context, string, string) error               { return nil }
func (idle) Purge(context.Context, string) error                      { return nil }
func (idle) Call(context.Context, run.Invocation) (run.Result, error) { return run.Result{}, nil }

func (idle) Stream(context.Context, []byte, openai.StreamOptions, func(openai.Delta) error) (*openai.Round, error) {
	return &openai.Round{}, nil
}

func (idle) Complete(context.Context, []byte) (*openai.Completion, error) {
	return &openai.Completion{Status: 200, Body: []byte("{}")}, nil
}

func (idle) Do(context.Context, []byte) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// world is a server with an administrator and two plain users, in memory.
type world struct {
	t      *testing.T
	server *server
	http   http.Handler
	keys   map[string]string // admin, user, other -> API key or, as NAME-session, session token
	ids    map[string]string
}

func newWorld(t *testing.T, change ...func(*Deps)) *world {
	t.Helper()
	tab, quiet := &memory.Table{}, slog.New(slog.DiscardHandler)
	accounts := access.New(tab, secrets{}, secrets{}, &access.Options{FirstSignup: true, BcryptCost: bcrypt.MinCost, Log: quiet})
	deps := Deps{Accounts: accounts, Models: model.New(tab, provider{}, accounts, &model.Options{Log: quiet}), Log: quiet,
		Tools: tool.New(tab, python{}, secrets{}, accounts, &tool.Options{Log: quiet}), Version: "1.2.3"}
	files := &file.Store{Table: tab, Now: time.Now}
	runs := &run.Service{Table: tab, Chats: &chat.Store{Table: tab, Now: time.Now}, Accounts: accounts, Models: deps.Models, Tools: deps.Tools,
		Provider: idle{}, Container: idle{}, Files: files, Machine: idle{}, Limits: run.Limits{Rounds: 3, ToolSeconds: 1}, Now: time.Now,
		NewID: access.NewID, ItemID: func(prefix string) string { return prefix + "_" + access.NewID() }}
	deps.Files, deps.Folders = files, &folder.Store{Table: tab, Now: time.Now, NewID: access.NewID}
	runs.Folders = deps.Folders
	outside := guard.New(netip.MustParsePrefix("127.0.0.0/8")).Client(guard.Limits{Time: 10 * time.Second, Redirects: -1})
	deps.Servers = &remote.Service{Table: tab, Seal: secrets{}, Groups: accounts, Sessions: accounts, OpenAPI: openapi.New(outside),
		MCP: mcp.New(mcp.Options{HTTP: outside}), HTTP: outside}
	runs.Servers = deps.Servers
	deps.Chats = Chats{Store: runs.Chats, Runs: runs, Purge: idle{}, BaseURL: func(*http.Request) string { return "http://test" }}
	for _, c := range change {
		c(&deps)
	}
	w := &world{t: t, server: newServer(deps), http: New(deps), keys: map[string]string{}, ids: map[string]string{}}
	w.do("", "POST", "/api/v1/auths/signup", `{"name":"Admin","email":"admin@example.com","password":"password123"}`).status(200)
	w.enter("admin")
	for _, name := range []string{"user", "other"} {
		w.do("admin", "POST", "/api/v1/auths/add",
			`{"name":"`+name+`","email":"`+name+`@example.com","password":"password123","role":"user"}`).status(200)
		w.enter(name)
	}
	return w
}

func (w *world) enter(name string) {
	w.t.Helper()
	session := w.do("", "POST", "/api/v1/auths/signin", `{"email":"`+name+`@example.com","password":"password123"}`).status(200).object()
	w.ids[name], w.keys[name+"-session"] = session["id"].(string), session["token"].(string)
	w.keys[name] = w.do(name+"-session", "POST", "/api/v1/auths/api_key", "").status(200).object()["api_key"].(string)
}

// reply is an answer under test.
type reply struct {
	t    *testing.T
	what string
	code int
	head http.Header
	body []byte
}

// do sends a request as somebody ("" is nobody); {NAME} in path and body is that account's id.
func (w *world) do(who, method, path, body string) *reply {
	w.t.Helper()
	for name, id := range w.ids {
		path, body = strings.ReplaceAll(path, "{"+name+"}", id), strings.ReplaceAll(body, "{"+name+"}", id)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if who != "" {
		key, ok := w.keys[who]
		if !ok {
			w.t.Fatalf("nobody is called %s", who)
		}
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return w.send(r)
}

func (w *world) send(r *http.Request) *reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	what := r.Method + " " + r.URL.String()
	w.http.ServeHTTP(rec, r)
	return &reply{w.t, what, rec.Code, rec.Header(), rec.Body.Bytes()}
}

func (r *reply) status(code int) *reply {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("%s: status %d, want %d: %.300s", r.what, r.code, code, r.body)
	}
	return r
}

// is compares the body with JSON text, numbers by their digits.
func (r *reply) is(code int, want string) *reply {
	r.t.Helper()
	r.status(code)
	if got, want := normal(r.t, r.body), normal(r.t, []byte(want)); got != want {
		r.t.Errorf("%s:\n got %s\nwant %s", r.what, got, want)
	}
	return r
}

// detail compares the body's detail.
func (r *reply) detail(code int, want string) *reply {
	r.t.Helper()
	return r.is(code, `{"detail":`+string(table.MustJSON(want))+`}`)
}

func (r *reply) object() map[string]any {
	r.t.Helper()
	var v map[string]any
	if err := table.Decode(r.body, &v); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return v
}

func (r *reply) list() []map[string]any {
	r.t.Helper()
	var v []map[string]any
	if err := table.Decode(r.body, &v); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return v
}

func normal(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := table.Decode(raw, &v); err != nil {
		t.Fatalf("no JSON: %v: %s", err, raw)
	}
	sorted, err := table.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(sorted))
}

func column(all []map[string]any, key string) string {
	var values []string
	for _, m := range all {
		s, _ := m[key].(string)
		values = append(values, s)
	}
	slices.Sort(values)
	return strings.Join(values, " ")
}
