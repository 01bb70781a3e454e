package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
)

// made is the id of what a request made.
func (r *reply) made() string { return r.status(200).object()["id"].(string) }

func TestFolders(t *testing.T) {
	w := newWorld(t)
	got := w.do("user", "POST", "/api/v1/folders/", `{"name":"Work","data":{"system_prompt":"p","tool_ids":["t"]}}`).status(200).object()
	work := got["id"].(string)
	if fmt.Sprintln(got["user_id"], got["parent_id"], got["is_expanded"], got["meta"], got["items"]) != w.ids["user"]+" <nil> false <nil> <nil>\n" {
		t.Errorf("made: %v", got)
	}
	w.do("user", "POST", "/api/v1/folders/", `{"name":"wORK"}`).detail(400, "[ERROR: Folder already exists]")
	w.do("user", "POST", "/api/v1/folders/", `{"name":"x","odd":1}`).status(422)
	w.do("user", "POST", "/api/v1/folders/", `{}`).status(422)
	w.do("user", "POST", "/api/v1/folders/", `{"name":"x","parent_id":"none"}`).detail(404, fault.TextNotFound)
	sub := w.do("user", "POST", "/api/v1/folders/", `{"name":"wORK","parent_id":"`+work+`"}`).made()
	w.do("user", "POST", "/api/v1/folders/"+sub+"/update", `{"data":{"a":1},"meta":{"icon":"x"}}`).status(200)
	got = w.do("user", "POST", "/api/v1/folders/"+sub+"/update", `{"name":"Sub","data":{"b":2}}`).status(200).object()
	if fmt.Sprintln(got["name"], got["data"], got["meta"]) != "Sub map[a:1 b:2] map[icon:x]\n" {
		t.Errorf("changed: %v", got)
	}
	w.do("user", "POST", "/api/v1/folders/"+sub+"/update/expanded", `{"is_expanded":true}`).status(200)
	w.do("user", "POST", "/api/v1/folders/"+sub+"/update/expanded", `{}`).status(422)
	w.do("user", "POST", "/api/v1/folders/"+work+"/update/parent", `{"parent_id":"`+sub+`"}`).
		detail(400, "[ERROR: Cannot move a folder into itself or one of its subfolders]")
	list := w.do("user", "GET", "/api/v1/folders/", "").status(200).list()
	if column(list, "name") != "Sub Work" || column(list, "parent_id") != " "+work {
		t.Errorf("list: %v", list)
	}
	w.do("user", "POST", "/api/v1/folders/"+sub+"/update/parent", `{"parent_id":null}`).status(200)
	if got := w.do("user", "GET", "/api/v1/folders/"+sub, "").status(200).object(); got["parent_id"] != nil || got["write_access"] != true || got["is_expanded"] != true {
		t.Errorf("read: %v", got)
	}
}

