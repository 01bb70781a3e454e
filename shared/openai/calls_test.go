package openai

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestCalls(t *testing.T) {
	type want struct{ id, name, arguments string }
	tests := []struct {
		name   string
		known  []string
		prior  []string
		deltas []string
		want   []want
	}{
		{name: "by the book, two calls interleaved", deltas: []string{
			calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`),
			calling(`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`),
			calling(`{"index":0,"function":{"arguments":"{\"x\":"}}`), calling(`{"index":1,"function":{"arguments":"{\"y\":"}}`),
			calling(`{"index":0,"function":{"arguments":"1}"}}`), calling(`{"index":1,"function":{"arguments":"2}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {"b", "g", `{"y":2}`}}},
		{name: "no index, whole calls in one delta", deltas: []string{
			calling(`{"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"id":"b","function":{"name":"f","arguments":"{}"}}`)},
			want: []want{{"a", "f", "{}"}, {"b", "f", "{}"}}},
		{name: "no index, no id, whole calls in one delta without arguments", deltas: []string{
			calling(`{"function":{"name":"f"}}`, `{"function":{"name":"g"}}`)},
			want: []want{{generated(1), "f", ""}, {generated(2), "g", ""}}},
		{name: "no index, id only first", deltas: []string{
			calling(`{"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calling(`{"function":{"arguments":":1}"}}`),
			calling(`{"id":"b","function":{"name":"g","arguments":"{\"y\""}}`), calling(`{"function":{"arguments":":2}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {"b", "g", `{"y":2}`}}},
		{name: "index only from the second piece on", deltas: []string{
			calling(`{"id":"a","function":{"name":"f","arguments":""}}`), calling(`{"index":0,"function":{"arguments":"{}"}}`)},
			want: []want{{"a", "f", "{}"}}},
		{name: "all with index 0, different ids", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`),
			calling(`{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {"b", "f", `{"x":2}`}}},
		{name: "all with index 0, ids, arguments later", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), calling(`{"index":0,"function":{"arguments":"{}"}}`),
			calling(`{"index":0,"id":"b","function":{"name":"g","arguments":""}}`), calling(`{"index":0,"function":{"arguments":"{\"y\":2}"}}`)},
			want: []want{{"a", "f", "{}"}, {"b", "g", `{"y":2}`}}},
		{name: "all with index 0, no ids", deltas: []string{
			calling(`{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}`), calling(`{"index":0,"function":{"name":"g","arguments":"{}"}}`)},
			want: []want{{generated(1), "f", `{"x":1}`}, {generated(2), "g", "{}"}}},
		{name: "all with index 0 in one delta", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`, `{"index":0,"id":"b","function":{"name":"f","arguments":""}}`)},
			want: []want{{"a", "f", ""}, {"b", "f", ""}}},
		{name: "index counts the chunks", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), calling(`{"index":1,"id":"a","function":{"arguments":"{\"x\""}}`),
			calling(`{"index":2,"function":{"arguments":":1}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}}},
		{name: "index as text and as float", deltas: []string{
			calling(`{"index":"0","id":"a","function":{"name":"f","arguments":"{"}}`), calling(`{"index":0.0,"function":{"arguments":"}"}}`)},
			want: []want{{"a", "f", "{}"}}},
		{name: "a fresh id in every piece", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), calling(`{"index":0,"id":"b","function":{"arguments":"{\"x\":"}}`),
			calling(`{"index":0,"id":"c","function":{"arguments":"{\"y\":1}}"}}`), calling(`{"index":0,"id":"d","function":{"arguments":""}}`)},
			want: []want{{"a", "f", `{"x":{"y":1}}`}}},
		{name: "the id and name in every piece", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calling(`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`),
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`)},
			want: []want{{"a", "f", `{"x":1}`}}},
		{name: "the whole call said once more", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), calling(`{"index":0,"function":{"arguments":"1}"}}`),
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}}},
		{name: "two calls with one id", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`, `{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {generated(1), "f", `{"x":1}`}}},
		{name: "two calls with one id and no index", deltas: []string{
			calling(`{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), calling(`{"id":"a","function":{"name":"g","arguments":"{\"x\":1}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {generated(1), "g", `{"x":1}`}}},
		{name: "ids used before", prior: []string{"a", generated(1)}, deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calling(`{"index":1,"id":"","function":{"name":"f","arguments":"{}"}}`)},
			want: []want{{generated(2), "f", "{}"}, {generated(3), "f", "{}"}}},
		{name: "the id comes late", deltas: []string{
			calling(`{"index":0,"function":{"name":"f","arguments":""}}`), calling(`{"index":0,"id":"a","function":{"arguments":"{}"}}`)},
			want: []want{{"a", "f", "{}"}}},
		{name: "the id is a number", deltas: []string{calling(`{"index":0,"id":7,"function":{"name":"f","arguments":"{}"}}`)},
			want: []want{{"7", "f", "{}"}}},
		{name: "name in pieces", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"get_","arguments":""}}`), calling(`{"index":0,"function":{"name":"weather","arguments":""}}`),
			calling(`{"index":0,"function":{"name":"","arguments":"{}"}}`)},
			want: []want{{"a", "get_weather", "{}"}}},
		{name: "name in equal pieces, known", known: []string{"gogo"}, deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"go","arguments":""}}`), calling(`{"index":0,"function":{"name":"go","arguments":"{}"}}`)},
			want: []want{{"a", "gogo", "{}"}}},
		{name: "name growing", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"get","arguments":""}}`), calling(`{"index":0,"function":{"name":"get_weather","arguments":"{}"}}`)},
			want: []want{{"a", "get_weather", "{}"}}},
		{name: "calls without arguments, one after another, known", known: []string{"f", "g"}, deltas: []string{
			calling(`{"function":{"name":"f"}}`), calling(`{"function":{"name":"g"}}`)},
			want: []want{{generated(1), "f", ""}, {generated(2), "g", ""}}},
		{name: "arguments as an object, big number", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":{"n": 9007199254740993, "s": "<&"}}}`)},
			want: []want{{"a", "f", `{"n":9007199254740993,"s":"<&"}`}}},
		{name: "arguments null, then text", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`), calling(`{"index":0,"function":{"arguments":"{}"}}`)},
			want: []want{{"a", "f", "{}"}}},
		{name: "glued objects", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}{\"x\""}}`), calling(`{"index":0,"function":{"arguments":":2} {\"x\":3}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}, {generated(1), "f", `{"x":2}`}, {generated(2), "f", `{"x":3}`}}},
		{name: "an empty object in front of the arguments", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calling(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`)},
			want: []want{{"a", "f", `{"x":1}`}}},
		{name: "empty elements are no calls", deltas: []string{calling(`{}`, `null`, `{"index":0,"function":{"name":"","arguments":""}}`), `{"tool_calls":null}`, `{"tool_calls":[]}`}},
		{name: "a nameless call is kept for the model to read about", deltas: []string{calling(`{"index":0,"id":"a","function":{"arguments":"{\"x\":1}"}}`)},
			want: []want{{"a", "", `{"x":1}`}}},
		{name: "function_call, the old form", deltas: []string{`{"function_call":{"name":"f","arguments":"{\"x\""}}`, `{"function_call":{"arguments":":1}"}}`},
			want: []want{{generated(1), "f", `{"x":1}`}}},
		{name: "flat calls", deltas: []string{calling(`{"id":"a","name":"f","arguments":{"x":1}}`)}, want: []want{{"a", "f", `{"x":1}`}}},
		{name: "one call that is no list", deltas: []string{`{"tool_calls":{"id":"a","function":{"name":"f","arguments":"{}"}}}`}, want: []want{{"a", "f", "{}"}}},
		{name: "text arguments that are no JSON stay", deltas: []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{'x': 1"}}`)},
			want: []want{{"a", "f", `{'x': 1`}}},
		{name: "a pair of surrogates cut between pieces", deltas: []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d"}}`), calling(`{"index":0,"function":{"arguments":"\ude80\"}"}}`)},
			want: []want{{"a", "f", `{"x":"🚀"}`}}},
		{name: "half a pair of surrogates at the end", deltas: []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d"}}`)},
			want: []want{{"a", "f", "{\"x\":\"\uFFFD"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := sse("tool_calls", test.deltas...)
			r, _ := read(t, StreamOptions{KnownTools: test.known, PriorCallIDs: test.prior}, strings.NewReader(body))
			var got []want
			for i, c := range r.Calls {
				if c.Index != i {
					t.Errorf("call %d has index %d", i, c.Index)
				}
				got = append(got, want{c.ID, c.Name, c.Arguments})
			}
			if r.Err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %q, error %v\nwant %q", got, r.Err, test.want)
			}
			finish := FinishToolCalls
			if len(test.want) == 0 {
				finish = FinishStop
			}
			if r.Finish != finish {
				t.Errorf("finish %s, want %s", r.Finish, finish)
			}
		})
	}
}

