package toolbox_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"toolrounds/shared/tool"
	"toolrounds/shared/toolbox"
)

// answer is what Lambda says to one Invoke.
type answer struct {
	status   int // 0: 200
	failure  string
	funcFail bool
	body     string
}

type invocation struct{ tenant, function, body string }

// client returns a client of a Lambda service that gives the answers in turn, the last again and again.
func client(t *testing.T, tenancy bool, answers ...answer) (*toolbox.Client, *[]invocation) {
	var seen []invocation
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, invocation{r.Header.Get("X-Amz-Tenant-Id"), r.URL.Path, string(body)})
		a := answers[min(len(seen), len(answers))-1]
		if a.failure != "" {
			w.Header().Set("X-Amzn-ErrorType", a.failure)
		}
		if a.funcFail {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	return toolbox.New(toolbox.Lambda(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), "toolbox", tenancy), &seen
}

func sameJSON(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%s: %v in %s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(g)
	y, _ := json.Marshal(w)
	if string(x) != string(y) {
		t.Errorf("%s:\n%s\nwant\n%s", what, x, y)
	}
}

func TestCall(t *testing.T) {
	c, seen := client(t, true, answer{body: `{"ok":true,"new":1,"result":{"content":"<hi>","status":"failed","embeds":["e"],"files":[{"id":"f"}],` +
		`"images":["data:image/png;base64,AA"],"spilled":false},"events":[{"at":17,"n":3,"event":{"type":"status","data":{"big":12345678901234567890}}}],"logs":"out"}`})
	message := "m1"
	result, err := c.Call(t.Context(), toolbox.CallRequest{
		UserID: "u1", Function: "echo", Arguments: `{"n":12345678901234567890}`, Key: "r/0/1", User: json.RawMessage(`{"id":"u1"}`),
		Tool:    toolbox.Tool{ID: "t", Version: "v", Source: "class Tools: <&>", UserValves: json.RawMessage(`{"a":1}`)},
		Context: toolbox.Context{Metadata: json.RawMessage(`{"k":"<v>"}`), ChatID: "c", MessageID: &message},
		Limits:  toolbox.Limits{Seconds: 5}, Broker: &toolbox.Broker{URL: "https://b", Token: "t"}, SpillURL: "https://s",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := result.Result
	if r.Content != "<hi>" || r.Status != toolbox.Failed || r.Embeds[0] != "e" || string(r.Files[0]) != `{"id":"f"}` || len(r.Images) != 1 || result.Logs != "out" {
		t.Errorf("%+v", result)
	}
	if e := result.Events[0]; e.At != 17 || e.N != 3 || !strings.Contains(string(e.Event), "12345678901234567890") {
		t.Errorf("%+v", e)
	}
	if i := (*seen)[0]; i.tenant != "u1" || !strings.HasSuffix(i.function, "/functions/toolbox/invocations") {
		t.Errorf("%+v", i)
	}
	sameJSON(t, "request", (*seen)[0].body, `{"op":"call","tool":{"id":"t","version":"v","source":"class Tools: <&>","valves":{},"user_valves":{"a":1}},
		"function":"echo","arguments":"{\"n\":12345678901234567890}","key":"r/0/1","user":{"id":"u1"},
		"context":{"metadata":{"k":"<v>"},"messages":[],"files":[],"model":{},"oauth_token":null,"chat_id":"c","message_id":"m1","session_id":null},
		"limits":{"seconds":5},"broker":{"url":"https://b","token":"t"},"spill":{"put_url":"https://s"}}`)
	if strings.Contains((*seen)[0].body, `\u003c`) {
		t.Error("the request is blown up by HTML escapes")
	}
	if _, err := c.Call(t.Context(), toolbox.CallRequest{}); err == nil || len(*seen) != 1 {
		t.Errorf("a call without a user: %v", err)
	}
}

func TestCallWithoutTenancy(t *testing.T) {
	c, seen := client(t, false, answer{body: `{"ok":true,"result":{"content":"","status":"completed","spilled":true}}`})
	result, err := c.Call(t.Context(), toolbox.CallRequest{UserID: "u1"})
	if err != nil || !result.Result.Spilled || (*seen)[0].tenant != "" {
		t.Errorf("%+v, %v, %+v", result, err, (*seen)[0].tenant)
	}
	sameJSON(t, "request", (*seen)[0].body, `{"op":"call","tool":{"id":"","version":"","source":"","valves":{},"user_valves":{}},"function":"","arguments":"",
		"key":"","user":{},"context":{"metadata":{},"messages":[],"files":[],"model":{},"oauth_token":null,"chat_id":"","message_id":null,"session_id":null},
		"limits":{},"broker":null,"spill":null}`)
}

func TestContainer(t *testing.T) {
	ctx := t.Context()
	c, seen := client(t, true, answer{body: `{"ok":true,"specs":[{"name":"f","description":"d","parameters":{"type":"object"}}],"offered":[],
		"manifest":{"title":"T"},"has_valves":true,"has_user_valves":false,"warnings":["w"],"missing":["pandas"]}`})
	d, err := c.Describe(ctx, "t", "src")
	if err != nil || d.Specs[0].Name != "f" || string(d.Specs[0].Parameters) != `{"type":"object"}` || d.Manifest["title"] != "T" || !d.HasValves || d.Missing[0] != "pandas" {
		t.Errorf("%+v, %v", d, err)
	}
	sameJSON(t, "describe", (*seen)[0].body, `{"op":"describe","tool":{"id":"t","source":"src"}}`)
	if (*seen)[0].tenant == "" {
		t.Error("a function with tenants takes no invocation without one")
	}

	c, seen = client(t, false, answer{body: `{"ok":true,"schema":null}`}, answer{body: `{"ok":true,"schema":{"type":"object"}}`})
	for i, want := range []string{"null", `{"type":"object"}`} {
		if schema, err := c.ValvesSpec(ctx, "t", "src", tool.UserValves); err != nil || string(schema) != want {
			t.Errorf("schema %d: %s, %v", i, schema, err)
		}
	}
	sameJSON(t, "valves_spec", (*seen)[0].body, `{"op":"valves_spec","tool":{"id":"t","source":"src"},"kind":"user_valves"}`)

	c, seen = client(t, false, answer{body: `{"ok":true,"values":{"a":12345678901234567890}}`})
	if values, err := c.CheckValves(ctx, "t", "src", tool.Valves, json.RawMessage(`{"a":"1"}`)); err != nil || string(values) != `{"a":12345678901234567890}` {
		t.Errorf("%s, %v", values, err)
	}
	sameJSON(t, "valves", (*seen)[0].body, `{"op":"valves","tool":{"id":"t","source":"src"},"kind":"valves","values":{"a":"1"}}`)

	c, seen = client(t, false, answer{body: `{"ok":true,"python":"3.12.1"}`})
	if python, err := c.Ping(ctx); err != nil || python != "3.12.1" {
		t.Errorf("%s, %v", python, err)
	}
	sameJSON(t, "ping", (*seen)[0].body, `{"op":"ping"}`)
}

func TestRefusals(t *testing.T) {
	c, _ := client(t, false, answer{body: `{"ok":false,"error":{"kind":"syntax","message":"'(' was never closed (<string>, line 1)"}}`})
	_, err := c.Describe(t.Context(), "t", "src")
	var refusal *tool.ContainerError
	if !errors.As(err, &refusal) || refusal.Kind != "syntax" || !strings.HasPrefix(refusal.Message, "'(' was") {
		t.Errorf("%v", err)
	}
	for _, body := range []string{`{"ok":false}`, `[]`, `not JSON`, `{"ok":true,"specs":7}`} {
		c, _ := client(t, false, answer{body: body})
		if _, err := c.Describe(t.Context(), "t", "src"); err == nil || errors.As(err, &refusal) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestCrash(t *testing.T) {
	for body, kind := range map[string]string{
		`{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: x Error: Task timed out after 3.00 seconds"}`: "Sandbox.Timedout",
		`{"errorMessage":"2026-12-01T03:26:49Z x Task timed out after 3.00 seconds"}`:                             "Sandbox.Timedout",
		`{"errorType":"Runtime.ExitError","errorMessage":"RequestId: x Error: Runtime exited with error"}`:        "Runtime.ExitError",
		`oops`: "Unknown",
	} {
		c, seen := client(t, false, answer{funcFail: true, body: body})
		_, err := c.Call(t.Context(), toolbox.CallRequest{UserID: "u"})
		var crash *toolbox.CrashError
		if !errors.As(err, &crash) || crash.Kind != kind || crash.Message == "" || crash.TimedOut() != (kind == "Sandbox.Timedout") {
			t.Errorf("%s: %v", body, err)
		}
		if len(*seen) != 1 {
			t.Errorf("%s: invoked %d times", body, len(*seen))
		}
	}
}

func TestRepeats(t *testing.T) {
	ok := answer{body: `{"ok":true,"python":"3"}`}
	for name, c := range map[string]struct {
		answers []answer
		want    int
		fails   bool
	}{
		"throttled":     {[]answer{{status: 429, failure: "TooManyRequestsException", body: `{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded"}`}, ok}, 2, false},
		"service error": {[]answer{{status: 500, failure: "ServiceException", body: `{}`}, ok}, 1, true},
		"bad gateway":   {[]answer{{status: 502, body: `x`}, ok}, 1, true},
		"unavailable":   {[]answer{{status: 503, body: `x`}, ok}, 1, true},
	} {
		client, seen := client(t, false, c.answers...)
		if _, err := client.Ping(t.Context()); (err != nil) != c.fails || len(*seen) != c.want {
			t.Errorf("%s: %v after %d invocations, want %d", name, err, len(*seen), c.want)
		}
	}
	// A connection that breaks may have run the tool.
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Add(1); panic(http.ErrAbortHandler) }))
	defer server.Close()
	broken := toolbox.New(toolbox.Lambda(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), "toolbox", false)
	if _, err := broken.Ping(t.Context()); err == nil || n.Load() != 1 {
		t.Errorf("broken connection: %v after %d invocations", err, n.Load())
	}
}

func TestTooLarge(t *testing.T) {
	c, seen := client(t, false, answer{status: 413, failure: "RequestTooLargeException", body: `{}`})
	var large *toolbox.TooLargeError
	_, err := c.Describe(t.Context(), "t", strings.Repeat("x", toolbox.MaxRequest))
	if !errors.As(err, &large) || large.Limit != toolbox.MaxRequest || large.Size <= large.Limit || len(*seen) != 0 {
		t.Errorf("%v after %d invocations", err, len(*seen))
	}
	if _, err = c.Describe(t.Context(), "t", "x"); !errors.As(err, &large) || len(*seen) != 1 {
		t.Errorf("refused by Lambda: %v", err)
	}
}