func TestFoldersAreTheirOwners(t *testing.T) {
	w := newWorld(t)
	mine := w.do("user", "POST", "/api/v1/folders/", `{"name":"Mine"}`).made()
	theirs := w.do("other", "POST", "/api/v1/folders/", `{"name":"Theirs"}`).made()
	chat := w.do("other", "POST", "/api/v1/chats/new", `{"chat":{"title":"c"},"folder_id":"`+theirs+`"}`).made()
	for _, path := range []string{mine, mine + "/update", mine + "/update/parent", mine + "/update/expanded"} {
		body, method := `{"is_expanded":true}`, "POST"
		switch {
		case path == mine:
			w.do("other", "GET", "/api/v1/folders/"+path, "").detail(404, fault.TextNotFound)
			method = "DELETE"
		case !strings.HasSuffix(path, "expanded"):
			body = "{}"
		}
		w.do("other", method, "/api/v1/folders/"+path, body).detail(404, fault.TextNotFound)
	}
	w.do("other", "POST", "/api/v1/folders/"+theirs+"/update/parent", `{"parent_id":"`+mine+`"}`).detail(404, fault.TextNotFound)
	w.do("other", "POST", "/api/v1/chats/new", `{"chat":{},"folder_id":"`+mine+`"}`).detail(404, fault.TextNotFound)
	w.do("other", "POST", "/api/v1/chats/"+chat+"/folder", `{"folder_id":"`+mine+`"}`).detail(404, fault.TextNotFound)
	w.do("user", "POST", "/api/v1/chats/"+chat+"/folder", `{"folder_id":null}`).status(401)
	w.do("user", "GET", "/api/v1/chats/folder/"+theirs, "").is(200, "[]")
	w.do("user", "GET", "/api/v1/chats/folder/"+theirs+"/list", "").is(200, "[]")
	w.do("admin", "POST", "/api/chat/completions", `{"model":"stub-model","id":"m","parent_id":null,"session_id":"s","folder_id":"`+mine+`",
		"user_message":{"id":"u","role":"user","content":"x"},"messages":[]}`).status(404)
	if got := w.do("other", "GET", "/api/v1/chats/"+chat, "").status(200).object()["folder_id"]; got != theirs {
		t.Errorf("the chat has moved to %v", got)
	}
	w.permit("features", "folders", false)
	w.do("other", "GET", "/api/v1/folders/", "").detail(403, fault.TextProhibited)
	w.do("admin", "GET", "/api/v1/folders/", "").status(200)
	if _, err := w.server.Accounts.Change(t.Context(), map[string]any{"ENABLE_FOLDERS": false}, nil); err != nil {
		t.Fatal(err)
	}
	w.do("admin", "GET", "/api/v1/folders/", "").detail(403, fault.TextProhibited)
}

// permit sets a permission that everybody has by default.
func (w *world) permit(section, name string, on bool) {
	w.t.Helper()
	if _, err := w.server.Accounts.Change(w.t.Context(), nil, access.Permissions{section: {name: on}}); err != nil {
		w.t.Fatal(err)
	}
}

func TestChatsInFolders(t *testing.T) {
	w := newWorld(t)
	folder := w.do("user", "POST", "/api/v1/folders/", `{"name":"F"}`).made()
	below := w.do("user", "POST", "/api/v1/folders/", `{"name":"G","parent_id":"`+folder+`"}`).made()
	free := w.do("user", "POST", "/api/v1/chats/new", `{"chat":{"title":"free"}}`).made()
	in := w.do("user", "POST", "/api/v1/chats/new", `{"chat":{"title":"in"},"folder_id":"`+folder+`"}`).made()
	deep := w.do("user", "POST", "/api/v1/chats/new", `{"chat":{"title":"deep"}}`).made()
	if got := w.do("user", "POST", "/api/v1/chats/"+deep+"/folder", `{"folder_id":"`+below+`"}`).status(200).object(); got["folder_id"] != below {
		t.Errorf("moved: %v", got)
	}
	titles := func(path string) string { return column(w.do("user", "GET", path, "").status(200).list(), "title") }
	for path, want := range map[string]string{
		"/api/v1/chats/": "free", "/api/v1/chats/?page=1": "free", "/api/v1/chats/?page=2": "", "/api/v1/chats/?include_folders=true": "deep free in",
		"/api/v1/chats/folder/" + folder: "deep in", "/api/v1/chats/folder/" + folder + "/list": "in", "/api/v1/chats/folder/" + below + "/list?page=1": "deep",
	} {
		if got := titles(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	w.do("user", "DELETE", "/api/v1/folders/"+below+"?delete_contents=false", "").is(200, "true")
	if got := titles("/api/v1/chats/"); got != "deep free" {
		t.Errorf("after deleting the lower folder alone: %q", got)
	}
	w.permit("chat", "delete", false)
	w.do("user", "DELETE", "/api/v1/folders/"+folder, "").detail(403, fault.TextProhibited)
	w.do("user", "GET", "/api/v1/chats/"+in, "").status(200)
	w.permit("chat", "delete", true)
	w.do("user", "DELETE", "/api/v1/folders/"+folder, "").is(200, "true")
	w.do("user", "GET", "/api/v1/folders/", "").is(200, "[]")
	w.do("user", "GET", "/api/v1/chats/"+in, "").status(401)
	w.do("user", "GET", "/api/v1/chats/"+free, "").status(200)
}
