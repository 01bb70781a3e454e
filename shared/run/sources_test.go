package run

import (
	"strings"
	"testing"

	"toolrounds/shared/table"
)

func TestSourcesKey(t *testing.T) {
	sources := []any{map[string]any{"document": []any{"<é>"}}}
	for body, want := range map[string]string{
		`{"id":1,"big":12345678901234567890}`: `{"sources":[{"document":["<é>"]}],"id":1,"big":12345678901234567890}`,
		" {\n \"id\": 1}":                     " {\"sources\":[{\"document\":[\"<é>\"]}],\n \"id\": 1}",
		`{}`:                                  `{"sources":[{"document":["<é>"]}]}`,
		`[1]`:                                 `[1]`,
		`no JSON {`:                           `no JSON {`,
	} {
		if got := string(withSourcesKey([]byte(body), sources)); got != want {
			t.Errorf("%s: %s", body, got)
		}
		if got := string(withSourcesKey([]byte(body), nil)); got != body {
			t.Errorf("%s without sources: %s", body, got)
		}
	}
}

func TestWithSources(t *testing.T) {
	all := []cited{{label: "a/x", text: "1"}, {label: "b/y", text: strings.Repeat("2", 50)}, {label: "a/x", text: "3"}}
	given := messagesOf(t, `{"role":"user","content":"first"}{"role":"assistant","content":"so"}{"role":"user","content":[{"type":"text","text":"q"}]}`)
	before := string(table.MustJSON(given))
	got := withSources(given, all, 40)
	parts := got[2].(map[string]any)["content"].([]any)
	said := parts[0].(map[string]any)["text"].(string)
	for _, want := range []string{`<source id="1" name="a/x">1</source>`, `<source id="2" name="b/y">` + strings.Repeat("2", 40) + "\n", `<source id="1" name="a/x">3</source>`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
	if len(parts) != 2 || string(table.MustJSON(given)) != before {
		t.Errorf("%d parts; the messages given are changed: %v", len(parts), string(table.MustJSON(given)) != before)
	}
	if got := withSources(messagesOf(t, `{"role":"system","content":"s"}`), all, 40); len(got) != 2 {
		t.Error("without a question the sources are lost")
	}
}
