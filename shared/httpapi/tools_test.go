package httpapi

import (
	"strings"
	"testing"

	"toolrounds/shared/fault"
)

const (
	code   = `class Tools:\n  def greet(self): pass\n`
	valved = `class Tools:\n  class Valves: pass\n  class UserValves: pass\n  def f(self): pass\n`
)

func (w *world) makeTool(who, id, source, more string) *reply {
	w.t.Helper()
	return w.do(who, "POST", "/api/v1/tools/create", `{"id":"`+id+`","name":"`+id+`","content":"`+source+`","meta":{"description":"d"}`+more+`}`)
}

func TestToolRoutes(t *testing.T) {
	w := newWorld(t)
	path := func(id, rest string) string { return "/api/v1/tools/id/" + id + rest }
	made := w.makeTool("admin", "Kit", code, "").status(200).object()
	for _, k := range []string{"version_id", "user_id", "created_at", "updated_at", "access_grants", "meta"} {
		if made[k] == nil {
			t.Errorf("no %s in %v", k, made)
		}
	}
	if _, has := made["content"]; has || made["id"] != "kit" {
		t.Errorf("got %v", made)
	}
	w.makeTool("admin", "KIT", code, "").detail(400, "Uh-oh! This id is already registered. Please choose another id string.")
	w.makeTool("admin", "a-b", code, "").detail(400, "Only alphanumeric characters and underscores are allowed in the id")
	w.makeTool("admin", "empty", "", "").detail(400, "[ERROR: Error creating tool] No Tools class found in the module")
	w.makeTool("user", "mine", code, "").detail(401, fault.TextUnauth)
	w.do("admin", "POST", "/api/v1/tools/create", `{"id":"x","name":"x"}`).is(422, `{"detail":[
		{"type":"missing","loc":["body","content"],"msg":"Field required","input":{"id":"x","name":"x"}},
		{"type":"missing","loc":["body","meta"],"msg":"Field required","input":{"id":"x","name":"x"}}]}`)
	w.do("admin", "POST", "/api/v1/tools/create", `{"id":"x","name":"x","content":"c","meta":{"description":5,"manifest":[]}}`).is(422, `{"detail":[
		{"type":"string_type","loc":["body","meta","description"],"msg":"Input should be a valid string","input":5},
		{"type":"dict_type","loc":["body","meta","manifest"],"msg":"Input should be a valid dictionary","input":[]}]}`)

	read := w.do("admin", "GET", path("kit", ""), "").status(200)
	if o := read.object(); o["write_access"] != true || !strings.HasPrefix(o["content"].(string), "class Tools") || !strings.Contains(string(read.body), `"<b>"`) {
		t.Errorf("got %s", read.body)
	}
	for _, id := range []string{"none", "KIT", "server:x", "%C3%A4"} {
		w.do("admin", "GET", path(id, ""), "").detail(404, fault.TextNotFound)
	}
	w.do("admin", "GET", path("server:mcp:x", "/specs"), "").detail(404, "Tool not found")
	w.do("user", "GET", path("kit", ""), "").detail(401, fault.TextProhibited)
	w.do("user", "GET", "/api/v1/tools/", "").is(200, "[]")

	form := `{"id":"kit","name":"New name","content":"` + strings.Replace(code, "greet", "welcome", 1) + `","meta":{}}`
	w.do("user", "POST", path("kit", "/update"), form).detail(401, fault.TextUnauth)
	w.do("admin", "POST", path("none", "/update"), form).detail(401, fault.TextNotFound)
	w.do("admin", "POST", path("kit", "/update"), `{"id":"kit","name":"x","content":"","meta":{}}`).detail(400, "No Tools class found in the module")
	if got := w.do("admin", "POST", path("kit", "/update"), form).status(200); !strings.Contains(string(got.body), `"welcome"`) || got.object()["version_id"] == made["version_id"] {
		t.Errorf("got %s", got.body)
	}

	w.do("admin", "POST", path("kit", "/access/update"), `{}`).status(422)
	w.do("admin", "POST", path("kit", "/access/update"), `{"access_grants":[7]}`).is(422, `{"detail":[{"type":"dict_type","loc":["body","access_grants",0],"msg":"Input should be a valid dictionary","input":7}]}`)
	w.do("user", "POST", path("kit", "/access/update"), `{"access_grants":[]}`).detail(401, fault.TextUnauth)
	w.do("user", "POST", path("none", "/access/update"), `{"access_grants":[]}`).detail(404, fault.TextNotFound)
	w.do("admin", "POST", path("kit", "/access/update"), `{"access_grants":[{"principal_type":"user","principal_id":"{user}","permission":"read"}]}`).status(200)
	got := w.do("user", "GET", path("kit", ""), "").status(200).object()
	if _, has := got["content"]; has || got["write_access"] != false || got["specs"] == nil {
		t.Errorf("got %v", got)
	}
	w.do("other", "GET", path("kit", ""), "").status(401)
	listed := w.do("user", "GET", "/api/v1/tools/?query=NEW", "").status(200).list()
	if len(listed) != 1 || listed[0]["user"].(map[string]any)["role"] != "admin" || listed[0]["content"] != nil || listed[0]["has_user_valves"] != false {
		t.Errorf("got %v", listed)
	}
	if l := w.do("user", "GET", "/api/v1/tools/list", "").status(200).list(); len(l) != 1 || l[0]["write_access"] != false {
		t.Errorf("got %v", l)
	}
	w.do("user", "GET", "/api/v1/tools/export", "").detail(401, fault.TextUnauth)
	if l := w.do("admin", "GET", "/api/v1/tools/export", "").status(200).list(); len(l) != 1 || !strings.Contains(l[0]["content"].(string), "welcome") {
		t.Errorf("got %v", l)
	}
	w.do("user", "DELETE", path("kit", "/delete"), "").detail(401, fault.TextUnauth)
	w.do("admin", "DELETE", path("kit", "/delete"), "").is(200, "true")
	w.do("admin", "DELETE", path("kit", "/delete"), "").detail(401, fault.TextNotFound)
}

