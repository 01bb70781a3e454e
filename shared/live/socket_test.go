package live

import (
	"net/http"
	"strings"
	"testing"
)

func TestConnecting(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		query map[string]string
		want  int
	}{
		{map[string]string{"EIO": "4", "transport": "websocket"}, http.StatusOK},
		{map[string]string{"EIO": "3", "transport": "websocket"}, http.StatusBadRequest},
		{map[string]string{"EIO": "4", "transport": "polling"}, http.StatusBadRequest},
		{map[string]string{"transport": "websocket"}, http.StatusBadRequest},
		{nil, http.StatusOK},
		{map[string]string{"token": "sk-ann"}, http.StatusOK},
		{map[string]string{"token": "bad"}, http.StatusUnauthorized},
		{map[string]string{"token": ""}, http.StatusUnauthorized},
	} {
		if got := w.route(t, "x", "$connect", "", c.query); got != c.want {
			t.Errorf("%v: %d, want %d", c.query, got, c.want)
		}
	}
}

func TestSocketIO(t *testing.T) {
	w := newWorld(t)
	w.route(t, "a", "$connect", "", socketIO)
	hello := w.posts.take("a")
	if len(hello) != 1 || !strings.HasPrefix(hello[0], `0{"sid":`) || !strings.Contains(hello[0], `"pingInterval":240000`) {
		t.Fatalf("greeting %q", hello)
	}
	sid := SessionOf("a")
	for _, c := range []struct{ says, gets string }{
		{"40", `40{"sid":"` + sid + `"}`},
		{"40/other,", `44/other,"Unable to connect"`},
		{`421["user-join",{"auth":{"token":"bad"}}]`, "431[]"},
		{`422["user-join",{}]`, "432[]"},
		{`42["heartbeat",{}]`, "41"}, // a stranger's
		{`423["events:chat",{"chat_id":"c","data":{"type":"join"}}]`, "41"},
		{`424["user-join",{"auth":{"token":"sk-ann"}}]`, "434[]"}, // keys are no tokens here
		{`425["user-join",{"auth":{"token":"ann"}}]`, `435[{"id":"ann","name":"ANN"}]`},
		{`426["heartbeat",{}]`, "436[]"},
		{`427["no-such",1]`, "437[]"},
		{`428["events:chat",{"chat_id":"other","data":{"type":"join"}}]`, "438[false]"},
		{`429["events:chat",{"chat_id":"temporary:1","data":{"type":"join"}}]`, "439[false]"},
		{"2", "3"},
		{"3", ""}, {"garbage", ""}, {"42", ""}, {"42[", ""}, {"4312[1]", ""}, {"", ""}, {`42[5]`, ""},
	} {
		got := strings.Join(w.says(t, "a", c.says), "\n")
		if c.says[:min(3, len(c.says))] == "423" || strings.HasPrefix(c.says, "42[\"heart") {
			got = strings.SplitN(got, "\n", 2)[0] // it is acknowledged all the same
		}
		if got != c.gets {
			t.Errorf("%s: got %s, want %s", c.says, got, c.gets)
		}
	}
	got := w.says(t, "a", `4210["events:chat",{"chat_id":"c","data":{"type":"join"}}]`)
	if len(got) != 2 || !strings.Contains(got[0], `"chat:presence"`) || !strings.Contains(got[0], `"shared":true`) || got[1] != "4310[true]" {
		t.Errorf("join: %q", got)
	}
	conns, err := w.Of(t.Context(), "ann")
	if err != nil || len(conns) != 1 || conns[0].Session != sid || !conns[0].joined("c") {
		t.Errorf("connections: %+v, %v", conns, err)
	}
	w.says(t, "a", "41")
	if conns, _ := w.Of(t.Context(), "ann"); len(conns) != 0 || len(w.posts.closed) != 1 {
		t.Errorf("after leaving: %+v, closed %v", conns, w.posts.closed)
	}
}

func TestDisconnectForgetsAllAccountsOfAConnection(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	w.says(t, "a", `421["user-join",{"auth":{"token":"bob"}}]`)
	w.says(t, "a", `42["usage",{"model":"m"}]`)
	if models, users, err := w.InUse(t.Context()); err != nil || users != 2 || len(models) != 1 || models[0] != "m" {
		t.Errorf("in use: %v, %d, %v", models, users, err)
	}
	w.route(t, "a", "$disconnect", "", nil)
	for _, user := range []string{"ann", "bob"} {
		if conns, err := w.Of(t.Context(), user); err != nil || len(conns) != 0 {
			t.Errorf("%s: %+v, %v", user, conns, err)
		}
	}
	if models, users, _ := w.InUse(t.Context()); len(models) != 0 || users != 0 {
		t.Errorf("in use after leaving: %v, %d", models, users)
	}
}

func TestPlain(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ says, gets string }{
		{`{"type":"subscribe"}`, `{"detail":"Not authenticated","status":401,"type":"error"}`},
		{`{"type":"ping","id":1}`, `{"id":1,"type":"pong"}`},
		{`{`, `{"detail":"A message is a JSON object with a type.","type":"error"}`},
		{`{"type":"auth","token":"sk-ann"}`, `{"session_id":"` + SessionOf("p") + `","type":"ready","user":{"id":"ann","name":"ANN"}}`},
		{`{"type":"subscribe","chat_ids":["c"],"id":"x"}`, `{"chat_ids":["c"],"id":"x","session_id":"` + SessionOf("p") + `","type":"subscribed"}`},
		{`{"type":"answer","call_id":"nonsense","value":1}`, `{"accepted":false,"call_id":"nonsense","type":"answered"}`},
		{`{"type":"dance"}`, `{"detail":"Unknown type: use auth, subscribe, answer or ping.","type":"error"}`},
	} {
		if got := strings.Join(w.says(t, "p", c.says), "\n"); got != c.gets {
			t.Errorf("%s: got %s, want %s", c.says, got, c.gets)
		}
	}
	if got := w.says(t, "q", `{"type":"auth","token":"bad"}`); len(got) != 1 || !strings.Contains(got[0], "401") || len(w.posts.closed) != 1 {
		t.Errorf("bad token: %q, closed %v", got, w.posts.closed)
	}
}

func TestPingFindsWhoIsGone(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	w.tab(t, "b", "ann")
	w.posts.gone["b"] = true
	for range pingEvery {
		if err := w.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(60e9)
	}
	equal(t, w.posts.take("a"), []string{"2"})
	if conns, _ := w.Of(t.Context(), "ann"); len(conns) != 1 {
		t.Errorf("connections: %+v", conns)
	}
}
