package live

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
)

var confirm = event.New(event.Confirmation, map[string]any{"title": "Sure?"})

func goesOn(context.Context, run.Ticket) (run.Run, error) { return run.Run{}, nil }

func isOver(context.Context, run.Ticket) (run.Run, error) { return run.Run{}, run.ErrOver }

func ticket(session string) run.Ticket {
	return run.Ticket{Run: "r", Chat: "c", Message: "m", Round: 1, Index: 2, User: "ann", Session: session}
}

// ask asks and returns the acknowledgement id that the connection was asked with.
func (w *world) ask(t *testing.T, tk run.Ticket, connection string, e event.Event) (id, ack string) {
	t.Helper()
	id, err := w.Ask(t.Context(), tk, 0, e, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	frames := w.posts.take(connection)
	if len(frames) != 1 {
		t.Fatalf("asked with %q", frames)
	}
	return id, frames[0][2:strings.IndexByte(frames[0], '[')]
}

func (w *world) await(t *testing.T, tk run.Ticket, id string, working Working) (Question, error) {
	t.Helper()
	return w.Await(t.Context(), tk, id, 0, working)
}

func TestAnswers(t *testing.T) {
	for says, want := range map[string]string{"[true]": "true", "[]": "null", `["a","b"]`: `["a","b"]`, `[{"x":1}]`: `{"x":1}`, `[12345678901234567890]`: "12345678901234567890"} {
		w := newWorld(t)
		w.tab(t, "a", "ann")
		w.tab(t, "b", "ann")
		tk := ticket(SessionOf("a"))
		id, ack := w.ask(t, tk, "a", confirm)
		if q, err := w.await(t, tk, id, goesOn); err != nil || q.State != Pending {
			t.Fatalf("%+v, %v", q, err)
		}
		done := w.says(t, "a", "43"+ack+says)
		equal(t, kinds(t, done), []string{event.Interaction})
		q, err := w.await(t, tk, id, goesOn)
		if err != nil || q.State != Answered || string(q.Value) != want {
			t.Errorf("%s: %+v, %s, %v", says, q.State, q.Value, err)
		}
		w.says(t, "a", "43"+ack+`["again"]`)
		if q, _ := w.await(t, tk, id, goesOn); string(q.Value) != want {
			t.Errorf("a second answer counted: %s", q.Value)
		}
		equal(t, w.posts.take("b"), nil)
	}
}

func TestOnlyTheOwnerAnswers(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	w.tab(t, "x", "bob")
	tk := ticket(SessionOf("a"))
	id, ack := w.ask(t, tk, "a", confirm)
	w.says(t, "x", "43"+ack+"[true]")
	if ok, err := w.Answer(t.Context(), "bob", "r", id, json.RawMessage("1")); ok || err != nil {
		t.Errorf("a stranger answered: %v, %v", ok, err)
	}
	if ok, err := w.AnswerCall(t.Context(), "ann", "another chat", "r:"+id, json.RawMessage("1")); ok || err != nil {
		t.Errorf("answered in another chat: %v, %v", ok, err)
	}
	if q, err := w.await(t, tk, id, goesOn); err != nil || q.State != Pending {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestNobodyToAsk(t *testing.T) {
	for _, session := range []string{"", "api-1", SessionOf("x")} {
		w := newWorld(t)
		w.tab(t, "x", "bob")
		id, err := w.Ask(t.Context(), ticket(session), 0, confirm, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		q, err := w.await(t, ticket(session), id, goesOn)
		if err != nil || q.State != Failed || q.Problem != textDisconnected {
			t.Errorf("%s: %+v, %v", session, q, err)
		}
		equal(t, w.posts.take("x"), nil)
	}
}

func TestTimeIsOver(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	tk := ticket(SessionOf("a"))
	id, _ := w.ask(t, tk, "a", confirm)
	w.pass(DefaultPatience)
	q, err := w.await(t, tk, id, goesOn)
	if err != nil || q.State != Failed || q.Problem != textTimedOut {
		t.Errorf("%+v, %v", q, err)
	}
	equal(t, kinds(t, w.posts.take("a")), []string{event.Interaction})
}

func TestAStoppedRunEndsItsQuestions(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	tk := ticket(SessionOf("a"))
	id, _ := w.ask(t, tk, "a", confirm)
	if _, err := w.await(t, tk, id, isOver); !errors.Is(err, run.ErrOver) {
		t.Errorf("%v", err)
	}
	equal(t, kinds(t, w.posts.take("a")), []string{event.Interaction})
}

func TestTheTabCloses(t *testing.T) {
	execute := event.New("execute", map[string]any{"code": "1"})
	for name, c := range map[string]struct {
		e     event.Event
		chat  string
		other bool // another tab has joined the chat
		want  State
	}{
		"another tab takes over":    {confirm, "c", true, Pending},
		"nobody else is there":      {confirm, "c", false, Pending},
		"code is asked of one only": {execute, "c", true, Failed},
		"temporary chats":           {confirm, "temporary:1", true, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tab(t, "a", "ann")
			w.tab(t, "b", "ann")
			if c.other {
				w.says(t, "b", `42["events:chat",{"chat_id":"c","data":{"type":"join"}}]`)
			}
			tk := ticket(SessionOf("a"))
			tk.Chat = c.chat
			id, _ := w.ask(t, tk, "a", c.e)
			w.route(t, "a", "$disconnect", "", nil)
			q, err := w.await(t, tk, id, goesOn)
			if err != nil || q.State != c.want {
				t.Fatalf("%+v, %v", q, err)
			}
			asked := w.posts.take("b")
			if got := len(asked) == 1; got != (c.other && c.want == Pending) {
				t.Errorf("the other tab was asked: %q", asked)
			}
			if len(asked) == 1 {
				w.says(t, "b", "43"+asked[0][2:strings.IndexByte(asked[0], '[')]+"[false]")
				if q, _ := w.await(t, tk, id, goesOn); q.State != Answered || string(q.Value) != "false" {
					t.Errorf("%+v", q)
				}
				return
			}
			w.pass(takeOver + time.Second)
			if q, _ := w.await(t, tk, id, goesOn); q.State != Failed || q.Problem != textDisconnected {
				t.Errorf("after a minute: %+v", q)
			}
		})
	}
}

func TestWaitingOverHTTP(t *testing.T) {
	w := newWorld(t)
	tk := ticket("api-1")
	tk.Wait = true
	id, err := w.Ask(t.Context(), tk, 3, confirm, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Ask(t.Context(), tk, 3, confirm, time.Minute)
	if err != nil || again != id {
		t.Errorf("asked again: %s, %v", again, err)
	}
	open := w.Pending(t.Context(), "ann", []string{"r"})
	if len(open) != 1 || open[0].ID != id || len(w.Pending(t.Context(), "bob", []string{"r"})) != 0 {
		t.Fatalf("%+v", open)
	}
	if ok, err := w.AnswerCall(t.Context(), "ann", "c", open[0].CallID(), json.RawMessage(`"yes"`)); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if q, _ := w.await(t, tk, id, goesOn); string(q.Value) != `"yes"` || len(w.Pending(t.Context(), "ann", []string{"r"})) != 0 {
		t.Errorf("%+v", q)
	}
}

func TestTickets(t *testing.T) {
	w := newWorld(t)
	want := ticket("s")
	token, err := w.Ticket(t.Context(), want, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Redeem(t.Context(), token); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "x", token + "x", token[:len(token)-2]} {
		if _, err := w.Redeem(t.Context(), bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	w.pass(2 * time.Minute)
	if _, err := w.Redeem(t.Context(), token); err == nil {
		t.Error("a ticket is good after its time")
	}
}