func TestUsersWithThePermissionMakeTheirOwn(t *testing.T) {
	w := newWorld(t)
	g := w.do("admin", "POST", "/api/v1/groups/create", `{"name":"g","description":"","permissions":{"workspace":{"tools":true}}}`).status(200).object()["id"].(string)
	w.do("admin", "POST", "/api/v1/groups/id/"+g+"/users/add", `{"user_ids":["{user}"]}`).status(200)
	if got := w.makeTool("user", "mine", code, ","+public).status(200).object(); len(got["access_grants"].([]any)) != 0 || got["user_id"] != w.ids["user"] {
		t.Errorf("shared without permission: %v", got)
	}
	path := "/api/v1/tools/id/mine/access/update"
	w.do("user", "POST", path, `{`+public+`}`).detail(403, "You do not have permission to share with the requested audience")
	w.do("user", "POST", path, `{"access_grants":[]}`).status(200)
	w.do("admin", "POST", "/api/v1/groups/id/"+g+"/update", `{"name":"g","description":"","permissions":{"workspace":{"tools":true},"sharing":{"public_tools":true}}}`).status(200)
	w.do("user", "POST", path, `{`+public+`}`).status(200)
	w.do("other", "GET", "/api/v1/tools/id/mine", "").status(200)
	w.do("user", "DELETE", "/api/v1/tools/id/mine/delete", "").is(200, "true")
}

