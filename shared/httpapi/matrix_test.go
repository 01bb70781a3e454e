package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/live"
	"toolrounds/shared/memory"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// callers are the columns of the access matrix. All objects belong to the owner, who may make tools and models by his group; the reader
// and the writer have grants of their own, the member has read rights by a group; the stranger is a user with no rights at all.
var callers = []string{"", "pending", "stranger", "owner", "reader", "writer", "member", "admin"}

// row tells what a route answers each of the callers, in their order: for an object of the owner's, and for a missing one. {x} in path
// and body stands for an object of the world, or for "none" when it is to be missing.
type row struct {
	route   string // as in the table of routes
	path    string // "": the route's own
	body    string
	want    string
	missing string // "": the same
}

func role(who string) string {
	if who == "pending" {
		return who
	}
	return "user"
}

type matrix struct {
	*world
	objects map[string]string
	restore func()
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{objects: map[string]string{"model": "mine", "tool": "mine"}}
	var tab *memory.Table
	m.world = newWorld(t, func(d *Deps) {
		tab = d.Files.Table.(*memory.Table)
		d.Live = &live.Service{Table: tab, Accounts: d.Accounts, Keys: secrets{}, Patience: time.Minute, Now: time.Now}
	})
	for _, name := range callers[1 : len(callers)-1] {
		m.do("admin", "POST", "/api/v1/auths/add",
			`{"name":"`+name+`","email":"`+name+`@example.com","password":"password123","role":"`+role(name)+`"}`).status(200)
		m.enter(name)
	}
	group := func(name, permissions, who string) string {
		id := m.do("admin", "POST", "/api/v1/groups/create", `{"name":"`+name+`","description":"","permissions":`+permissions+`}`).made()
		m.do("admin", "POST", "/api/v1/groups/id/"+id+"/users/add", `{"user_ids":["{`+who+`}"]}`).status(200)
		return id
	}
	group("makers", `{"workspace":{"tools":true,"models":true,"tools_export":true,"models_export":true},"sharing":{"tools":true,"models":true}}`, "owner")
	m.objects["group"] = group("readers", `{}`, "member")
	grants := `[{"principal_type":"user","principal_id":"{reader}","permission":"read"},{"principal_type":"user","principal_id":"{writer}","permission":"read"},
		{"principal_type":"user","principal_id":"{writer}","permission":"write"},{"principal_type":"group","principal_id":"` + m.objects["group"] + `","permission":"read"}]`
	m.do("owner", "POST", "/api/v1/models/create", `{"id":"mine","base_model_id":"stub-model","name":"M","meta":{},"params":{"system":"private-system"},"access_grants":`+grants+`}`).status(200)
	m.do("owner", "POST", "/api/v1/tools/create", `{"id":"mine","name":"T","content":"# private-source\nclass Tools:\n    class Valves:\n    class UserValves:\n    def f(self): pass",
		"meta":{},"access_grants":`+grants+`}`).status(200)
	m.objects["folder"] = m.do("owner", "POST", "/api/v1/folders/", `{"name":"private-folder"}`).made()
	m.objects["chat"] = m.do("owner", "POST", "/api/v1/chats/new", `{"chat":{"title":"private-title","history":{"currentId":"answer","messages":{
		"question":{"id":"question","role":"user","content":"private-words","parentId":null,"childrenIds":["answer"]},
		"answer":{"id":"answer","role":"assistant","content":"","parentId":"question","childrenIds":[],"model":"mine","done":false}}}}}`).made()
	file, err := m.server.Files.Save(t.Context(), m.ids["owner"], "data:text/plain;base64,"+base64.StdEncoding.EncodeToString([]byte("private-file")))
	if err != nil {
		t.Fatal(err)
	}
	m.objects["file"] = strings.TrimSuffix(strings.TrimPrefix(file, "/api/v1/files/"), "/content")
	answer := m.do("owner", "POST", "/api/chat/completions",
		`{"model":"mine","stream":true,"chat_id":"`+m.objects["chat"]+`","id":"answer","session_id":"s","questions":"wait","messages":[{"role":"user","content":"hi"}]}`).status(200)
	m.objects["task"] = answer.object()["task_ids"].([]any)[0].(string)
	call := run.Ticket{Run: m.objects["task"], Chat: m.objects["chat"], Message: "answer", Index: 1, User: m.ids["owner"], Wait: true}
	if _, err := tab.Apply(t.Context(), table.Put(table.Item{Key: table.Call(call.Run, 0, 1),
		Attr: map[string]any{"doc": table.MustJSON(map[string]string{"id": "c", "name": "f"})}})); err != nil {
		t.Fatal(err)
	}
	ask := event.Event{"type": "confirmation", "data": map[string]any{"title": "private-question"}}
	if m.objects["question"], err = m.server.Live.Ask(t.Context(), call, 1, ask, time.Minute); err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/openapi.json":
			fmt.Fprint(w, `{"openapi":"3.0.0","info":{"title":"T"},"paths":{"/a":{"get":{"operationId":"a"}}}}`)
		case "/api/config":
			fmt.Fprint(w, `{"features":{}}`)
		}
	}))
	t.Cleanup(elsewhere.Close)
	m.objects["elsewhere"] = elsewhere.URL
	m.do("admin", "POST", "/api/v1/configs/terminal_servers", `{"TERMINAL_SERVER_CONNECTIONS":[{"id":"mine","name":"T","key":"private-key","url":"`+elsewhere.URL+
		`","config":{"access_grants":`+grants+`}}]}`).status(200)
	m.do("admin", "POST", "/api/v1/configs/tool_servers", `{"TOOL_SERVER_CONNECTIONS":[`+toolServer("mine", "http://127.0.0.1:1/mcp", "mcp", grants)+`]}`).status(200)
	m.objects["terminal"], m.objects["server"], m.objects["call"] = "mine", "mine", call.Run+":"+m.objects["question"]
	maps.Copy(m.objects, m.ids)
	m.restore = tab.Snapshot()
	return m
}

