package tool

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	malformed = "Error: Tool call arguments could not be parsed. The model generated malformed or incomplete JSON for `add`. Please try again."
	notObject = "Error: Tool call arguments for `add` must be a JSON object. Please try again."
)

func TestParseArguments(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "{}"},
		{"white space", " \n\t", "{}"},
		{"null", "null", "{}"},
		{"None", "None", "{}"},
		{"empty object", "{ }", "{}"},
		{"compact", `{ "a" : 1 , "b" : [ 1 , 2 ] }`, `{"a":1,"b":[1,2]}`},
		{"order", `{"z":1,"a":2,"m":3}`, `{"z":1,"a":2,"m":3}`},
		{"repeated key", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"big integer", `{"id":9007199254740993123456789}`, `{"id":9007199254740993123456789}`},
		{"number text", `{"a":1.50,"b":1E5,"c":-0}`, `{"a":1.50,"b":1E5,"c":-0}`},
		{"no HTML escaping", `{"a":"<b>&\u003c"}`, `{"a":"<b>&<"}`},
		{"non-ASCII", `{"a":"\u00e9\u2028天気🌞"}`, "{\"a\":\"é\u2028天気🌞\"}"},
		{"control characters", `{"a":"\n\t\r\b\f\u0001\u001f\u007f\"\\\/"}`, "{\"a\":\"\\n\\t\\r\\b\\f\\u0001\\u001f\x7f\\\"\\\\/\"}"},
		{"lone surrogate", `{"a":"\ud83d"}`, "{\"a\":\"\uFFFD\"}"},
		{"nested", `{"a":{"b":[{"c":null},true,false,""]}}`, `{"a":{"b":[{"c":null},true,false,""]}}`},

		{"python dict", `{'a': 4, 'b': 3}`, `{"a":4,"b":3}`},
		{"python constants", `{'a': True, 'b': False, 'c': None}`, `{"a":true,"b":false,"c":null}`},
		{"python tuples", `{'a': (1, 2), 'b': (1,), 'c': (1), 'd': (), }`, `{"a":[1,2],"b":[1],"c":1,"d":[]}`},
		{"python quotes", `{'a': "it's", "b": 'say "x"', 'c': 'it\'s'}`, `{"a":"it's","b":"say \"x\"","c":"it's"}`},
		{"python triple quotes", "{'a': '''x\n'y' ''', 'b': \"\"\"z\"\"\"}", `{"a":"x\n'y' ","b":"z"}`},
		{"python escapes", `{'a': '\x41\u00e9\U0001f680\101\n\q\\'}`, `{"a":"Aé🚀A\n\\q\\"}`},
		{"python surrogates", `{'a': '\ud83d\ude80', 'b': '\ud83d'}`, "{\"a\":\"🚀\",\"b\":\"\uFFFD\"}"},
		{"python raw string", `{'a': r'\d+', 'b': u'x'}`, `{"a":"\\d+","b":"x"}`},
		{"python joined strings", `{'a': 'x' "y"}`, `{"a":"xy"}`},
		{"python numbers", `{'a': -1, 'b': 0xff, 'c': 1_000, 'd': .5, 'e': 1., 'f': 1e3, 'g': 00, 'h': 123456789012345678901}`,
			`{"a":-1,"b":255,"c":1000,"d":0.5,"e":1.0,"f":1000.0,"g":0,"h":123456789012345678901}`},
		{"python exponents", `{'a': 1e-7, 'b': 1E+20}`, `{"a":1e-07,"b":1e+20}`},
		{"python keys", `{1: 'a', True: 'b', None: 'c'}`, `{"1":"a","true":"b","null":"c"}`},
		{"trailing comma", `{"a": 1,}`, `{"a":1}`},

		{"truncated", `{"a": 4, "b`, malformed},
		{"text", `Oslo`, malformed},
		{"text after", `{"a":1} and more`, malformed},
		{"glued", `{"a":1}{"b":2}`, malformed},
		{"JSON constants in python", `{'a': true}`, malformed},
		{"python set", `{'a', 'b'}`, malformed},
		{"python bytes", `{'a': b'x'}`, malformed},
		{"python complex", `{'a': 1j}`, malformed},
		{"python octal", `{'a': 010}`, malformed},
		{"python leading zero", `{'a': 08}`, malformed},
		{"python call", `{'a': int('1')}`, malformed},
		{"hexadecimal float", `{'a': 0x1p4}`, malformed},
		{"open string", `{'a': 'x`, malformed},
		{"line within a string", "{'a': 'x\ny'}", malformed},
		{"list as a key", `{[1]: 2}`, malformed},
		{"lone sign", `{'a': -}`, malformed},
		{"nested too deeply", strings.Repeat("{'a':", 1000) + "1" + strings.Repeat("}", 1000), malformed},

		{"true", "true", notObject},
		{"list", "[1]", notObject},
		{"string", `"x"`, notObject},
		{"number", "12", notObject},
		{"python tuple", "('a', 1)", notObject},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseArguments("add", test.text)
			if err != nil {
				if got != "" {
					t.Errorf("text %q beside an error", got)
				}
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestSplitGlued(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one", `{"q":"A"}`, []string{`{"q":"A"}`}},
		{"two", `{"q":"A"}{"q":"B"}`, []string{`{"q":"A"}`, `{"q":"B"}`}},
		{"spaced", ` {"q": "A"}` + "\n" + ` {"q":"}{"} {} `, []string{`{"q": "A"}`, `{"q":"}{"}`, `{}`}},
		{"nothing", "", []string{""}},
		{"second is cut", `{"q":"A"}{"q":`, []string{`{"q":"A"}{"q":`}},
		{"text after", `{"q":"A"} ok`, []string{`{"q":"A"} ok`}},
		{"lists", `[1][2]`, []string{`[1][2]`}},
		{"object and list", `{"q":"A"}[2]`, []string{`{"q":"A"}[2]`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := SplitGlued(test.text); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzArguments checks that no text makes the parser panic, that what it accepts is one JSON object in UTF-8, and that parsing is
// idempotent: arguments are parsed again when a stored call is replayed.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{"", "null", `{"a":1}`, `{'a': (1, 'b', None)}`, `{"a":"\ud83d"}`, `{"a":1}{"b":2}`, `{'a': r'\x' "y" '''z'''}`,
		`{'a': -0x1f, 1.5e3: 1_0.}`, `{"a`, "{'\\U0001f680': '\\N'}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean, err := ParseArguments("f", text)
		if err != nil {
			if clean != "" {
				t.Fatalf("%q: text %q beside an error", text, clean)
			}
			return
		}
		if !json.Valid([]byte(clean)) || !utf8.ValidString(clean) || clean[0] != '{' {
			t.Fatalf("%q: %q is no JSON object", text, clean)
		}
		again, err := ParseArguments("f", clean)
		if err != nil || again != clean {
			t.Fatalf("%q: %q then %q, %v", text, clean, again, err)
		}
		for _, part := range SplitGlued(text + clean) {
			if _, err := ParseArguments("f", part); err == nil && part == "" {
				t.Fatalf("%q: empty part", text)
			}
		}
	})
}
