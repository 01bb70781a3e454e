package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestResults(t *testing.T) {
	const png = "aGVsbG8="
	textOf := func(s string) string {
		raw, _ := json.Marshal(s)
		return `{"type":"text","text":` + string(raw) + `}`
	}
	content := func(parts ...string) string { return `{"content":[` + strings.Join(parts, ",") + `]}` }
	for name, c := range map[string]struct{ wire, want, media string }{
		"plain":              {content(textOf("hello")), "hello", ""},
		"spaces stay":        {content(textOf("  a\n")), "  a\n", ""},
		"leading zeros":      {content(textOf("007")), "007", ""},
		"big integer":        {content(textOf("9007199254740993")), "9007199254740993", ""},
		"exponent":           {content(textOf("1e5")), "1e5", ""},
		"true":               {content(textOf("true")), "true", ""},
		"null":               {content(textOf("null")), "null", ""},
		"empty text":         {content(textOf("")), "", ""},
		"quoted":             {content(textOf(`"é"`)), "é", ""},
		"object":             {content(textOf(`{"z":9007199254740993,"a":[1.50,{}],"é":"<\u00e9\u2028>"}`)), "{\n  \"z\": 9007199254740993,\n  \"a\": [\n    1.50,\n    {}\n  ],\n  \"é\": \"<é\u2028>\"\n}", ""},
		"list":               {content(textOf(`[1,"a"]`)), "{\n  \"results\": [\n    1,\n    \"a\"\n  ]\n}", ""},
		"several":            {content(textOf("part one"), textOf(`{"part": 2}`), textOf("007"), textOf("1e5")), "{\n  \"results\": [\n    \"part one\",\n    {\n      \"part\": 2\n    },\n    \"007\",\n    1e5\n  ]\n}", ""},
		"nothing":            {content(), "{\n  \"results\": []\n}", ""},
		"no content":         {`{}`, "{\n  \"results\": []\n}", ""},
		"structured twice":   {`{"content":[` + textOf(`{"a":1}`) + `],"structuredContent":{"a":1}}`, "{\n  \"a\": 1\n}", ""},
		"structured alone":   {`{"content":[],"structuredContent":{"n":9007199254740993}}`, "{\n  \"n\": 9007199254740993\n}", ""},
		"structured null":    {`{"content":[` + textOf("a") + `],"structuredContent":null}`, "a", ""},
		"image":              {content(`{"type":"image","mimeType":"image/png","data":"` + png + `"}`), "{\n  \"results\": []\n}", "image shown kept data:image/png;base64," + png},
		"image and text":     {content(textOf("look"), `{"type":"image","data":"`+png+`"}`), "look", "image shown kept data:image/png;base64," + png},
		"image without data": {content(`{"type":"image","mimeType":"image/png"}`), "{\n  \"results\": []\n}", ""},
		"image as text":      {content(textOf("data:image/gif;base64," + png)), "[image]", "image shown kept data:image/gif;base64," + png},
		"audio":              {content(`{"type":"audio","mimeType":"audio/mp3","data":"` + png + `"}`), "{\n  \"results\": []\n}", "audio kept data:audio/mp3;base64," + png},
		"resource text":      {content(`{"type":"resource","resource":{"uri":"a://b","text":"[1]"}}`), "[1]", ""},
		"resource image":     {content(`{"type":"resource","resource":{"uri":"a://b","mimeType":"image/png","blob":"` + png + `"}}`), "{\n  \"results\": []\n}", "image shown data:image/png;base64," + png},
		"resource blob":      {content(`{"type":"resource","resource":{"uri":"a://b","mimeType":"application/pdf","blob":"` + png + `"}}`), "[Resource: a://b] (binary data, mimeType: application/pdf)", ""},
		"resource nothing":   {content(`{"type":"resource"}`), "{\n  \"results\": []\n}", ""},
		"link":               {content(`{"type":"resource_link","uri":"a://b","name":"n","mimeType":"text/plain"}`), "[Resource: a://b] (n, mimeType: text/plain)", ""},
		"unknown":            {content(`{"type":"hologram","x":1}`), "[unsupported content: hologram]", ""},
		"failed":             {`{"isError":true,"content":[` + textOf(`say "no"`) + `,` + textOf("twice") + `]}`, "{\n  \"error\": \"say \\\"no\\\"\\ntwice\"\n}", ""},
		"failed, silent":     {`{"isError":true,"content":[]}`, "{\n  \"error\": \"the tool failed without a message\"\n}", ""},
		"deep":               {content(textOf(strings.Repeat("[", 200) + strings.Repeat("]", 200))), `{"results":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := resultOf(json.RawMessage(c.wire))
			if err != nil {
				t.Fatal(err)
			}
			if r.Content != c.want {
				t.Errorf("\n got %s\nwant %s", r.Content, c.want)
			}
			if failed := strings.HasPrefix(name, "failed"); failed != (r.Status == Failed) {
				t.Errorf("status %s", r.Status)
			}
			var media []string
			for _, m := range r.Media {
				s := m.Type
				if m.Shown {
					s += " shown"
				}
				if m.Kept {
					s += " kept"
				}
				media = append(media, s+" "+m.DataURI)
			}
			if got := strings.Join(media, "; "); got != c.media {
				t.Errorf("media %q, want %q", got, c.media)
			}
		})
	}
}

func TestCoerce(t *testing.T) {
	const schema = `{"properties":{"i":{"type":"integer"},"oi":{"anyOf":[{"type":"integer"},{"type":"null"}]},"n":{"type":"number"},"s":{"type":"string"},
		"is":{"type":["integer","string"]},"r":{"$ref":"#/$defs/I"},"loop":{"$ref":"#/$defs/L"},"any":{},"b":{"type":"boolean"},"yes":true},
		"$defs":{"I":{"type":"integer"},"L":{"$ref":"#/$defs/L"}}}`
	for _, c := range [][2]string{
		{``, `{}`}, {`null`, `{}`}, {` {} `, ` {} `}, {`[1]`, `[1]`}, {`{"a`, `{"a`},
		{`{"i":"50"}`, `{"i":50}`},
		{`{"z":1,"i":"9007199254740993","a":{"k": 1.0}}`, `{"z":1,"i":9007199254740993,"a":{"k": 1.0}}`},
		{`{"i":" -7 "}`, `{"i":-7}`},
		{`{"i":"007"}`, `{"i":"007"}`}, {`{"i":"5.5"}`, `{"i":"5.5"}`}, {`{"i":"five"}`, `{"i":"five"}`}, {`{"i":5}`, `{"i":5}`},
		{`{"oi":"3","r":"4"}`, `{"oi":3,"r":4}`},
		{`{"n":"1.50"}`, `{"n":1.50}`},
		{`{"s":12345678901234567890}`, `{"s":"12345678901234567890"}`},
		{`{"is":"5","any":"5","loop":"5","b":"true","yes":"5"}`, `{"is":"5","any":"5","loop":"5","b":"true","yes":"5"}`},
		{`{"unknown":"5"}`, `{"unknown":"5"}`},
	} {
		if got := string(coerce(json.RawMessage(c[0]), json.RawMessage(schema))); got != c[1] {
			t.Errorf("%s: got %s, want %s", c[0], got, c[1])
		}
	}
	for _, schema := range []string{``, `null`, `[]`, `{}`, `{"properties":3}`} {
		if got := string(coerce(json.RawMessage(`{"i":"5"}`), json.RawMessage(schema))); got != `{"i":"5"}` {
			t.Errorf("schema %q: got %s", schema, got)
		}
	}
}

func FuzzResult(f *testing.F) {
	f.Add(`{"content":[{"type":"text","text":"{\"a\":[1,2,{}]}"}]}`)
	f.Add(`{"structuredContent":[[]],"isError":true}`)
	f.Fuzz(func(t *testing.T, wire string) {
		r, err := resultOf(json.RawMessage(wire))
		if err == nil && r.Status == Failed && !json.Valid([]byte(r.Content)) {
			t.Errorf("%q gave %q", wire, r.Content)
		}
		_ = coerce(json.RawMessage(wire), json.RawMessage(wire))
		if !json.Valid(parameters(json.RawMessage(wire))) {
			t.Errorf("%q gave a broken schema", wire)
		}
	})
}