// ask is what a caller gets for a row, on a world as it was made.
func (m *matrix) ask(r row, credential string, missing bool) *httptest.ResponseRecorder {
	m.restore()
	method, path, _ := strings.Cut(r.route, " ")
	path, body := cmp.Or(r.path, path), r.body
	for name, id := range m.objects {
		if missing && name != "elsewhere" {
			id = none
		}
		path, body = strings.ReplaceAll(path, "{"+name+"}", id), strings.ReplaceAll(body, "{"+name+"}", id)
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+m.keys[credential])
	}
	ctx, cancel := context.WithTimeout(req.Context(), 100*time.Millisecond) // what streams goes on until its caller leaves
	defer cancel()
	rec := httptest.NewRecorder()
	m.http.ServeHTTP(rec, req.WithContext(ctx))
	return rec
}

const none = "none"

// blind is a refusal without the ids that were asked for.
func (m *matrix) blind(body string) string {
	for _, id := range m.objects {
		body = strings.ReplaceAll(body, id, none)
	}
	return body
}

// Each route answers each caller as the reference does, by session and by API key; nobody reads a word that is not his to read; and a
// refusal does not tell whether there is something.
func TestAccessMatrix(t *testing.T) {
	m := newMatrix(t)
	who := map[string]Who{}
	for _, route := range m.server.routes() {
		who[route.Method+" "+route.Pattern] = route.Who
	}
	seen := map[string]bool{}
	for _, r := range matrixRows {
		kind, ok := who[r.route]
		if !ok {
			t.Errorf("%s: the row has no route", r.route)
			continue
		}
		seen[r.route] = true
		want := [2]string{r.want, cmp.Or(r.missing, r.want)}
		var refusals [2]string
		for i, line := range want {
			codes := strings.Fields(line)
			for j, caller := range callers {
				for _, by := range []string{"-session", ""} {
					if caller == "" && by != "" {
						continue
					}
					code := codes[j]
					if kind == Person && by == "" && caller != "" {
						code = "403"
					}
					got := m.ask(r, caller+by, i == 1)
					if fmt.Sprint(got.Code) != code {
						t.Errorf("%s %s, as %q by %q, missing %v: %d, want %s: %.200s", r.route, r.path, caller, by, i == 1, got.Code, code, got.Body)
					}
					if word := leak.FindString(got.Body.String()); word != "" && !mayRead(caller, word) {
						t.Errorf("%s %s shows %q to %q", r.route, r.path, word, caller)
					}
					if caller == "stranger" {
						refusals[i] = codes[j] + m.blind(got.Body.String())
					}
				}
			}
		}
		if want[0] == want[1] && refusals[0] >= "4" && refusals[0] != refusals[1] {
			t.Errorf("%s %s: a stranger can tell what is there from what is not: %s / %s", r.route, r.path, refusals[0], refusals[1])
		}
	}
	for route := range who {
		if !seen[route] {
			t.Errorf("%s has no row: add one to matrixRows", route)
		}
	}
}

var leak = regexp.MustCompile(`private-\w+`)

