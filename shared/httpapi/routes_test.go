package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"toolrounds/shared/fault"
)

var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// concrete fills the wildcards of a pattern.
func concrete(pattern, with string) string {
	return wildcard.ReplaceAllLiteralString(pattern, with)
}

func TestEveryRouteAsksWhoCalls(t *testing.T) {
	w := newWorld(t)
	for _, route := range w.server.routes() {
		path := concrete(route.Pattern, "x")
		anonymous := w.do("", route.Method, path, "{}")
		if route.Who == Open {
			if anonymous.code == 401 && strings.Contains(string(anonymous.body), "Not authenticated") {
				t.Errorf("%s %s is not open", route.Method, path)
			}
			continue
		}
		anonymous.detail(401, "Not authenticated")
		bad := httptest.NewRequest(route.Method, path, strings.NewReader("{}"))
		bad.Header.Set("Authorization", "Bearer sk-0000")
		w.send(bad).detail(401, "Your session has expired or the token is invalid. Please sign in again.")
		if route.Who == Admin {
			w.do("user", route.Method, path, "{}").detail(401, fault.TextProhibited)
		}
		if route.Who == Person {
			w.do("user", route.Method, path, "{}").detail(403, "A human session is required.")
		}
	}
}

func TestPendingAccountsWait(t *testing.T) {
	w := newWorld(t)
	w.do("admin", "POST", "/api/v1/auths/add", `{"name":"P","email":"pending@example.com","password":"password123"}`).status(200)
	w.enter("pending")
	for _, route := range w.server.routes() {
		if route.Who == User || route.Who == Admin {
			w.do("pending-session", route.Method, concrete(route.Pattern, "x"), "{}").detail(401, fault.TextProhibited)
		}
	}
	if got := w.do("pending-session", "GET", "/api/v1/auths/", "").status(200).object(); got["role"] != "pending" {
		t.Errorf("got %v", got)
	}
}

// odd are bodies of every wrong kind: whatever a route makes of them, it answers JSON and does not break.
var odd = []string{"", "{", "null", "[]", `"x"`, "1", "{}", `{"id":5,"name":[],"content":{},"meta":[],"params":"x","access_grants":{},"is_active":"maybe",
	"email":7,"password":[],"role":{},"url":7,"user_ids":"x","description":null,"permissions":[],"TOOL_SERVER_CONNECTIONS":{},"chat":[]}`,
	`{"access_grants":[1,null,{"principal_type":7}],"user_ids":[1],"id":"x","name":"x","content":"class Tools","meta":{"description":5,"manifest":[]}}`,
	"{\"a\":\"\xff\"}", `{"a":1}{"b":2}`, "[" + strings.Repeat("[", 20000)}

