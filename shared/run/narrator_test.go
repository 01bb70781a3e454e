package run

import (
	"bytes"
	flags "flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
)

var update = flags.Bool("update", false, "write the golden files anew")

// stream reads a provider's recorded answer as a run does.
func stream(t *testing.T, body []byte) ([]openai.Delta, *openai.Round) {
	t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	defer provider.Close()
	var all []openai.Delta
	got, _ := openai.New(openai.Config{BaseURL: provider.URL}).Stream(t.Context(), []byte("{}"), openai.StreamOptions{}, func(d openai.Delta) error {
		all = append(all, d)
		return nil
	})
	return all, got
}

// client is what a front end makes of the events: the rules of spec/socket.md section 2.
type client struct {
	t      *testing.T
	output []any
}

func (c *client) take(e event.Event) {
	c.t.Helper()
	data := e.Data()
	if e.Kind() == event.Completion {
		if all, ok := data["output"].([]any); ok {
			c.output = all
		}
		return
	}
	if e.Kind() != event.Response { // the first event of a message, chat:active
		return
	}
	index, item := data["output_index"].(int), map[string]any{}
	if index < len(c.output) {
		item = c.output[index].(map[string]any)
	} else if index > len(c.output) {
		c.t.Fatalf("item %d comes before item %d: %v", index, len(c.output), e)
	} else {
		c.output = append(c.output, item)
	}
	delta, _ := data["delta"].(string)
	content := func(kind string) {
		if item["content"] == nil {
			item = map[string]any{"type": kind, "id": data["item_id"], "content": []any{map[string]any{"type": "output_text", "text": ""}}}
		}
		part := item["content"].([]any)[0].(map[string]any)
		part["text"] = part["text"].(string) + delta
	}
	switch data["type"] {
	case "response.output_item.added", "response.output_item.done":
		item = data["item"].(map[string]any)
	case "response.output_text.delta":
		content("message")
	case "response.reasoning_text.delta":
		content("reasoning")
	case "response.function_call_arguments.delta":
		item["arguments"] = item["arguments"].(string) + delta
	case "response.function_call_arguments.done":
		item["arguments"] = data["arguments"]
	default:
		c.t.Fatalf("a client does not know %v", e)
	}
	c.output[index] = item
}

// essence is what a reader sees of items: without status and times, and a call's arguments as they are recorded.
func essence(output []any) []string {
	var all []string
	for _, v := range output {
		item := v.(map[string]any)
		body := item["arguments"]
		if parts, ok := item["content"].([]any); ok {
			body = parts[0].(map[string]any)["text"]
		}
		all = append(all, fmt.Sprintf("%v %v %v: %v", item["type"], item["id"], item["name"], body))
	}
	return all
}

// copied is an output of its own: clients change what they are given.
func copied(t *testing.T, e event.Event) event.Event {
	t.Helper()
	var c event.Event
	raw, err := table.Encode(e)
	if err == nil {
		err = table.Decode(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	if data := c.Data(); data["output_index"] != nil {
		data["output_index"] = e.Data()["output_index"]
	}
	return c
}

// The golden files are the events of each recorded answer, told piece by piece. However the pieces are gathered, and whoever comes in the middle, a
// client has in the end what the record has.
func TestNarrator(t *testing.T) {
	files, err := filepath.Glob("testdata/narrator/*.sse")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			body, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			deltas, got := stream(t, body)
			for _, size := range []int{1, 2, 3, len(deltas)} {
				golden := ""
				if size == 1 {
					golden = strings.TrimSuffix(name, ".sse") + ".events"
				}
				for late := range (len(deltas) + size - 1) / size {
					tellAll(t, deltas, got, size, late, golden)
				}
			}
		})
	}
}

// tellAll tells an answer in batches to somebody who was there from the start and to somebody who comes before batch late.
func tellAll(t *testing.T, deltas []openai.Delta, got *openai.Round, size, late int, golden string) {
	t.Helper()
	now := time.Unix(1700000000, 0)
	s := &Service{Now: func() time.Time { return now }, ItemID: func(prefix string) string { return prefix + "_1" }}
	before := round{roundDoc: roundDoc{Items: []map[string]any{{"type": "message", "id": "msg_0", "status": Completed, "role": "assistant",
		"content": []any{map[string]any{"type": "output_text", "text": "Before."}}}}}}
	rec := &record{rounds: []round{before}, work: &Work{Table: map[string]Entry{"add": {}, "now": {}}}}
	step := Step{Run: "r", Round: 1}
	n := s.narrator(step, rec)
	first, second := &client{t: t}, &client{t: t}
	first.take(copied(t, event.Output(shown(rec.output()))))
	var log bytes.Buffer
	give := func(events []event.Event) {
		for _, e := range events {
			raw, err := table.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			log.Write(append(bytes.TrimSpace(raw), '\n'))
			first.take(copied(t, e))
			if second.output != nil {
				second.take(copied(t, e))
			}
		}
	}
	for at, batch := 0, 0; at < len(deltas); at, batch = at+size, batch+1 {
		if batch == late { // it is told everything so far, and goes on from there
			for _, e := range n.whole() {
				second.take(copied(t, e))
			}
		}
		var pending []openai.Delta
		for _, d := range deltas[at:min(at+size, len(deltas))] {
			d.Blocks, d.Calls = slices.Clone(d.Blocks), slices.Clone(d.Calls) // the narrator goes on writing in them
			pending = joined(pending, d)
		}
		give(n.tell(pending, now))
	}
	a := &answer{Service: s, step: step, rec: rec, clock: n.clock}
	made := a.assemble(got, nil)
	give(n.end(made))
	want := essence((&record{rounds: []round{before, made}}).output())
	for i, c := range []*client{first, second} {
		if have := essence(c.output); !reflect.DeepEqual(have, want) {
			t.Fatalf("batches of %d, late at %d, client %d has\n%q, the record\n%q", size, late, i, have, want)
		}
	}
	if golden == "" {
		return
	}
	text := unnamed(log.Bytes())
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(golden); err != nil || !bytes.Equal(kept, text) {
		t.Fatalf("%s (go test -update): %v\ngot\n%s", golden, err, text)
	}
}

// unnamed replaces the ids that calls without one are given: they are random.
func unnamed(raw []byte) []byte {
	seen := map[string]string{}
	return regexp.MustCompile(`"call_[0-9a-zA-Z]{8,}"`).ReplaceAllFunc(raw, func(id []byte) []byte {
		if seen[string(id)] == "" {
			seen[string(id)] = fmt.Sprintf(`"call_made_up_%d"`, len(seen))
		}
		return []byte(seen[string(id)])
	})
}