// mayRead tells who may read the owner's words.
func mayRead(caller, word string) bool {
	switch caller {
	case "owner":
		return word != "private-key"
	case "admin":
		return true
	case "writer":
		return word == "private-source" || word == "private-system"
	}
	return false
}

// matrixRows has at least one row for each route: nobody, pending, stranger, owner, reader, writer, member, administrator.
var matrixRows = []row{
	{"GET /health", "", "",
		"200 200 200 200 200 200 200 200", ""},
	{"GET /api/version", "", "",
		"200 200 200 200 200 200 200 200", ""},
	{"GET /api/config", "", "",
		"200 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/signin", "", `{"email":"user@example.com","password":"password123"}`,
		"200 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/signup", "", `{"name":"N","email":"new@example.com","password":"password123"}`,
		"403 403 403 403 403 403 403 403", ""},
	{"POST /api/v1/auths/signout", "", "",
		"200 200 200 200 200 200 200 200", ""},
	{"GET /api/v1/auths/signout", "", "",
		"200 200 200 200 200 200 200 200", ""},
	{"GET /api/v1/auths", "", "",
		"401 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/add", "", `{"name":"N","email":"new@example.com","password":"password123","role":"user"}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/auths/api_key", "", "",
		"401 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/api_key", "", "",
		"401 200 200 200 200 200 200 200", ""},
	{"DELETE /api/v1/auths/api_key", "", "",
		"401 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/update/profile", "", `{"name":"N","profile_image_url":"/user.png"}`,
		"401 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/update/timezone", "", `{"timezone":"Europe/Berlin"}`,
		"401 200 200 200 200 200 200 200", ""},
	{"POST /api/v1/auths/update/password", "", `{"password":"password123","new_password":"password456"}`,
		"401 200 200 200 200 200 200 200", ""},
	{"GET /api/v1/auths/admin/details", "", "",
		"401 200 200 200 200 200 200 200", ""},
	{"GET /api/v1/auths/admin/config", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/auths/admin/config", "", `{"ENABLE_API_KEYS":true}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/users", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/users/all", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/users/search", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/users/groups", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/users/permissions", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/users/default/permissions", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/users/default/permissions", "", "{}",
		"401 401 401 401 401 401 401 422", ""},
	{"GET /api/v1/users/user/settings", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/users/user/settings/update", "", `{"ui":{}}`,
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/users/user/info", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/users/{id}", "/api/v1/users/{owner}", "",
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 400"},
	{"GET /api/v1/users/{id}/groups", "/api/v1/users/{owner}/groups", "",
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/users/{id}/update", "/api/v1/users/{owner}/update", `{"role":"user","name":"N","email":"owner@example.com","profile_image_url":"/user.png"}`,
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 400"},
	{"DELETE /api/v1/users/{id}", "/api/v1/users/{owner}", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/users/{id}/profile/image", "/api/v1/users/{owner}/profile/image", "",
		"401 401 200 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/groups", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/groups/create", "", `{"name":"G","description":""}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/groups/id/{id}", "/api/v1/groups/id/{group}", "",
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"POST /api/v1/groups/id/{id}/update", "/api/v1/groups/id/{group}/update", `{"name":"G","description":""}`,
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"DELETE /api/v1/groups/id/{id}/delete", "/api/v1/groups/id/{group}/delete", "",
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"POST /api/v1/groups/id/{id}/users", "/api/v1/groups/id/{group}/users", "",
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"POST /api/v1/groups/id/{id}/users/add", "/api/v1/groups/id/{group}/users/add", `{"user_ids":["{stranger}"]}`,
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"POST /api/v1/groups/id/{id}/users/remove", "/api/v1/groups/id/{group}/users/remove", `{"user_ids":["{member}"]}`,
		"401 401 401 401 401 401 401 200", "401 401 401 401 401 401 401 404"},
	{"GET /api/models", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/models", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/models/list", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/models/base", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/models/tags", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/models/export", "", "",
		"401 401 401 200 401 401 401 200", ""},
	{"POST /api/v1/models/create", "", `{"id":"new","base_model_id":"stub-model","name":"N","meta":{},"params":{}}`,
		"401 401 401 200 401 401 401 200", ""},
	{"GET /api/v1/models/model", "/api/v1/models/model?id={model}", "",
		"401 401 401 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/models/model/update", "", `{"id":"{model}","base_model_id":"stub-model","name":"N","meta":{},"params":{}}`,
		"401 401 400 200 400 200 400 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/models/model/toggle", "/api/v1/models/model/toggle?id={model}", "",
		"401 401 401 200 401 200 401 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/models/model/delete", "", `{"id":"{model}"}`,
		"401 401 401 200 401 200 401 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/models/model/access/update", "", `{"id":"{model}","access_grants":[]}`,
		"401 401 400 200 400 200 400 200", "401 401 403 403 403 403 403 200"},
	{"GET /api/v1/models/model/profile/image", "/api/v1/models/model/profile/image?id={model}", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/tools", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/tools/list", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/tools/export", "", "",
		"401 401 401 200 401 401 401 200", ""},
	{"POST /api/v1/tools/create", "", `{"id":"new","name":"N","content":"class Tools:\n    pass","meta":{}}`,
		"401 401 401 200 401 401 401 200", ""},
	{"POST /api/v1/tools/load/url", "", `{"url":"{elsewhere}/openapi.json"}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/tools/id/{id}", "/api/v1/tools/id/{tool}", "",
		"401 401 401 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/tools/id/{id}/specs", "/api/v1/tools/id/server:mcp:{server}/specs", "",
		"401 401 404 404 502 502 502 502", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/tools/id/{id}/update", "/api/v1/tools/id/{tool}/update", `{"id":"{tool}","name":"N","content":"class Tools:\n    pass","meta":{}}`,
		"401 401 401 200 401 200 401 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/tools/id/{id}/access/update", "/api/v1/tools/id/{tool}/access/update", `{"access_grants":[]}`,
		"401 401 401 200 401 200 401 200", "401 401 404 404 404 404 404 404"},
	{"DELETE /api/v1/tools/id/{id}/delete", "/api/v1/tools/id/{tool}/delete", "",
		"401 401 401 200 401 200 401 200", "401 401 401 401 401 401 401 401"},
	{"GET /api/v1/tools/id/{id}/valves", "/api/v1/tools/id/{tool}/valves", "",
		"401 401 401 200 401 200 401 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/tools/id/{id}/valves/spec", "/api/v1/tools/id/{tool}/valves/spec", "",
		"401 401 401 200 401 200 401 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/tools/id/{id}/valves/update", "/api/v1/tools/id/{tool}/valves/update", `{"limit":1}`,
		"401 401 400 200 400 200 400 200", "401 401 401 401 401 401 401 401"},
	{"GET /api/v1/tools/id/{id}/valves/user", "/api/v1/tools/id/{tool}/valves/user", "",
		"401 401 401 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/tools/id/{id}/valves/user/spec", "/api/v1/tools/id/{tool}/valves/user/spec", "",
		"401 401 401 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/tools/id/{id}/valves/user/update", "/api/v1/tools/id/{tool}/valves/user/update", `{"limit":1}`,
		"401 401 401 200 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/configs/banners", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/notes", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/notes/pinned", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/folders/shared", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/functions", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/skills", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/prompts", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/prompts/tags", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/memories", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/chats/new", "", `{"chat":{}}`,
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/chats", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/chats/list", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/chats/pinned", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/chats/all/tags", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/chats/{id}", "/api/v1/chats/{chat}", "",
		"401 401 401 200 401 401 401 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/chats/{id}", "/api/v1/chats/{chat}", `{"chat":{"title":"N"}}`,
		"401 401 401 200 401 401 401 401", "401 401 401 401 401 401 401 401"},
	{"DELETE /api/v1/chats/{id}", "/api/v1/chats/{chat}", "",
		"401 401 404 200 404 404 404 200", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/chats/{id}/{part}", "/api/v1/chats/{chat}/tags", "",
		"401 401 401 200 401 401 401 200", "401 401 401 401 401 401 401 401"},
	{"GET /api/v1/chats/{id}/{part}", "/api/v1/chats/folder/{folder}", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/chats/{id}/messages/{message}", "/api/v1/chats/{chat}/messages/question", `{"content":"x"}`,
		"401 401 401 200 401 401 401 200", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/chats/{id}/messages/{message}", "/api/v1/chats/{chat}/messages/nosuch", `{"content":"x"}`,
		"401 401 401 401 401 401 401 401", ""},
	{"GET /api/v1/files/{id}/content", "/api/v1/files/{file}/content", "",
		"401 401 404 200 404 404 404 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/chat/completions", "", `{"model":"{model}","stream":true,"chat_id":"{chat}","id":"next","session_id":"s","messages":[{"role":"user","content":"x"}]}`,
		"401 401 400 200 404 404 404 404", "401 401 400 400 400 400 400 400"},
	{"POST /api/chat/completions", "", `{"model":"mine","stream":true,"chat_id":"{chat}","id":"next","session_id":"s","messages":[{"role":"user","content":"x"}]}`,
		"401 401 400 200 404 404 404 404", "401 401 400 404 404 404 404 404"},
	{"POST /api/chat/completions", "", `{"model":"{model}","messages":[{"role":"user","content":"x"}]}`,
		"401 401 400 200 200 200 200 200", "401 401 400 400 400 400 400 400"},
	{"POST /api/v1/chat/completions", "", `{"model":"{model}","messages":[{"role":"user","content":"x"}]}`,
		"401 401 400 200 200 200 200 200", "401 401 400 400 400 400 400 400"},
	{"GET /api/tasks", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/tasks/chat/{chat}", "/api/tasks/chat/{chat}", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/tasks/chat/{chat}/stop", "/api/tasks/chat/{chat}/stop", "",
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"POST /api/tasks/stop/{id}", "/api/tasks/stop/{task}", "",
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/folders", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/folders", "", `{"name":"N"}`,
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/folders/{id}", "/api/v1/folders/{folder}", "",
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/folders/{id}/update", "/api/v1/folders/{folder}/update", `{"name":"N"}`,
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/folders/{id}/update/parent", "/api/v1/folders/{folder}/update/parent", `{"parent_id":null}`,
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/folders/{id}/update/expanded", "/api/v1/folders/{folder}/update/expanded", `{"is_expanded":true}`,
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"DELETE /api/v1/folders/{id}", "/api/v1/folders/{folder}", "",
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/chats/folder/{id}/list", "/api/v1/chats/folder/{folder}/list", "",
		"401 401 200 200 200 200 200 200", ""},
	{"POST /api/v1/chats/{id}/folder", "/api/v1/chats/{chat}/folder", `{"folder_id":null}`,
		"401 401 401 200 401 401 401 401", "401 401 401 401 401 401 401 401"},
	{"POST /api/v1/chats/{id}/folder", "/api/v1/chats/{chat}/folder", `{"folder_id":"{folder}"}`,
		"401 401 401 200 401 401 401 401", "401 401 401 401 401 401 401 401"},
	{"GET /api/v1/configs/tool_servers", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/configs/tool_servers", "", `{"TOOL_SERVER_CONNECTIONS":[]}`,
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/configs/tool_servers/verify", "", `{"url":"{elsewhere}","path":"openapi.json","type":"openapi","auth_type":"none","key":"","config":{}}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/configs/terminal_servers", "", "",
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/configs/terminal_servers", "", `{"TERMINAL_SERVER_CONNECTIONS":[]}`,
		"401 401 401 401 401 401 401 200", ""},
	{"POST /api/v1/configs/terminal_servers/verify", "", `{"url":"{elsewhere}"}`,
		"401 401 401 401 401 401 401 200", ""},
	{"GET /api/v1/terminals", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /api/v1/terminals/{id}/{path...}", "/api/v1/terminals/{terminal}/x", "",
		"401 401 403 403 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/terminals/{id}/{path...}", "/api/v1/terminals/{terminal}/x", "",
		"401 401 403 403 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"PUT /api/v1/terminals/{id}/{path...}", "/api/v1/terminals/{terminal}/x", "",
		"401 401 403 403 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"PATCH /api/v1/terminals/{id}/{path...}", "/api/v1/terminals/{terminal}/x", "",
		"401 401 403 403 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"DELETE /api/v1/terminals/{id}/{path...}", "/api/v1/terminals/{terminal}/x", "",
		"401 401 403 403 200 200 200 200", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/broker/events", "", `{"events":[]}`,
		"401 401 401 401 401 401 401 401", ""},
	{"POST /api/v1/broker/call", "", `{"n":2,"event":{"type":"confirmation"},"timeout":5}`,
		"401 401 401 401 401 401 401 401", ""},
	{"GET /api/v1/broker/call/{id}", "/api/v1/broker/call/{question}?wait=0", "",
		"401 401 401 401 401 401 401 401", ""},
	{"GET /api/v1/chats/{id}/events", "/api/v1/chats/{chat}/events", "",
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"GET /api/v1/chats/{id}/questions", "/api/v1/chats/{chat}/questions", "",
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"POST /api/v1/chats/{id}/questions/{question}", "/api/v1/chats/{chat}/questions/{call}", `{"value":true}`,
		"401 401 404 200 404 404 404 404", "401 401 404 404 404 404 404 404"},
	{"GET /api/usage", "", "",
		"401 401 200 200 200 200 200 200", ""},
	{"GET /ws/socket.io", "", "",
		"400 400 400 400 400 400 400 400", ""},
	{"POST /ws/socket.io", "", "",
		"400 400 400 400 400 400 400 400", ""},
	{"GET /console", "", "",
		"200 200 200 200 200 200 200 200", ""},
}
