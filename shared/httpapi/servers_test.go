package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const everybody = `[{"principal_type":"user","principal_id":"*","permission":"read"}]`

func toolServer(id, url, kind, grants string) string {
	return `{"url":"` + url + `","path":"openapi.json","type":"` + kind + `","auth_type":"bearer","key":"hidden-key",
		"config":{"enable":true,"access_grants":` + grants + `},"info":{"id":"` + id + `","name":"Name ` + id + `","description":"D"}}`
}

func TestToolServers(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hidden-key" || r.URL.Path != "/openapi.json" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "openapi: 3.0.0\ninfo: {title: T}\npaths: {/a: {get: {operationId: a}}}\n")
	}))
	defer api.Close()
	w := newWorld(t)
	const path = "/api/v1/configs/tool_servers"
	list := func(connections ...string) string {
		return `{"TOOL_SERVER_CONNECTIONS":[` + strings.Join(connections, ",") + `]}`
	}
	w.do("admin", "POST", path, list(`{"url":"x"}`)).is(422, `{"detail":[
		{"type":"missing","loc":["body","TOOL_SERVER_CONNECTIONS",0,"path"],"msg":"Field required","input":{"url":"x"}},
		{"type":"missing","loc":["body","TOOL_SERVER_CONNECTIONS",0,"auth_type"],"msg":"Field required","input":{"url":"x"}},
		{"type":"missing","loc":["body","TOOL_SERVER_CONNECTIONS",0,"key"],"msg":"Field required","input":{"url":"x"}},
		{"type":"missing","loc":["body","TOOL_SERVER_CONNECTIONS",0,"config"],"msg":"Field required","input":{"url":"x"}}]}`)
	w.do("admin", "POST", path, list(`5`)).status(422)
	w.do("admin", "GET", path, "").is(200, list())

	whole := strings.TrimSuffix(toolServer("oa", api.URL, "openapi", everybody), "}") + `,"forward_cookies":false,"headers":{"X-N":"{{USER_NAME}}"},"more":{"n":9007199254740993}}`
	all := []string{
		toolServer("mc", "http://127.0.0.1:1/mcp", "mcp", everybody), whole, toolServer("private", api.URL, "openapi", "[]"),
		toolServer("dead", "http://127.0.0.1:1", "openapi", everybody),
	}
	stored := w.do("admin", "POST", path, list(all...)).status(200).body
	if got := w.do("admin", "GET", path, "").status(200).body; normal(t, got) != normal(t, stored) || !strings.Contains(normal(t, got), normal(t, []byte(whole))) {
		t.Errorf("stored %s", got)
	}

	entries := w.do("user", "GET", "/api/v1/tools/", "").status(200)
	if got := column(entries.list(), "id"); got != "server:mcp:mc server:oa" || strings.Contains(string(entries.body), "hidden-key") {
		t.Errorf("a user sees %s", entries.body)
	}
	entry := entries.list()[0]
	if entry["id"] != "server:oa" || entry["name"] != "Name oa" || entry["user_id"] != "server:oa" || entry["user"] != nil {
		t.Errorf("entry %v", entry)
	}
	if got := column(w.do("admin", "GET", "/api/v1/tools/", "").list(), "id"); got != "server:mcp:mc server:oa server:private" {
		t.Errorf("an administrator sees %s", got)
	}
	if got := column(w.do("user", "GET", "/api/v1/tools/?query=NAME+m", "").list(), "id"); got != "server:mcp:mc" {
		t.Errorf("found %s", got)
	}
	w.do("user", "GET", "/api/v1/tools/id/server:oa", "").status(404)
	w.do("user", "GET", "/api/v1/tools/id/server:mcp:nope/specs", "").detail(404, "Tool not found")
	w.do("user", "GET", "/api/v1/tools/id/server:oa/specs", "").detail(404, "Tool not found")
	w.do("user", "GET", "/api/v1/tools/id/server:mcp:mc/specs", "").detail(502, "Unable to load tools")

	w.do("admin", "POST", path+"/verify", whole).is(200, `{"openapi":"3.0.0","info":{"title":"T"},"paths":{"/a":{"get":{"operationId":"a"}}}}`)
	w.do("admin", "POST", path+"/verify", all[3]).detail(400, "Failed to connect to the tool server")
	w.do("admin", "POST", path+"/verify", all[0]).detail(400, "Failed to create MCP client")
	w.do("admin", "POST", path+"/verify", `{}`).status(422)
	w.do("user", "POST", path+"/verify", whole).status(401)
	w.do("admin", "POST", path, list()).is(200, list())
	w.do("user", "GET", "/api/v1/tools/", "").is(200, `[]`)
}