func TestNothingBreaksARoute(t *testing.T) {
	w := newWorld(t)
	for _, route := range w.server.routes() {
		for _, id := range []string{"x", "%00", "a%2Fb", "%23", "..%2F..", "%25", strings.Repeat("z", 300), "%E4%B8%AD", "server:mcp:x"} {
			if route.Pattern == concrete(route.Pattern, "") && id != "x" {
				continue
			}
			for _, body := range odd {
				got := w.do("admin-session", route.Method, concrete(route.Pattern, id), body)
				if got.code == 401 && strings.Contains(string(got.body), "session has expired") {
					t.Fatalf("%s: the session has gone, so nothing is tested", got.what)
				}
				if got.code >= 500 && got.code != 501 || !strings.HasPrefix(got.head.Get("Content-Type"), "application/json") && got.code != 200 {
					t.Errorf("%s with %.40q: %d %s", got.what, body, got.code, got.body)
				}
			}
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/nope", "/api/v1/nope", "/api/v1//tools", "/api/v1/tools/../tools", "/api/v1/tools/id", "/api/v1/tools/id/"} {
		w.do("admin", "GET", path, "").detail(404, "Not Found")
	}
	w.do("admin", "PUT", "/api/v1/tools/", "").detail(405, "Method Not Allowed")
	if got := w.do("", "POST", "/health", "").detail(405, "Method Not Allowed"); got.head.Get("Allow") != "GET" {
		t.Errorf("allow %q", got.head.Get("Allow"))
	}
	w.do("user", "GET", "/api/v1/tools", "").is(200, "[]")
	w.do("user", "GET", "/api/v1/tools/?query=x", "").is(200, "[]")
	w.do("user", "GET", "/api/models/", "").status(200)
	w.do("", "HEAD", "/health/", "").status(200)
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	create := func(body string) *reply { return w.do("admin", "POST", "/api/v1/models/create", body) }
	invalid := func(at int, why string) string {
		return fmt.Sprintf(`{"detail":[{"type":"json_invalid","loc":["body",%d],"msg":"JSON decode error","input":{},"ctx":{"error":%q}}]}`, at, why)
	}
	create("").is(422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}`)
	create("{bad").is(422, invalid(1, "Expecting property name enclosed in double quotes"))
	create(`{"id":"x"} x`).is(422, invalid(11, "Extra data"))
	create(`{"ä":x}`).is(422, invalid(5, "Expecting value"))
	create(`{"a" 1}`).is(422, invalid(5, "Expecting ':' delimiter"))
	create(`{"a":1 "b"}`).is(422, invalid(7, "Expecting ',' delimiter"))
	create(`[]`).is(422, `{"detail":[{"type":"model_attributes_type","loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","input":[]}]}`)
	create(`{"id":"mm2"}`).is(422, `{"detail":[{"type":"missing","loc":["body","name"],"msg":"Field required","input":{"id":"mm2"}},
		{"type":"missing","loc":["body","meta"],"msg":"Field required","input":{"id":"mm2"}},{"type":"missing","loc":["body","params"],"msg":"Field required","input":{"id":"mm2"}}]}`)
	create(`{"id":5,"name":"x","meta":[],"params":"x","is_active":"maybe","access_grants":{}}`).is(422, `{"detail":[
		{"type":"string_type","loc":["body","id"],"msg":"Input should be a valid string","input":5},
		{"type":"model_attributes_type","loc":["body","meta"],"msg":"Input should be a valid dictionary or object to extract fields from","input":[]},
		{"type":"model_attributes_type","loc":["body","params"],"msg":"Input should be a valid dictionary or object to extract fields from","input":"x"},
		{"type":"list_type","loc":["body","access_grants"],"msg":"Input should be a valid list","input":{}},
		{"type":"bool_parsing","loc":["body","is_active"],"msg":"Input should be a valid boolean, unable to interpret input","input":"maybe"}]}`)
	big := `{"id":"big","name":"x","meta":{"n":12345678901234567890123},"params":{"k":9007199254740993,"f":1.10}}`
	if got := string(create(big).status(200).body); !strings.Contains(got, "12345678901234567890123") || !strings.Contains(got, `"f":1.10`) {
		t.Errorf("numbers changed: %s", got)
	}
	large := `{"id":"` + strings.Repeat("x", MaxBody) + `"}`
	if got := create(large).status(413).object()["detail"].(string); !strings.Contains(got, "4.5 MB") {
		t.Errorf("got %q", got)
	}
	r := httptest.NewRequest("POST", "/api/v1/models/create", strings.NewReader(large)) // of unknown length
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+w.keys["admin"])
	w.send(r).status(413)
}

func TestDecodeIntoTypes(t *testing.T) {
	type in struct {
		Name string            `json:"name"`
		N    int               `json:"n"`
		Deep struct{ X []int } `json:"deep"`
	}
	for body, want := range map[string]string{
		`{"name":"x","n":1}`: "", `[]`: "model_attributes_type body", `{"name":5}`: "string_type name", `{"n":"x"}`: "int_type n",
		`{"deep":{"X":{}}}`: "list_type X", `{"n":1.5}`: "int_type n",
	} {
		err := decode(httptest.NewRequest("POST", "/", strings.NewReader(body)), &in{})
		got := ""
		if err != nil {
			_, detail := fault.Status(err)
			f := detail.([]fault.Field)[0]
			got = fmt.Sprint(f.Type, " ", f.Loc[len(f.Loc)-1])
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestBrowsersOfOtherOrigins(t *testing.T) {
	w := newWorld(t)
	ask := func(method, origin string) *reply {
		r := httptest.NewRequest(method, "/api/v1/tools/", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Headers", "authorization")
		return w.send(r)
	}
	got := ask("OPTIONS", "http://x.y").status(204)
	for k, v := range map[string]string{"Access-Control-Allow-Origin": "http://x.y", "Access-Control-Allow-Credentials": "true",
		"Access-Control-Allow-Headers": "authorization", "Vary": "Origin"} {
		if got.head.Get(k) != v {
			t.Errorf("%s: %q", k, got.head.Get(k))
		}
	}
	if got := ask("GET", "http://x.y").status(401); got.head.Get("Access-Control-Allow-Origin") != "http://x.y" {
		t.Error("a refusal is to be read too")
	}
	w = newWorld(t, func(d *Deps) { d.Origins = []string{"https://good.example"} })
	if got := ask("OPTIONS", "http://x.y"); got.head.Get("Access-Control-Allow-Origin") != "" {
		t.Error("any origin is allowed")
	}
	if got := ask("OPTIONS", "https://good.example"); got.head.Get("Access-Control-Allow-Origin") == "" {
		t.Error("the allowed origin is not")
	}
}

func TestRoutesOfOtherPackages(t *testing.T) {
	w := newWorld(t, func(d *Deps) {
		d.More = []Route{
			{"GET", "/more", User, func(w http.ResponseWriter, r *http.Request) error { return answer(w, 200, Caller(r).User.Name) }},
			{"GET", "/panic", Open, func(http.ResponseWriter, *http.Request) error { panic("<secret>") }},
			{"GET", "/error", Open, func(http.ResponseWriter, *http.Request) error { return fmt.Errorf("secret") }},
			{"GET", "/late", Open, func(w http.ResponseWriter, _ *http.Request) error {
				fmt.Fprint(w, "begun")
				return fmt.Errorf("secret")
			}},
		}
	})
	w.do("user", "GET", "/more", "").is(200, `"user"`)
	w.do("", "GET", "/panic", "").detail(500, "Internal Server Error")
	w.do("", "GET", "/error", "").detail(500, "Internal Server Error")
	if got := w.do("", "GET", "/late", "").status(200); string(got.body) != "begun" {
		t.Errorf("got %s", got.body)
	}
	r := httptest.NewRequest("GET", "/health", nil)
	r.Header.Set("X-Request-Id", "mine")
	if got := w.send(r); got.head.Get("X-Request-Id") != "mine" {
		t.Error("the request's id is lost")
	}
}
