package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/live"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// broker is a world in which a tool of the user's run is at work.
type broker struct {
	*world
	live  *live.Service
	table table.Table
	call  run.Ticket
}

func newBroker(t *testing.T) *broker {
	b := &broker{}
	b.world = newWorld(t, func(d *Deps) {
		b.table = d.Files.Table
		b.live = &live.Service{Table: b.table, Accounts: d.Accounts, Keys: secrets{}, Patience: time.Minute, Now: time.Now}
		d.Live = b.live
	})
	b.do("admin", "POST", "/api/v1/models/create", `{"id":"m","base_model_id":"stub-model","name":"M","meta":{},"params":{},`+public+`}`).status(200)
	answer := b.do("user", "POST", "/api/chat/completions",
		`{"model":"m","stream":true,"chat_id":"temporary:1","id":"a","session_id":"s","messages":[{"role":"user","content":"hi"}]}`).status(200).object()
	id := answer["task_ids"].([]any)[0].(string)
	b.call = run.Ticket{Run: id, Chat: "temporary:1", Message: "a", Round: 0, Index: 1, User: b.ids["user"], Wait: true}
	if _, err := b.table.Apply(t.Context(), table.Put(table.Item{Key: table.Call(id, 0, 1), Attr: map[string]any{"doc": table.MustJSON(map[string]string{"id": "c", "name": "f"})}})); err != nil {
		t.Fatal(err)
	}
	return b
}

