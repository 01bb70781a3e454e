package event

import (
	"encoding/json"
	"reflect"
	"testing"
)

func parse(t *testing.T, raw string) []Event {
	t.Helper()
	var events []Event
	if err := json.Unmarshal([]byte(raw), &events); err != nil {
		t.Fatal(err)
	}
	return events
}

// What each kind leaves on a message: spec/socket.md section 3, with what the real server only shows stored as well.
func TestKeep(t *testing.T) {
	for name, c := range map[string]struct{ events, want string }{
		"status":              {`[{"type":"status","data":{"description":"a","done":false,"x":1}},{"type":"status","data":{"description":"b"}}]`, `{"statusHistory":[{"description":"a","done":false,"x":1},{"description":"b"}]}`},
		"sources":             {`[{"type":"citation","data":{"a":1}},{"type":"source","data":{"b":2}}]`, `{"sources":[{"a":1},{"b":2}]}`},
		"code execution":      {`[{"type":"citation","data":{"type":"code_execution"}}]`, `{}`},
		"files, newest first": {`[{"type":"files","data":{"files":[1]}},{"type":"chat:message:files","data":{"files":[2,3]}}]`, `{"files":[2,3,1]}`},
		"embeds":              {`[{"type":"embeds","data":{"embeds":["a"]}},{"type":"embeds","data":{"embeds":["b"]}}]`, `{"embeds":["b","a"]}`},
		"embeds replaced":     {`[{"type":"embeds","data":{"embeds":["a"]}},{"type":"chat:message:embeds","data":{"embeds":["b"],"replace":true}}]`, `{"embeds":["b"]}`},
		"follow-ups":          {`[{"type":"chat:message:follow_ups","data":{"follow_ups":["q"]}}]`, `{"followUps":["q"]}`},
		"error":               {`[{"type":"chat:message:error","data":{"error":{"content":"boom"}}}]`, `{"error":{"content":"boom"}}`},
		"error, older form":   {`[{"type":"chat:message:error","data":{"content":"boom"}}]`, `{"error":{"content":"boom"}}`},
		"shown only": {`[{"type":"message","data":{"content":"m"}},{"type":"replace","data":{"content":"r"}},{"type":"chat:message","data":{"content":"c"}},
			{"type":"chat:message:delta","data":{"content":"d"}},{"type":"chat:completion","data":{"content":"e"}},{"type":"notification","data":{}},
			{"type":"confirmation","data":{}},{"type":"execute","data":{}},{"type":"chat:tasks:cancel"},{"type":"custom","data":[1]},{}]`, `{}`},
		"data of the wrong type": {`[{"type":"status","data":"x"},{"type":"files","data":[1]},{"type":"embeds"},{"type":"chat:message:error","data":"x"}]`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := map[string]any{}, map[string]any{}
			Keep(parse(t, c.events), got)
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Every kind that Keep stores has to reach the store.
func TestLasts(t *testing.T) {
	for kind, want := range map[string]bool{
		Status: true, Citation: true, Source: true, Files: true, MessageFiles: true, Embeds: true, MessageEmbed: true, FollowUps: true,
		MessageError: true, Title: true, Tags: true, "chat:message:delta": false, "chat:message": false, "message": false, "replace": false,
		Completion: false, Response: false, "notification": false, "": false, "custom": false,
	} {
		if Lasts(kind) != want {
			t.Errorf("Lasts(%q) = %v", kind, !want)
		}
	}
}

func TestTitleAndTags(t *testing.T) {
	for raw, want := range map[string]string{`[{"data":" A "}]`: "A", `[{"data":{"title":"B"}}]`: "B", `[{"data":5}]`: "", `[{}]`: ""} {
		if got := parse(t, raw)[0].TitleOf(); got != want {
			t.Errorf("TitleOf(%s) = %q", raw, got)
		}
	}
	for raw, want := range map[string][]string{`[{"data":["a"," b ",5,""]}]`: {"a", "b"}, `[{"data":{"tags":["c"]}}]`: {"c"}, `[{"data":"d"}]`: nil} {
		if got := parse(t, raw)[0].TagsOf(); !reflect.DeepEqual(got, want) {
			t.Errorf("TagsOf(%s) = %q", raw, got)
		}
	}
}

// The envelopes, byte for byte as clients know them.
func TestEnvelopes(t *testing.T) {
	for want, e := range map[string]Event{
		`{"data":{"delta":"x","item_id":"fc_1","output_index":2,"type":"response.function_call_arguments.delta"},"type":"response:completion"}`:         ArgumentsDelta(2, "fc_1", "x"),
		`{"data":{"arguments":"{}","item_id":"fc_1","output_index":2,"type":"response.function_call_arguments.done"},"type":"response:completion"}`:     ArgumentsDone(2, "fc_1", "{}"),
		`{"data":{"content_index":0,"delta":"x","item_id":"msg_1","output_index":0,"type":"response.output_text.delta"},"type":"response:completion"}`:  TextDelta(0, "msg_1", "x"),
		`{"data":{"content_index":0,"delta":"x","item_id":"r_1","output_index":1,"type":"response.reasoning_text.delta"},"type":"response:completion"}`: ReasoningDelta(1, "r_1", "x"),
		`{"data":{"item":{"id":"a"},"output_index":3,"type":"response.output_item.added"},"type":"response:completion"}`:                                ItemAdded(3, map[string]any{"id": "a"}),
		`{"data":{"item":{"id":"a"},"output_index":3,"type":"response.output_item.done"},"type":"response:completion"}`:                                 ItemDone(3, map[string]any{"id": "a"}),
		`{"data":{"active":true,"folder_id":null},"type":"chat:active"}`:                                                                                ActiveNow(true),
		`{"data":{"output":[]},"type":"chat:completion"}`:                                                                                               Output([]any{}),
		`{"data":{"usage":{"total_tokens":1}},"type":"chat:completion"}`:                                                                                Usage(map[string]any{"total_tokens": 1}),
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
