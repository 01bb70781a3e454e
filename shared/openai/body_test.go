package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

const hi = `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`

func TestBodies(t *testing.T) {
	const stop = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	tests := []struct {
		name, body         string
		text, finish, fail string // fail: part of the error
	}{
		{"standard", "data: " + hi + "\n\ndata: " + stop + "\n\ndata: [DONE]\n\n", "hi", "stop", ""},
		{"CRLF", "data: " + hi + "\r\n\r\ndata: " + stop + "\r\n\r\ndata: [DONE]\r\n\r\n", "hi", "stop", ""},
		{"CR", "data: " + hi + "\r\rdata: " + stop + "\r\rdata: [DONE]\r\r", "hi", "stop", ""},
		{"byte order mark", "\xef\xbb\xbfdata: " + hi + "\n\n", "hi", "stop", ""},
		{"no space after the colon", "data:" + hi + "\n\ndata:[DONE]\n\n", "hi", "stop", ""},
		{"comments, events, ids", ": ping\n\nevent: message\nid: 7\nretry: 10\ndata: " + hi + "\n\n: ping\ndata: [DONE]\n\n", "hi", "stop", ""},
		{"no blank lines", "data: " + hi + "\ndata: " + hi + "\ndata: [DONE]\n", "hihi", "stop", ""},
		{"no line end at the end", "data: " + hi + "\n\ndata: " + hi, "hihi", "stop", ""},
		{"a frame over several lines", "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\\nb\"}}]\ndata: }\n\n", "a\nb", "stop", ""},
		{"data twice", "data: data: " + hi + "\n\n", "hi", "stop", ""},
		{"pings that are no JSON", "data: ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata: " + hi + "\n\n", "hi", "stop", ""},
		{"nothing after [DONE] counts", "data: [DONE]\n\ndata: " + hi + "\n\n", "", "stop", ""},
		{"two choices", `data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"x"}}]}` + "\n\n", "a", "stop", ""},
		{"only choice is number 1", `data: {"choices":[{"index":1,"delta":{"content":"a"}}]}` + "\n\n", "a", "stop", ""},
		{"a summing message at the end", "data: " + hi + "\n\n" + `data: {"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n", "hi", "stop", ""},
		{"length", "data: " + hi + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"length"}]}` + "\n\n", "hi", "length", ""},
		{"finish_reason is no text", `data: {"choices":[{"delta":{"content":"a"},"finish_reason":{}}]}` + "\n\n", "a", "stop", ""},

		{"JSON", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, "hi", "stop", ""},
		{"JSON, indented", "\n{\n \"choices\": [\n  {\"message\": {\"content\": \"hi\"}}\n ]\n}\n", "hi", "stop", ""},
		{"JSON, one frame a line", hi + "\n" + hi + "\n" + stop + "\n", "hihi", "stop", ""},
		{"JSON, a list of frames", "[" + hi + ",\n" + hi + "]", "hihi", "stop", ""},
		{"JSON, then events", hi + "\ndata: " + hi + "\n\ndata: [DONE]\n\n", "hihi", "stop", ""},
		{"JSON without data: in the middle", "data: " + hi + "\n\n" + hi + "\n{\"choices\":\n[{\"delta\":{\"content\":\"!\"}}]}\n", "hihi!", "stop", ""},
		{"JSON that is cut", `{"choices":[{"message":{"content":"h`, "", "error", "connection to the model failed"},
		{"JSON that is something else", `{"object":"list","data":[]}`, "", "error", "no chat completion"},
		{"JSON, an error as detail", `{"detail":"Not Found"}`, "", "error", "reported an error: Not Found"},

		{"nothing", "", "", "error", "it is empty"},
		{"blank lines", "\n\r\n \n", "", "error", "it is empty"},
		{"a web page", " <html><body>502 Bad\nGateway</body></html>", "", "error", "web page: <html><body>502 Bad Gateway"},
		{"text", "upstream connect error\n", "", "error", "neither JSON nor a stream of events: upstream connect error"},
		{"only comments", ": ping\n\n", "", "error", "it is empty"},
		{"bare error", `{"error":{"message":"loading"}}` + "\n", "", "error", "reported an error: loading"},
		{"bare error after text", "data: " + hi + "\n\n{\"error\":\"broke\"}\n", "hi", "error", "reported an error: broke"},
		{"bare error, a list", `[{"error":{"code":400,"message":"bad key"}}]`, "", "error", "reported an error: bad key"},
		{"error frame", "data: " + hi + "\n\ndata: {\"error\":{\"message\":\"quota\",\"code\":429}}\n\ndata: " + hi + "\n\n", "hi", "error", "quota"},
		{"error frame without a message", `data: {"error":{"code":429}}` + "\n\n", "", "error", `{"code":429}`},
		{"error event", "event: error\ndata: {\"message\":\"overloaded\"}\n\n", "", "error", "overloaded"},
		{"error event as text", "event: error\ndata: it broke\n\n", "", "error", "it broke"},
		{"error in the choice", `data: {"choices":[{"delta":{"content":"a"},"error":{"message":"filtered"}}]}` + "\n\n", "", "error", "filtered"},
		{"finish_reason error", "data: " + hi + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n", "hi", "error", "does not name"},
		{"error of vLLM", `data: {"object":"error","message":"too long","code":400}` + "\n\n", "", "error", "too long"},
		{"no error", `data: {"error":null,"choices":[{"delta":{"content":"a"}}]}` + "\n\n", "a", "stop", ""},
		{"a frame that is no JSON", "data: " + hi + "\n\ndata: {\"choices\":[\n\n", "hi", "error", "a frame is not JSON"},
		{"a frame that is cut", "data: " + hi + "\n\ndata: {\"choices\":[", "hi", "error", "connection to the model failed"},
		{"a call that is cut", "data: " + `{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x"}}]}}]}` + "\n\n", "", "error", "within the arguments of a call"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, _ := read(t, StreamOptions{}, strings.NewReader(test.body))
			text := ""
			if r.Err != nil {
				text = r.Err.Error()
			}
			if r.Text() != test.text || r.Finish != test.finish || !strings.Contains(text, test.fail) || (text == "") != (test.fail == "") {
				t.Errorf("got %q, %s, %q\nwant %q, %s, %q", r.Text(), r.Finish, text, test.text, test.finish, test.fail)
			}
			byByte, _ := read(t, StreamOptions{}, iotest.OneByteReader(strings.NewReader(test.body)))
			if !sameRound(byByte, r) {
				t.Errorf("byte by byte %+v\nelse %+v", byByte, r)
			}
		})
	}
}

