package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"toolrounds/shared/fault"
)

func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	w.do("", "GET", "/health", "").is(200, `{"status":true}`)
	w.do("", "GET", "/api/version", "").is(200, `{"version":"1.2.3","deployment_id":""}`)
	open := `{"status":true,"name":"toolrounds","version":"1.2.3","default_locale":"","i18n":{},"oauth":{"providers":{},"auto_redirect":false},
		"features":{"slim":false,"auth":true,"auth_trusted_header":false,"enable_signup_password_confirmation":false,"enable_ldap":false,
		"enable_signup":false,"enable_login_form":true,"enable_websocket":true}}`
	w.do("", "GET", "/api/config", "").is(200, open)
	w.do("user", "GET", "/api/config", "").is(200, open) // a key is no person
	w.keys["bad"] = "not-a-token"
	w.do("bad", "GET", "/api/config", "").is(200, open)
	got := w.do("user-session", "GET", "/api/config", "").status(200).object()
	features := got["features"].(map[string]any)
	if features["enable_tools"] != true || features["enable_api_keys"] != true || features["enable_notes"] != false || got["permissions"] == nil {
		t.Errorf("got %v", got)
	}
	for _, path := range []string{"terminals/", "configs/banners", "notes/pinned", "folders/", "folders/shared", "functions/", "skills/"} {
		w.do("user", "GET", "/api/v1/"+path, "").is(200, "[]")
	}
	for path, key := range map[string]string{"tool_servers": "TOOL_SERVER_CONNECTIONS", "terminal_servers": "TERMINAL_SERVER_CONNECTIONS"} {
		path = "/api/v1/configs/" + path
		w.do("admin", "GET", path, "").is(200, `{"`+key+`":[]}`)
		w.do("admin", "POST", path, `{"`+key+`":[]}`).is(200, `{"`+key+`":[]}`)
		w.do("admin", "POST", path, `{}`).is(422, `{"detail":[{"type":"missing","loc":["body","`+key+`"],"msg":"Field required","input":{}}]}`)
	}
}

func TestSigningIn(t *testing.T) {
	w := newWorld(t)
	signin := func(body string) *reply { return w.do("", "POST", "/api/v1/auths/signin", body) }
	for _, body := range []string{`{}`, `{"email":5,"password":"x"}`, `{bad`, ``, `[]`} {
		signin(body).detail(422, "Invalid authentication request.")
	}
	signin(`{"email":"admin@example.com","password":"wrong"}`).detail(400, "The email or password provided is incorrect. Please check for typos and try logging in again.")
	got := signin(`{"email":"USER@example.com","password":"password123"}`).status(200)
	session := got.object()
	for _, k := range []string{"id", "name", "email", "role", "profile_image_url", "token", "token_type", "expires_at", "permissions"} {
		if session[k] == nil {
			t.Errorf("no %s in %v", k, session)
		}
	}
	cookie := got.head.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "token="+session["token"].(string)+";") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") || strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %s", cookie)
	}
	r := httptest.NewRequest("GET", "/api/v1/auths/", nil)
	r.Header.Set("X-Forwarded-Proto", "https")
	r.AddCookie(&http.Cookie{Name: "token", Value: session["token"].(string)})
	again := w.send(r).status(200)
	if o := again.object(); o["token"] != session["token"] || o["email"] != "user@example.com" || !strings.Contains(again.head.Get("Set-Cookie"), "Secure") {
		t.Errorf("got %v", o)
	}
	if got := w.do("", "POST", "/api/v1/auths/signout", "").is(200, `{"status":true}`); !strings.Contains(got.head.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("cookie %s", got.head.Get("Set-Cookie"))
	}
	w.do("", "POST", "/api/v1/auths/signup", `{"name":"x","email":"x@example.com","password":"password123"}`).detail(403, fault.TextProhibited)
	w.do("", "POST", "/api/v1/auths/signup", `{}`).detail(422, "Invalid authentication request.")
	w.do("user-session", "POST", "/api/v1/auths/update/password", `{"password":"password123","new_password":"new"}`).is(200, "true")
	w.do("user-session", "GET", "/api/v1/auths/", "").status(401)
	w.do("user", "GET", "/api/v1/users/user/settings", "").is(200, "null") // the key is not a session
}