func TestLoadURLRoute(t *testing.T) {
	w := newWorld(t)
	load := func(who, body string) *reply { return w.do(who, "POST", "/api/v1/tools/load/url", body) }
	load("user", `{"url":"http://127.0.0.1/x.py"}`).detail(401, fault.TextProhibited)
	load("admin", `{"url":"no url"}`).status(422)
	load("admin", `{}`).is(422, `{"detail":[{"type":"missing","loc":["body","url"],"msg":"Field required","input":{}}]}`)
	load("admin", `{"url":5}`).status(422)
	load("admin", `{"url":"ftp://x/y.py"}`).is(422, `{"detail":[{"type":"url_scheme","loc":["body","url"],"msg":"URL scheme should be 'http' or 'https'","input":"ftp://x/y.py"}]}`)
	load("admin", `{"url":"http://127.0.0.1:1/x.py"}`).detail(500, "[ERROR: Error fetching tool]")
}

func TestValvesRoutes(t *testing.T) {
	w := newWorld(t)
	w.makeTool("admin", "kit", valved, ","+public).status(200)
	w.makeTool("admin", "plain", code, ","+public).status(200)
	w.makeTool("admin", "mine", valved, "").status(200)
	do := func(who, method, id, rest, body string) *reply {
		w.t.Helper()
		return w.do(who, method, "/api/v1/tools/id/"+id+"/valves"+rest, body)
	}
	do("admin", "GET", "kit", "", "").is(200, "{}")
	if got := do("admin", "GET", "kit", "/spec", "").status(200); !strings.Contains(string(got.body), `{"z":1,"a":2}`) {
		t.Errorf("the order of the fields is lost: %s", got.body)
	}
	do("admin", "POST", "kit", "/update", `{"limit":9007199254740993}`).is(200, `{"limit":9007199254740993}`)
	do("admin", "POST", "kit", "/update", `{"limit":99}`).detail(400, "[ERROR: Error updating tool valves]")
	do("user", "POST", "kit", "/user/update", `{"limit":99}`).detail(400, "[ERROR: Error updating tool user valves]")
	do("admin", "GET", "kit", "", "").is(200, `{"limit":9007199254740993}`)
	do("admin", "POST", "kit", "/update", `[1]`).is(422, `{"detail":[{"type":"dict_type","loc":["body"],"msg":"Input should be a valid dictionary","input":[1]}]}`)
	do("admin", "POST", "kit", "/update", `null`).status(422)
	do("user", "POST", "kit", "/user/update", `{"limit":1}`).is(200, `{"limit":1}`)
	do("user", "GET", "kit", "/user", "").is(200, `{"limit":1}`)
	do("admin", "GET", "kit", "/user", "").is(200, `{}`)
	do("user", "GET", "kit", "/user/spec", "").status(200)

	do("user", "GET", "kit", "", "").detail(401, fault.TextProhibited)
	do("user", "GET", "kit", "/spec", "").detail(401, fault.TextProhibited)
	do("user", "POST", "kit", "/update", `{}`).detail(400, fault.TextProhibited)
	do("user", "GET", "mine", "/user", "").detail(401, fault.TextProhibited)
	do("user", "GET", "mine", "/user/spec", "").detail(401, fault.TextProhibited)
	do("user", "POST", "mine", "/user/update", `{}`).detail(401, fault.TextProhibited)

	do("admin", "GET", "plain", "", "").is(200, "{}")
	do("admin", "GET", "plain", "/spec", "").is(200, "null")
	do("admin", "GET", "plain", "/user/spec", "").is(200, "null")
	do("admin", "POST", "plain", "/update", `{}`).detail(401, fault.TextNotFound)
	do("admin", "POST", "plain", "/user/update", `{}`).detail(401, fault.TextNotFound)
	for _, rest := range []string{"", "/spec", "/user", "/user/spec"} {
		do("admin", "GET", "none", rest, "").detail(404, fault.TextNotFound)
	}
	do("admin", "POST", "none", "/update", `{}`).detail(401, fault.TextNotFound)
	do("admin", "POST", "none", "/user/update", `{}`).detail(404, fault.TextNotFound)
}