// sameRound compares two Rounds, errors by their text.
func sameRound(a, b *Round) bool {
	x, y := *a, *b
	x.Err, y.Err = nil, nil
	return reflect.DeepEqual(x, y) && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

func TestFrameErrorKeepsTheObject(t *testing.T) {
	r, _ := read(t, StreamOptions{}, strings.NewReader(`data: {"error":{"message":"bad frame","n":12345678901234567890}}`+"\n\n"))
	var e *FrameError
	if !errors.As(r.Err, &e) || string(e.Object) != `{"message":"bad frame","n":12345678901234567890}` {
		t.Errorf("got %v, %s", r.Err, e.Object)
	}
}

func TestUsage(t *testing.T) {
	frame := func(s string) string { return "data: " + s + "\n\n" }
	body := frame(hi) + frame(`{"choices":[],"usage":{"prompt_tokens":1}}`) + frame(`{"choices":[],"usage":null}`) + frame(`{"choices":[],"usage":{"prompt_tokens":1}}`) +
		frame(`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"completion_tokens":12345678901234567890}}]}`) +
		frame(`{"usage":{"total_tokens":3.50,"details":{"cached":0}},"timings":{"predicted_ms":7}}`) + frame("[DONE]")
	r, s := read(t, StreamOptions{}, strings.NewReader(body))
	want := map[string]any{"prompt_tokens": json.Number("1"), "completion_tokens": json.Number("12345678901234567890"), "total_tokens": json.Number("3.50"),
		"details": map[string]any{"cached": json.Number("0")}, "predicted_ms": json.Number("7")}
	if !reflect.DeepEqual(r.Usage, want) || r.Err != nil {
		t.Errorf("got %v, %v", r.Usage, r.Err)
	}
	if !reflect.DeepEqual(s.kinds, []Kind{Text, UsageReport, UsageReport, UsageReport}) {
		t.Errorf("deltas %v: a report without news must be silent", s.kinds)
	}
	if r, _ := read(t, StreamOptions{}, strings.NewReader(frame(hi))); r.Usage != nil {
		t.Errorf("usage %v that nobody reported", r.Usage)
	}
}

func TestLongLines(t *testing.T) {
	text := strings.Repeat("é", 2<<20)
	r, _ := read(t, StreamOptions{}, &cut{sse("stop", saying(text)), 4096})
	if r.Text() != text || r.Err != nil {
		t.Errorf("%d bytes, %v", len(r.Text()), r.Err)
	}
}

func TestSinkError(t *testing.T) {
	full := errors.New("full")
	n := 0
	a := newAssembler(StreamOptions{}, func(Delta) error { n++; return full })
	done, err := readFrames(strings.NewReader(sse("stop", saying("a"), saying("b"))), a.frame)
	r := a.finish(done, err, "")
	if !errors.Is(r.Err, full) || n != 1 || r.Text() != "a" || r.Finish != FinishError {
		t.Errorf("%v after %d deltas, text %q", r.Err, n, r.Text())
	}
}

// FuzzStream checks that no body makes the assembler panic, that the deltas tell the same as the Round, that all calls have
// distinct ids, and that the Round does not depend on how the network cuts the bytes.
func FuzzStream(f *testing.F) {
	for _, body := range []string{
		sse("stop", saying("a <think>b</think>c"), `{"reasoning_content":"x"}`),
		sse("tool_calls", calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}{\"y\":2}"}}`, `{"function":{"name":"g"}}`)),
		sse("stop", calling(`{"index":1,"id":"a","function":{"name":"f"}}`), calling(`{"index":0,"id":"a","function":{"arguments":{"a":1}}}`)),
		hi + "\n" + hi, "[" + hi + "]", "<html>", "data: {\ndata: }\r\rdata: [DONE]", "event: error\r\ndata: x\r\n\r\n", "\xef\xbb\xbf{\"error\":\"x\"}",
		sse("stop", `{"content":"\ud83d"}`, `{"content":"\ude80<thi"}`, `{"content":[{"thinking":"x"}]}`),
		`{"choices":[],"usage":{"a":1}}`,
	} {
		f.Add(body, 3)
	}
	f.Fuzz(func(t *testing.T, body string, n int) {
		opts := func() StreamOptions {
			return StreamOptions{NewID: counter(), KnownTools: []string{"f"}, PriorCallIDs: []string{"a"}}
		}
		whole, _ := read(t, opts(), strings.NewReader(body))
		pieces, _ := read(t, opts(), &cut{body, max(1, n&0xff)})
		if !sameRound(whole, pieces) {
			t.Fatalf("whole  %+v\npieces %+v", whole, pieces)
		}
		seen := map[string]bool{"a": true}
		for _, c := range whole.Calls {
			if c.ID == "" || seen[c.ID] {
				t.Fatalf("id %q is empty or used twice", c.ID)
			}
			seen[c.ID] = true
		}
		if (whole.Err != nil) != (whole.Finish == FinishError) {
			t.Fatalf("finish %s with error %v", whole.Finish, whole.Err)
		}
	})
}

// FuzzDeltas plays deltas of all kinds in any order and checks that what is shown agrees with the Round.
func FuzzDeltas(f *testing.F) {
	deltas := []string{saying("a"), saying(" \n"), saying("<think>"), saying("</think>"), saying("<thi"), saying("nk>b"), saying("</"), saying("<reason>x</reason>y"),
		`{"content":"\ud83d"}`, `{"content":"\ude80"}`, `{"reasoning":"r"}`, `{"reasoning":"\ud83d"}`, `{"content":[{"thinking":"t"},{"text":"u"}]}`}
	for _, index := range []string{"", `"index":0,`, `"index":1,`} {
		for _, id := range []string{"", `"id":"a",`, `"id":"b",`} {
			for _, function := range []string{`{"name":"f"}`, `{"name":"f","arguments":"{\"x\":"}`, `{"arguments":"1}"}`, `{"name":"g","arguments":"{}"}`,
				`{"arguments":"{\"y\":2}"}`, `{"name":"ff","arguments":{"z":"\ud83d"}}`, `{"arguments":"\ud83d"}`} {
				deltas = append(deltas, calling("{"+index+id+`"function":`+function+"}"))
			}
		}
	}
	f.Add([]byte{0, 2, 5, 3, 20, 21, 22, 40, 41, 60, 70}, true)
	f.Add([]byte{8, 10, 9, 11, 14, 15, 16, 17, 18, 19, 30, 31}, false)
	f.Fuzz(func(t *testing.T, picks []byte, known bool) {
		var chosen []string
		for _, p := range picks[:min(len(picks), 60)] {
			chosen = append(chosen, deltas[int(p)%len(deltas)])
		}
		opts := StreamOptions{}
		if known {
			opts.KnownTools = []string{"f", "ff"}
		}
		r, _ := read(t, opts, strings.NewReader(sse("stop", chosen...)))
		seen := map[string]bool{}
		for _, c := range r.Calls {
			if c.ID == "" || seen[c.ID] {
				t.Fatalf("id %q is empty or used twice", c.ID)
			}
			seen[c.ID] = true
		}
		for _, b := range r.Blocks {
			if b.Text == "" {
				t.Fatalf("an empty block in %+v", r.Blocks)
			}
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	})
}
