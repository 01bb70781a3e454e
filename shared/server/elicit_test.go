package server

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"toolrounds/shared/event"
	"toolrounds/shared/mcp"
	"toolrounds/shared/run"
)

func TestElicit(t *testing.T) {
	var asked event.Event
	ask := func(raw string, err error) (mcp.Answer, error) {
		put := func(_ context.Context, e event.Event) (json.RawMessage, error) {
			asked = e
			return json.RawMessage(raw), err
		}
		return elicit(Connection{ID: "m", Name: "M"}, put)(t.Context(), mcp.Question{Message: "How many?", Schema: json.RawMessage(`{"type":"object"}`)})
	}
	for raw, want := range map[string]string{
		`{"action":"accept","content":{"n":1}}`: `{"Action":"accept","Content":{"n":1}}`,
		`{"action":"decline"}`:                  `{"Action":"decline","Content":null}`,
		`{"n":1}`:                               `{"Action":"accept","Content":{"n":1}}`,
		`true`:                                  `{"Action":"accept","Content":{}}`,
		`false`:                                 `{"Action":"decline","Content":null}`,
		`{"error":"gone"}`:                      `{"Action":"cancel","Content":null}`,
		`null`:                                  `{"Action":"cancel","Content":null}`,
		`"yes"`:                                 `{"Action":"cancel","Content":null}`,
		``:                                      `{"Action":"cancel","Content":null}`,
	} {
		answer, err := ask(raw, nil)
		if got, _ := json.Marshal(answer); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if asked.Kind() != event.Elicitation || asked.Data()["message"] != "How many?" || asked.Data()["mode"] != "form" || asked.Data()["requested_schema"] == nil || asked.Data()["server_name"] != "M" {
		t.Errorf("asked %v", asked)
	}
	if answer, err := ask("", errors.New("nobody is there")); err != nil || answer.Action != cancel {
		t.Errorf("%+v, %v", answer, err)
	}
	if _, err := ask("", run.ErrOver); !errors.Is(err, run.ErrOver) {
		t.Errorf("a run that is over: %v", err)
	}
}

func TestWithin(t *testing.T) {
	for path, want := range map[string]bool{
		"a/b": true, "": true, "a%2Fb": true, "..a/b..": true, "a..b": true, "%2500": true, "100%": true,
		"..": false, "a/..": false, "%2e%2e/a": false, "a/%2E./b": false, "%252e%252e": false, `a\..\b`: false, "a%5c..": false, "./a": false,
		"%25252525252e": false, // encoded too often to be meant well
	} {
		if got := within(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