func TestCredentialsInHeaders(t *testing.T) {
	w := newWorld(t)
	key, session := w.keys["user"], w.keys["user-session"]
	for i, c := range []struct {
		header map[string]string
		code   int
	}{
		{map[string]string{"Authorization": "bearer " + key}, 200}, {map[string]string{"Authorization": "Basic " + key}, 200},
		{map[string]string{"X-Api-Key": key}, 200}, {map[string]string{"X-Api-Key": session}, 200}, {map[string]string{"Cookie": "token=" + key}, 200},
		{map[string]string{"Authorization": key}, 401}, {map[string]string{"X-Api-Key": "sk-0000"}, 401},
		{map[string]string{"Authorization": "Bearer sk-0000", "X-Api-Key": key}, 401}, {map[string]string{"Cookie": "token=bad", "X-Api-Key": key}, 401},
	} {
		r := httptest.NewRequest("GET", "/api/v1/tools/", nil)
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		if got := w.send(r); got.code != c.code {
			t.Errorf("%d: %d %s", i, got.code, got.body)
		}
	}
}

func TestAPIKeysAndAccounts(t *testing.T) {
	w := newWorld(t)
	w.do("user", "GET", "/api/v1/auths/api_key", "").is(200, `{"api_key":"`+w.keys["user"]+`"}`)
	w.do("other", "DELETE", "/api/v1/auths/api_key", "").is(200, "true")
	w.do("other", "GET", "/api/v1/auths/api_key", "").status(401)
	w.do("other-session", "DELETE", "/api/v1/auths/api_key", "").is(200, "true")
	w.do("other-session", "GET", "/api/v1/auths/api_key", "").status(404)
	add := func(body string) *reply { return w.do("admin-session", "POST", "/api/v1/auths/add", body) }
	add(`{"name":"x","email":"ADMIN@example.com","password":"p"}`).status(400)
	add(`{"name":"x","email":"bad","password":"p"}`).status(400)
	add(`{"name":"x"}`).detail(422, "Invalid authentication request.")
	add(`{"name":"x","email":"x@example.com","password":"p","role":"boss"}`).detail(422, "Invalid authentication request.")
	w.do("user", "POST", "/api/v1/auths/add", `{"name":"x"}`).detail(401, fault.TextProhibited)

	config := w.do("admin", "GET", "/api/v1/auths/admin/config", "").status(200).object()
	if config["ENABLE_API_KEYS"] != true || config["JWT_EXPIRES_IN"] != "4w" {
		t.Errorf("got %v", config)
	}
	w.do("admin-session", "POST", "/api/v1/auths/admin/config", `{"ENABLE_API_KEYS":false}`).status(200)
	w.do("admin", "GET", "/api/models", "").detail(403, "Use of API key is not enabled in the environment.")
	w.do("user-session", "POST", "/api/v1/auths/api_key", "").status(403)
	w.do("admin-session", "POST", "/api/v1/auths/admin/config", `{"ENABLE_API_KEYS":true}`).status(200)
	w.do("admin", "POST", "/api/v1/auths/admin/config", `{"ENABLE_API_KEYS":"x"}`).status(422)
	w.do("user", "GET", "/api/v1/auths/admin/details", "").is(200, `{"name":"Admin","email":"admin@example.com"}`)

	users := w.do("admin", "GET", "/api/v1/users/?query=USER", "").status(200).object()
	record := users["users"].([]any)[0].(map[string]any)
	if users["total"] != json.Number("1") || record["email"] != "user@example.com" || record["group_ids"] == nil || record["password"] != nil {
		t.Errorf("got %v", users)
	}
	if got := w.do("admin", "GET", "/api/v1/users/?page=99999999999999", "").status(200).object(); got["total"] != json.Number("3") {
		t.Errorf("got %v", got)
	}
	w.do("user", "GET", "/api/v1/users/search?query=oth", "").status(200)
	w.do("admin", "GET", "/api/v1/users/{user}", "").status(200)
	w.do("admin", "GET", "/api/v1/users/nope", "").detail(400, fault.TextNotFound)
	w.do("admin", "POST", "/api/v1/users/{user}/update", `{"role":"user","name":"N","email":"user@example.com","profile_image_url":"/user.png","password":""}`).status(200)
	w.do("admin", "POST", "/api/v1/users/{user}/update", `{"email":"admin@example.com"}`).status(400)
	w.do("admin", "POST", "/api/v1/users/{admin}/update", `{"role":"user"}`).detail(403, "The requested action has been restricted as a security measure.")
	w.do("admin", "POST", "/api/v1/users/nope/update", `{"role":"user"}`).detail(400, fault.TextNotFound)
	w.do("admin", "DELETE", "/api/v1/users/{admin}", "").status(403)
	w.do("admin", "DELETE", "/api/v1/users/{other}", "").is(200, "true")
	w.do("other-session", "GET", "/api/models", "").status(401)
	w.do("user", "GET", "/api/v1/users/user/settings", "").is(200, "null")
	w.do("user", "POST", "/api/v1/users/user/settings/update", `{"ui":{"n":9007199254740993}}`).is(200, `{"ui":{"n":9007199254740993}}`)
	w.do("user", "GET", "/api/v1/users/user/settings", "").is(200, `{"ui":{"n":9007199254740993}}`)
	w.do("user", "POST", "/api/v1/auths/update/timezone", `{"timezone":"Europe/Berlin"}`).is(200, `{"status":true}`)
	w.do("user", "POST", "/api/v1/auths/update/profile", `{"name":"<New>","profile_image_url":"/user.png","bio":null}`).status(200)
	if got := w.do("user", "GET", "/api/v1/users/{user}/profile/image", "").status(200); strings.Contains(string(got.body), "<New>") || got.head.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("got %s", got.body)
	}
	w.do("admin", "POST", "/api/v1/users/default/permissions", `{"workspace":{"tools":5}}`).status(422)
	p := w.do("admin", "GET", "/api/v1/users/default/permissions", "").status(200)
	w.do("admin", "POST", "/api/v1/users/default/permissions", strings.Replace(string(p.body), `"tools":false`, `"tools":true`, 2)).status(200)
	if got := w.do("user", "GET", "/api/v1/users/permissions", "").status(200).object()["workspace"].(map[string]any); got["tools"] != true {
		t.Errorf("got %v", got)
	}
}