func TestTerminals(t *testing.T) {
	var seen *http.Request
	var sent string
	term := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen, sent = r, string(body)
		switch r.URL.Path {
		case "/api/config":
			fmt.Fprint(w, `{"features":{}}`)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Set-Cookie", "token=stolen")
			fmt.Fprint(w, "<script>")
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/big":
			_, _ = w.Write(make([]byte, maxForwarded+1))
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"Not Found"}`)
		}
	}))
	defer term.Close()
	w := newWorld(t)
	const path = "/api/v1/configs/terminal_servers"
	terminal := func(id, url, more string) string {
		return `{"id":"` + id + `","url":"` + url + `","name":"T","key":"hidden-key","config":{"access_grants":` + everybody + `}` + more + `}`
	}
	all := []string{terminal("t", term.URL, ""), terminal("off", term.URL, `,"enabled":false`), terminal("down", "http://127.0.0.1:1", ""),
		strings.ReplaceAll(terminal("private", term.URL, ""), everybody, "[]")}
	w.do("admin", "POST", path, `{"TERMINAL_SERVER_CONNECTIONS":[{"id":"x"}]}`).is(422,
		`{"detail":[{"type":"missing","loc":["body","TERMINAL_SERVER_CONNECTIONS",0,"url"],"msg":"Field required","input":{"id":"x"}}]}`)
	stored := w.do("admin", "POST", path, `{"TERMINAL_SERVER_CONNECTIONS":[`+strings.Join(all, ",")+`]}`).status(200)
	first := stored.object()["TERMINAL_SERVER_CONNECTIONS"].([]any)[0].(map[string]any)
	if first["path"] != "/openapi.json" || first["auth_type"] != "bearer" || first["enabled"] != true || first["server_type"] != nil || first["key"] != "hidden-key" {
		t.Errorf("stored %v", first)
	}
	w.do("user", "GET", "/api/v1/terminals/", "").is(200, `[{"id":"t","url":"`+term.URL+`","name":"T","contexts":{},"config":{"chat_uploads":"default"}},
		{"id":"down","url":"http://127.0.0.1:1","name":"T","contexts":{},"config":{"chat_uploads":"default"}}]`)
	w.do("admin", "POST", path+"/verify", all[0]).is(200, `{"status":true,"type":"terminal"}`)
	w.do("admin", "POST", path+"/verify", all[2]).detail(400, "Failed to connect to the terminal server")

	const proxy = "/api/v1/terminals/"
	w.do("user", "POST", proxy+"t/files/a%2Fb%20c?path=/x%20y", `{"a":1}`).is(404, `{"detail":"Not Found"}`)
	if seen.Method != "POST" || seen.RequestURI != "/files/a%2Fb%20c?path=/x%20y" || sent != `{"a":1}` || seen.Header.Get("Authorization") != "Bearer hidden-key" ||
		seen.Header.Get("X-User-Id") != w.ids["user"] {
		t.Errorf("the terminal saw %s %s %q %v", seen.Method, seen.RequestURI, sent, seen.Header)
	}
	page := w.do("user", "GET", proxy+"t/page", "").status(200)
	if page.head.Get("Content-Security-Policy") != "sandbox" || page.head.Get("Set-Cookie") != "" || page.head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", page.head)
	}
	if away := w.do("user", "GET", proxy+"t/away", "").status(302); away.head.Get("Location") != "" {
		t.Errorf("headers %v", away.head)
	}
	w.do("user", "GET", proxy+"nope/x", "").is(404, `{"error":"Terminal server 'nope' not found"}`)
	w.do("user", "GET", proxy+"off/x", "").is(403, `{"error":"Terminal server disabled"}`)
	w.do("user", "GET", proxy+"private/x", "").is(403, `{"error":"Access denied"}`)
	w.do("user", "GET", proxy+"down/x", "").status(502)
	w.do("user", "GET", proxy+"t/big", "").status(502)
	for _, bad := range []string{"..%2Fx", "a/%2e%2e/x", "%252e%252e/x", "a%5c..%5cx"} {
		w.do("user", "GET", proxy+"t/"+bad, "").is(400, `{"error":"Invalid path"}`)
	}
}
