package live

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
)

var here = run.Place{Run: "r", User: "ann", Chat: "c", Message: "m"}

func whole(context.Context) []event.Event {
	return append(some("status"), event.Output([]any{map[string]any{"id": "so far"}}))
}

func TestEveryTabHearsTheSameAndNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	w.tab(t, "b", "ann")
	w.tab(t, "x", "bob")
	f := w.Feed(here)
	f.Publish(t.Context(), run.Show{Events: some("one", "two"), Whole: whole})
	f.Publish(t.Context(), run.Show{Events: some("three"), Whole: whole})
	a, b := w.posts.take("a"), w.posts.take("b")
	equal(t, kinds(t, a), []string{"one", "two", "three"})
	equal(t, a, b)
	equal(t, w.posts.take("x"), nil)
	if a[0] != `42["events",{"chat_id":"c","message_id":"m","data":{"data":{},"type":"one"}}]` {
		t.Error(a[0])
	}
}

func TestATabThatComesInTheMiddleIsToldTheOutput(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	f := w.Feed(here)
	f.Publish(t.Context(), run.Show{Events: some("one"), Whole: whole})
	w.tab(t, "b", "ann")
	w.pass(2 * time.Second)
	f.Publish(t.Context(), run.Show{Events: append(some("two"), event.TextDelta(0, "i", "x")), Whole: whole})
	equal(t, kinds(t, w.posts.take("a")), []string{"one", "two", event.Response})
	equal(t, kinds(t, w.posts.take("b")), []string{event.Completion, "two"})
}

func TestAGoneTabIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.tab(t, "a", "ann")
	w.tab(t, "b", "ann")
	w.posts.gone["b"] = true
	w.Feed(here).Publish(t.Context(), run.Show{Events: some("one", "two")})
	equal(t, kinds(t, w.posts.take("a")), []string{"one", "two"})
	if conns, _ := w.Of(t.Context(), "ann"); len(conns) != 1 || conns[0].ID != "a" {
		t.Errorf("connections: %+v", conns)
	}
}

func seqs(t *testing.T, frames []string) (seqs []int64) {
	t.Helper()
	for _, f := range frames {
		var e plainEvent
		if err := json.Unmarshal([]byte(f), &e); err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func (w *world) plainClient(t *testing.T, connection string) {
	t.Helper()
	w.says(t, connection, `{"type":"auth","token":"ann"}`)
}

func TestNumbersBeginWithTheWholeAndHaveNoGap(t *testing.T) {
	w := newWorld(t)
	f := w.Feed(here)
	f.Publish(t.Context(), run.Show{Events: some("status"), Whole: whole}) // nobody hears it, nothing is kept
	if end, err := w.end(t.Context(), "r"); err != nil || end.last != 0 {
		t.Fatalf("log %+v, %v", end, err)
	}
	w.plainClient(t, "p")
	w.pass(3 * time.Second)
	f.Publish(t.Context(), run.Show{Events: some("status", "notification"), Whole: whole})
	f.Publish(t.Context(), run.Show{Events: some("status"), Whole: whole})
	got := w.posts.take("p")
	equal(t, kinds(t, got), []string{"status", event.Completion, "notification", "status"})
	equal(t, seqs(t, got), []int64{1, 2, 3, 4})

	// Who comes back finds what was published while nobody was there.
	w.route(t, "p", "$disconnect", "", nil)
	w.pass(2 * time.Second)
	f.Publish(t.Context(), run.Show{Events: some("five", "six"), Whole: whole})
	for from, want := range map[int64]int{0: 6, 4: 2, 5: 1, 6: 0, 9: 0} {
		missed, final, err := w.after(t.Context(), "r", from)
		if err != nil || final || len(missed) != want {
			t.Errorf("after %d: %v, %v, %v", from, missed, final, err)
		}
	}
}

func TestNothingFollowsTheFinalEventButWhatIsOfTheChat(t *testing.T) {
	w := newWorld(t)
	w.plainClient(t, "p")
	f := w.Feed(here)
	f.Publish(t.Context(), run.Show{Events: some("end"), Final: true, Whole: func(context.Context) []event.Event { return some("status", "end") }})
	w.Feed(here).Publish(t.Context(), run.Show{Events: some("late delta")})
	w.Feed(here).Publish(t.Context(), run.Show{Events: some("chat:title"), Late: true})
	equal(t, kinds(t, w.posts.take("p")), []string{"status", "end", "chat:title"})
}

func TestStepsThatPublishAtOnceShareTheNumbers(t *testing.T) {
	w := newWorld(t)
	w.plainClient(t, "p")
	const steps, each = 5, 3
	var all sync.WaitGroup
	for i := range steps {
		all.Go(func() {
			f := w.Feed(here)
			for j := range each {
				f.Publish(context.Background(), run.Show{Events: some(fmt.Sprintf("%d.%d", i, j)), Whole: func(context.Context) []event.Event { return nil }})
			}
		})
	}
	all.Wait()
	events, _, err := w.after(t.Context(), "r", 0)
	if err != nil || len(events) != steps*each {
		t.Fatalf("%d events, %v", len(events), err)
	}
	last := map[string]string{}
	for i, n := range events {
		step, number, _ := strings.Cut(n.Event.Kind(), ".")
		if n.Seq != int64(i+1) || last[step] >= number && last[step] != "" {
			t.Errorf("event %d is %+v after %s", i, n, last[step])
		}
		last[step] = number
	}
}

func TestNoFrameIsTooLarge(t *testing.T) {
	many := map[string]any{}
	for i := range 40_000 {
		many[fmt.Sprint(i)] = true
	}
	for name, e := range map[string]event.Event{
		"one long text":   event.New("notification", map[string]any{"content": "MARKER" + strings.Repeat("é", 200_000)}),
		"data is a text":  event.New("custom", strings.Repeat("x", 500_000)),
		"many long texts": event.New(event.Completion, map[string]any{"done": true, "output": []any{strings.Repeat("a", 90_000), strings.Repeat("b", 90_000), map[string]any{"c": strings.Repeat("c", 90_000)}}}),
		"too many values": event.New(event.Completion, map[string]any{"done": true, "output": many}),
	} {
		frame := string(envelope("c", "m", e))
		if len(frame) > MaxFrame || !json.Valid([]byte(frame[2:])) || !strings.Contains(frame, e.Kind()) {
			t.Errorf("%s: %d bytes", name, len(frame))
		}
		if e.Data()["done"] == true && !strings.Contains(frame, `"done":true`) {
			t.Errorf("%s: the end of the message is lost", name)
		}
	}
	small := event.New("a", map[string]any{"b": "c"})
	if frame := string(envelope("c", "m", small)); strings.Contains(frame, "truncated") {
		t.Error(frame)
	}
}