func TestGroupRoutes(t *testing.T) {
	w := newWorld(t)
	w.do("admin", "POST", "/api/v1/groups/create", `{"name":"g"}`).is(422, `{"detail":[{"type":"missing","loc":["body","description"],"msg":"Field required","input":{"name":"g"}}]}`)
	g := w.do("admin", "POST", "/api/v1/groups/create", `{"name":"g","description":"","permissions":{"workspace":{"tools":true}}}`).status(200).object()
	id := g["id"].(string)
	path := "/api/v1/groups/id/" + id
	for _, body := range []string{`{"user_ids":["{user}","nobody"]}`, `{}`} {
		if got := w.do("admin", "POST", path+"/users/add", body).status(200).object(); got["member_count"] != json.Number("1") {
			t.Errorf("got %v", got)
		}
	}
	if got := w.do("user", "GET", "/api/v1/groups/", "").status(200).list(); column(got, "id") != id {
		t.Errorf("got %v", got)
	}
	w.do("other", "GET", "/api/v1/groups/", "").is(200, "[]")
	w.do("user", "GET", "/api/v1/users/groups", "").status(200)
	w.do("admin", "GET", "/api/v1/users/{user}/groups", "").status(200)
	if got := w.do("admin", "POST", path+"/users", "").status(200).list(); column(got, "name") != "user" {
		t.Errorf("got %v", got)
	}
	if got := w.do("admin", "POST", path+"/update", `{"name":"h","description":"e"}`).status(200).object(); got["permissions"] == nil || got["name"] != "h" {
		t.Errorf("got %v", got)
	}
	w.do("admin", "POST", path+"/users/remove", `{"user_ids":["{user}"]}`).status(200)
	w.do("user", "GET", "/api/v1/groups/", "").is(200, "[]")
	w.do("admin", "DELETE", path+"/delete", "").is(200, "true")
	w.do("admin", "DELETE", path+"/delete", "").detail(404, "Group not found.")
	w.do("admin", "GET", path, "").detail(404, fault.TextNotFound)
	w.do("admin", "POST", path+"/users/add", `{}`).detail(404, "Group not found.")
}

const public = `"access_grants":[{"principal_type":"user","principal_id":"*","permission":"read"}]`

