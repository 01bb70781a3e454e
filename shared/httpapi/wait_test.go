package httpapi

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

func TestPatience(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"": 0, "?wait=": 0, "?wait=x": 0, "?wait=-1": 0, "?wait=NaN": 0, "?wait=0.5": 500 * time.Millisecond, "?wait=20": 20 * time.Second,
		"?wait=1e300": pollLimit, "?wait=Inf": pollLimit,
	} {
		if got := patience(httptest.NewRequest("GET", "/api/tasks/chat/x"+query, nil)); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}

func TestRefusalOfARun(t *testing.T) {
	output := []any{map[string]any{"type": "message"}}
	for _, c := range []struct {
		name          string
		answer        run.Answer
		status        int
		message, code any
	}{
		{"the provider's own error", run.Answer{Error: "down", Reply: &run.Reply{Status: 429, Body: []byte(`{"error":{"message":"slow","code":"rate"}}`)}}, 429, "slow", "rate"},
		{"a provider that says it otherwise", run.Answer{Error: "kaput", Reply: &run.Reply{Status: 500, Body: []byte("kaput")}}, 500, "kaput", nil},
		{"an error frame", run.Answer{Error: map[string]any{"message": "no"}}, 502, "no", nil},
		{"the limit", run.Answer{Error: "limit", Limit: true}, 422, "limit", codeLimit},
		{"the platform", run.Answer{Error: "The run was interrupted."}, 502, "The run was interrupted.", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.answer.Output = output
			status, body := refusal(c.answer)
			problem, _ := body["error"].(map[string]any)
			if status != c.status || problem["message"] != c.message || problem["code"] != c.code || body["output"] == nil {
				t.Errorf("%d %v", status, body)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	w := httptest.NewRecorder()
	if err := newServer(Deps{}).refuse(w, fault.New(fault.Conflict, "taken")); err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusConflict || body["detail"] != "taken" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if problem, _ := body["error"].(map[string]any); problem["message"] != "taken" || problem["type"] != "invalid_request_error" {
		t.Errorf("%s", w.Body)
	}
}

func TestChunks(t *testing.T) {
	w := httptest.NewRecorder()
	c := &chunks{w: w, id: "chatcmpl-1", chat: "c", message: "m", model: "x", created: time.Unix(5, 0), last: time.Now()}
	if _ = c.take(run.Told{}); w.Body.Len() > 0 || c.begun {
		t.Error("the status is given away before anything has come")
	}
	for _, told := range []run.Told{{Reasoning: "hm"}, {Text: "a\n"}, {Item: map[string]any{"type": "function_call"}}, {}, {Text: "é"}} {
		if err := c.take(told); err != nil {
			t.Fatal(err)
		}
	}
	c.last = time.Now().Add(-time.Minute)
	_ = c.take(run.Told{})
	var content, reasoning string
	items, comments := 0, 0
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content, Role string
					Reasoning     string `json:"reasoning_content"`
				}
			}
			Item   map[string]any `json:"output_item"`
			Object string
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) != 1 || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("%s: %v", data, err)
		}
		content, reasoning = content+chunk.Choices[0].Delta.Content, reasoning+chunk.Choices[0].Delta.Reasoning
		if chunk.Item != nil {
			items++
		}
	}
	if content != "a\né" || reasoning != "hm" || items != 1 || comments != 1 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("content %q, reasoning %q, %d items, %d comments", content, reasoning, items, comments)
	}
}