func TestCallDeltas(t *testing.T) {
	tests := []struct {
		name   string
		known  []string
		deltas []string
		want   []Kind
	}{
		{"a known tool starts with its name", []string{"f"}, []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`),
			calling(`{"index":0,"function":{"arguments":"{"}}`), calling(`{"index":0,"function":{"arguments":"}"}}`)},
			[]Kind{CallStarted, CallArguments, CallArguments}},
		{"an unknown one with its arguments", nil, []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`),
			calling(`{"index":0,"function":{"arguments":"{"}}`), calling(`{"index":0,"function":{"arguments":"}"}}`)},
			[]Kind{CallStarted, CallArguments, CallArguments}},
		{"one without arguments at the end", nil, []string{calling(`{"index":0,"id":"a","function":{"name":"f"}}`)}, []Kind{CallStarted}},
		{"glued ones by a snapshot", nil, []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":1}{\"a\":2}"}}`)},
			[]Kind{CallStarted, CallArguments, Snapshot}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, s := read(t, StreamOptions{KnownTools: test.known}, strings.NewReader(sse("stop", test.deltas...)))
			if !reflect.DeepEqual(s.kinds, test.want) {
				t.Errorf("got %v, want %v", s.kinds, test.want)
			}
		})
	}
}

func TestNewIDs(t *testing.T) {
	opts := StreamOptions{}
	body := sse("stop", calling(`{"function":{"name":"f","arguments":"{}"}}`, `{"function":{"name":"f","arguments":"{}"}}`))
	a := newAssembler(opts, nil)
	done, err := readFrames(strings.NewReader(body), a.frame)
	calls := a.finish(done, err, "").Calls
	for _, c := range calls {
		if !regexp.MustCompile(`^call_[0-9a-f]{24}$`).MatchString(c.ID) {
			t.Errorf("id %q", c.ID)
		}
	}
	opts.NewID = func() string { return "same" } // must not hang, nor give one id twice
	r, _ := read(t, opts, strings.NewReader(body))
	if len(calls) != 2 || calls[0].ID == calls[1].ID || r.Calls[0].ID == r.Calls[1].ID {
		t.Errorf("ids %v and %v", calls, r.Calls)
	}
}
