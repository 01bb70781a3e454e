package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const offered = `"tools":[{"type":"function","function":{"name":"calculate"}},{"type":"function","function":{"name":"get_weather"}},` +
	`{"type":"function","function":{"name":"get_current_time"}}]`

func ask(t *testing.T, body string) *http.Response {
	t.Helper()
	server := httptest.NewServer(handler(0))
	t.Cleanup(server.Close)
	response, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestCallsTheToolThatAPromptAsksFor(t *testing.T) {
	for prompt, want := range map[string]string{
		"What is 12 * 34?":                         `calculate {"expression":"12 * 34"}`,
		"Please work out (2+3)*4.5":                `calculate {"expression":"(2+3)*4.5"}`,
		"What's the weather in New York?":          `get_weather {"city":"New York"}`,
		"Which time is it in Europe/Paris?":        `get_current_time {"timezone":"Europe/Paris"}`,
		"Time and weather in Oslo, and 1+1 please": `calculate {"expression":"1+1"}, get_weather {"city":"Oslo"}, get_current_time {"timezone":""}`,
		"Hello": "",
	} {
		var r request
		messages, _ := json.Marshal([]map[string]string{{"role": "user", "content": prompt}})
		if err := json.Unmarshal([]byte(`{"messages":`+string(messages)+`,`+offered+`}`), &r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range answer(r).calls {
			got = append(got, c.Function.Name+" "+c.Function.Arguments)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", prompt, got, want)
		}
		r.Tools = nil
		if said := answer(r); len(said.calls) > 0 || !strings.Contains(said.text, "demonstration") {
			t.Errorf("%s without tools: %+v", prompt, said)
		}
	}
}

func TestAnswersWithTheResults(t *testing.T) {
	response := ask(t, `{`+offered+`,"messages":[{"role":"user","content":[{"type":"text","text":"What is 12 * 34?"}]},
		{"role":"assistant","content":"","tool_calls":[]},{"role":"tool","tool_call_id":"x","content":"12 * 34 = 408"}]}`)
	body, _ := io.ReadAll(response.Body)
	if !strings.Contains(string(body), "According to the tool: 12 * 34 = 408") || !strings.Contains(string(body), `"finish_reason":"stop"`) {
		t.Errorf("%s", body)
	}
}

func TestStreams(t *testing.T) {
	response := ask(t, `{"stream":true,"stream_options":{"include_usage":true},`+offered+`,"messages":[{"role":"user","content":"2+2"}]}`)
	var events []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, data)
		}
	}
	all := strings.Join(events, "\n")
	for _, want := range []string{`"tool_calls":[{"index":0`, `"finish_reason":"tool_calls"`, `"total_tokens":`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, all)
		}
	}
	if events[len(events)-1] != "[DONE]" {
		t.Errorf("ends with %q", events[len(events)-1])
	}
}

func TestRefusesWhatIsNoRequest(t *testing.T) {
	if response := ask(t, `{"messages":`); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", response.StatusCode)
	}
}

func TestChoosesAndQuotesInLegacyMode(t *testing.T) {
	choosing := request{Messages: []message{
		{Role: "system", Content: json.RawMessage(`"functions: [{\"name\":\"calculate\"}] answer {\"tool_calls\": []}"`)},
		{Role: "user", Content: json.RawMessage(`"Query: What is 12 * 34?"`)},
	}}
	if got, want := answer(choosing).text, `{"tool_calls":[{"name":"calculate","parameters":{"expression":"12 * 34"}}]}`; got != want {
		t.Errorf("choice: %s, want %s", got, want)
	}
	answering := request{Messages: []message{
		{Role: "user", Content: json.RawMessage(`"<context><source id=\"1\" name=\"a/b\">12 * 34 = 408</source></context> What is 12 * 34?"`)},
	}}
	if got := answer(answering).text; !strings.Contains(got, "408") {
		t.Errorf("answer: %s", got)
	}
}