// ask sends a request with a ticket; "" sends none.
func (b *broker) ask(token, method, path, body string) *reply {
	b.t.Helper()
	r := httptest.NewRequest(method, run.BrokerPath+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.send(r)
}

func (b *broker) ticket(call run.Ticket, lasts time.Duration) string {
	b.t.Helper()
	token, err := b.live.Ticket(b.t.Context(), call, lasts)
	if err != nil {
		b.t.Fatal(err)
	}
	return token
}

// stored are the events of the run that last, in order.
func (b *broker) stored() string {
	b.t.Helper()
	var all []string
	for item, err := range b.table.Query(b.t.Context(), table.Query{PK: table.Event(b.call.Run, 0, 0, 0, 0).PK, Prefix: "E#"}) {
		var e run.Event
		if err != nil {
			b.t.Fatal(err)
		}
		if err := item.JSON("doc", &e); err != nil {
			b.t.Fatal(err)
		}
		data, _ := e.Event["data"].(map[string]any)
		all = append(all, fmt.Sprint(data["description"]))
	}
	return strings.Join(all, " ")
}

func status(n int, text string) string {
	return fmt.Sprintf(`{"at":%d,"n":%d,"event":{"type":"status","data":{"description":%q}}}`, 1000+n, n, text)
}

// Nobody gets in without a ticket, and a ticket is good for its own call only.
func TestBrokerTickets(t *testing.T) {
	b := newBroker(t)
	good := b.ticket(b.call, time.Minute)
	missing := b.call
	missing.Index = 7
	for name, c := range map[string]struct {
		token string
		code  int
	}{
		"none": {"", 401}, "an API key": {b.keys["admin"], 401}, "a session": {b.keys["user-session"], 401}, "altered": {good[:len(good)-3] + "abc", 401},
		"too old": {b.ticket(b.call, -time.Minute), 401}, "of a call that is not there": {b.ticket(missing, time.Minute), 410}, "its own": {good, 200},
	} {
		if got := b.ask(c.token, "POST", "/events", `{"events":[`+status(0, "x")+`]}`); got.code != c.code {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	// A ticket is no credential of the API.
	r := httptest.NewRequest("GET", "/api/models", nil)
	r.Header.Set("Authorization", "Bearer "+good)
	b.send(r).status(401)
}

func TestBrokerEvents(t *testing.T) {
	b := newBroker(t)
	token := b.ticket(b.call, time.Minute)
	post := func(events ...string) *reply {
		return b.ask(token, "POST", "/events", `{"events":[`+strings.Join(events, ",")+`]}`)
	}
	post(status(0, "a"), `{"at":1,"n":1,"event":"no object"}`, `{"at":1,"n":2,"event":{"type":"message","data":{"content":"passes"}}}`).is(200, `{"status":true}`)
	post(status(0, "a again"), status(3, "b")).status(200) // posted again because the answer was lost
	post().status(200)
	if got := b.stored(); got != "a b" {
		t.Errorf("stored %q", got)
	}
	b.ask(token, "POST", "/events", `{"events":5}`).status(422)
	b.ask(token, "POST", "/events", `nonsense`).status(422)
	post(fmt.Sprintf(`{"n":9,"event":{"type":"x","data":%q}}`, strings.Repeat("x", maxEventBytes))).detail(413, "An event is at most 1 MB.")
	post(strings.TrimSuffix(strings.Repeat(status(9, "y")+",", maxEvents+1), ",")).detail(413, "At most 1000 events at once.")
	post(status(30_000, "beyond what one call may emit")).status(200)
	if got := b.stored(); got != "a b" {
		t.Errorf("stored %q", got)
	}
	b.do("user", "POST", "/api/tasks/chat/temporary:1/stop", "").status(200)
	post(status(10, "late")).detail(410, "The run is over.")
	b.ask(token, "POST", "/call", `{"n":0,"event":{"type":"confirmation","data":{}}}`).status(410)
}

func TestBrokerQuestions(t *testing.T) {
	b := newBroker(t)
	token := b.ticket(b.call, time.Minute)
	for body, code := range map[string]int{
		`{"n":0,"event":"x"}`: 400, `{"n":0}`: 400, `{"n":-1,"event":{"type":"input"}}`: 400, `{"n":99999999,"event":{"type":"input"}}`: 400, `[]`: 422,
	} {
		if got := b.ask(token, "POST", "/call", body); got.code != code {
			t.Errorf("%s: %d %s", body, got.code, got.body)
		}
	}
	asked := b.ask(token, "POST", "/call", `{"n":0,"timeout":30,"event":{"type":"confirmation","data":{"title":"Sure?"}}}`).status(200)
	id := asked.object()["id"].(string)
	b.ask(token, "POST", "/call", `{"n":0,"event":{"type":"confirmation","data":{"title":"Sure?"}}}`).is(200, string(asked.body)) // the same question
	b.ask(token, "GET", "/call/"+id+"?wait=0", "").is(200, `{"state":"pending"}`)
	b.ask(token, "GET", "/call/0.9.0?wait=0", "").status(404)

	// A ticket of another call of the run may not wait for it.
	other := b.call
	other.Index = 2
	b.ask(b.ticket(other, time.Minute), "GET", "/call/"+id+"?wait=0", "").status(404)

	var open []struct{ ID string }
	raw := b.do("user", "GET", "/api/v1/chats/temporary:1/questions", "").status(200)
	if err := json.Unmarshal(raw.body, &open); err != nil || len(open) != 1 {
		t.Fatalf("%v: %s", err, raw.body)
	}
	path := "/api/v1/chats/temporary:1/questions/" + open[0].ID
	answered := make(chan *reply)
	go func() { answered <- b.ask(token, "GET", "/call/"+id, "") }() // a long poll ends when the answer is there
	b.do("other", "POST", path, `{"value":"stolen"}`).status(409)
	b.do("user", "POST", path, `{"value":{"n":12345678901234567890}}`).status(200)
	(<-answered).is(200, `{"state":"answered","value":{"n":12345678901234567890}}`)
	b.ask(token, "GET", "/call/"+id, "").is(200, `{"state":"answered","value":{"n":12345678901234567890}}`)
	b.do("user", "POST", path, `{"value":"again"}`).status(409)
}

// Of what a hostile tool posts, nothing may break the record or what is shown.
func TestBrokerNonsense(t *testing.T) {
	b := newBroker(t)
	token := b.ticket(b.call, time.Minute)
	for i, e := range []string{`{}`, `{"type":5}`, `{"type":"status"}`, `{"type":"status","data":5}`, `{"type":"files","data":{"files":"x"}}`, `{"type":"chat:tags","data":{}}`,
		`{"type":"chat:title","data":null}`, `{"type":"source","data":[[[]]]}`, `{"type":"chat:completion","data":{"done":true,"content":"forged"}}`} {
		b.ask(token, "POST", "/events", fmt.Sprintf(`{"events":[{"n":%d,"at":-5e300,"event":%s}]}`, i, e)).status(200)
	}
	if _, err := b.server.Chats.Runs.Working(context.Background(), b.call); err != nil {
		t.Errorf("the run is %v", err)
	}
}