func TestModelRoutes(t *testing.T) {
	w := newWorld(t)
	create := func(who, body string) *reply { return w.do(who, "POST", "/api/v1/models/create", body) }
	create("admin", `{"id":"m","base_model_id":"stub-model","name":"M","meta":{"toolIds":["x"]},"params":{"system":"secret"},`+public+`}`).status(200)
	create("admin", `{"id":"m","name":"M","meta":{},"params":{}}`).detail(401, "Uh-oh! This model id is already registered. Please choose another model id string.")
	create("admin", `{"id":"p","base_model_id":"stub-model","name":"P","meta":{},"params":{}}`).status(200)
	create("user", `{"id":"q","name":"Q","meta":{},"params":{}}`).detail(401, fault.TextUnauth)
	list := func(who string) string {
		var all []map[string]any
		for _, m := range w.do(who, "GET", "/api/models", "").status(200).object()["data"].([]any) {
			all = append(all, m.(map[string]any))
		}
		return column(all, "id")
	}
	if list("admin") != "m p stub-model" || list("user") != "m" {
		t.Errorf("admin %q, user %q", list("admin"), list("user"))
	}
	for who, want := range map[string]string{"admin": `{"system":"secret"}`, "user": `{}`} {
		m := w.do(who, "GET", "/api/v1/models/model?id=m", "").status(200).object()
		params, _ := json.Marshal(m["params"])
		if string(params) != want || m["write_access"] != (who == "admin") {
			t.Errorf("%s: %v", who, m)
		}
		items := w.do(who, "GET", "/api/v1/models/list", "").status(200).object()
		if who == "user" && strings.Contains(string(w.do(who, "GET", "/api/v1/models/list", "").body), "secret") || items["total"] == nil {
			t.Errorf("%s: %v", who, items)
		}
	}
	w.do("user", "GET", "/api/v1/models/model?id=p", "").detail(401, fault.TextProhibited)
	w.do("admin", "GET", "/api/v1/models/model?id=none", "").detail(404, fault.TextNotFound)
	w.do("admin", "GET", "/api/v1/models/model", "").is(422, `{"detail":[{"type":"missing","loc":["query","id"],"msg":"Field required","input":null}]}`)
	update := func(who, id string) *reply {
		return w.do(who, "POST", "/api/v1/models/model/update", `{"id":"`+id+`","base_model_id":"stub-model","name":"R","meta":{},"params":{}}`)
	}
	if got := update("admin", "m").status(200).object(); got["name"] != "R" || len(got["access_grants"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	update("user", "m").detail(400, fault.TextProhibited)
	update("admin", "none").detail(401, fault.TextNotFound)
	w.do("user", "POST", "/api/v1/models/model/toggle?id=m", "").detail(401, fault.TextUnauth)
	w.do("admin", "POST", "/api/v1/models/model/toggle?id=none", "").detail(401, fault.TextNotFound)
	w.do("admin", "POST", "/api/v1/models/model/toggle?id=m", "").status(200)
	if list("admin") != "p stub-model" {
		t.Errorf("an inactive model is listed: %s", list("admin"))
	}
	grant := func(who, id, grants string) *reply {
		return w.do(who, "POST", "/api/v1/models/model/access/update", `{"id":"`+id+`",`+grants+`}`)
	}
	grant("admin", "p", public).status(200)
	grant("admin", "stub-model", public).status(200) // makes the entry
	grant("user", "p", `"access_grants":[]`).detail(400, fault.TextProhibited)
	grant("user", "none", `"access_grants":[]`).detail(403, fault.TextProhibited)
	if list("user") != "p stub-model" {
		t.Errorf("user %q", list("user"))
	}
	w.do("user", "GET", "/api/v1/models/export", "").detail(401, fault.TextUnauth)
	w.do("admin", "GET", "/api/v1/models/export", "").status(200)
	w.do("admin", "GET", "/api/v1/models/base", "").status(200)
	w.do("admin", "GET", "/api/v1/models/tags", "").is(200, "[]")
	w.do("user", "POST", "/api/v1/models/model/delete", `{"id":"p"}`).detail(401, fault.TextUnauth)
	w.do("admin", "POST", "/api/v1/models/model/delete", `{"id":"p"}`).is(200, "true")
	w.do("admin", "POST", "/api/v1/models/model/delete", `{"id":"p"}`).detail(401, fault.TextNotFound)
	w.do("admin", "POST", "/api/v1/models/model/delete", `{}`).status(422)
}
