// Package events_test keeps the events of this folder true. They are what `sam local invoke` is given, one folder for each function;
// here each is served by the function's own handler, on a table in memory, in the order of one completion, and what the machine passes
// on is compared with the files key by key.
package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/crypto/bcrypt"

	"toolrounds/shared/access"
	"toolrounds/shared/app"
	"toolrounds/shared/chat"
	"toolrounds/shared/file"
	"toolrounds/shared/httpapi"
	"toolrounds/shared/lambdahttp"
	"toolrounds/shared/live"
	"toolrounds/shared/memory"
	"toolrounds/shared/model"
	"toolrounds/shared/openai"
	"toolrounds/shared/run"
	"toolrounds/shared/tool"
)

// Every function has events, and every event a function that a test here serves it by.
func TestFolders(t *testing.T) {
	var functions, folders []string
	for pattern, names := range map[string]*[]string{"../functions/*": &functions, "*/*.json": &folders} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.HasSuffix(f, ".json") {
				f = filepath.Dir(f)
			}
			if name := filepath.Base(f); !slices.Contains(*names, name) {
				*names = append(*names, name)
			}
		}
		slices.Sort(*names)
	}
	if len(functions) == 0 || !slices.Equal(functions, folders) {
		t.Errorf("functions %v, but events for %v", functions, folders)
	}
}

// read decodes an event as the function does that gets it, with words replaced. With strict, a key that nobody knows is an error.
func read[In any](t *testing.T, name string, strict bool, replace ...string) (in In) {
	t.Helper()
	raw, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(strings.NewReplacer(replace...).Replace(string(raw))))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&in); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return in
}

// sameKeys compares the keys of an event with those of what is really passed.
func sameKeys(t *testing.T, name string, passed any, more ...string) {
	t.Helper()
	raw, err := json.Marshal(passed)
	if err != nil {
		t.Fatal(err)
	}
	var real map[string]any
	if err := json.Unmarshal(raw, &real); err != nil {
		t.Fatal(err)
	}
	written := read[map[string]any](t, name, false)
	want := append(slices.Collect(maps.Keys(real)), more...)
	got := slices.Collect(maps.Keys(written))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has the keys %v, the machine passes %v", name, got, want)
	}
}

// The machine's own additions: each folder's events decode without a key that the step would drop, but for what only other states read.
func TestStepsKnowTheirKeys(t *testing.T) {
	type carried struct {
		Next       string         `json:"next"`
		Calls      []run.CallStep `json:"calls"`
		Background bool           `json:"background"`
	}
	type last struct {
		app.Last
		carried
	}
	type step struct {
		run.Step
		carried
	}
	for _, name := range []string{"prepare/start", "model/first_round", "model/second_round"} {
		if in := read[step](t, name, true); in.Run == "" || in.Chat == "" {
			t.Errorf("%s names no run", name)
		}
	}
	for _, name := range []string{"finish/finish", "finish/after_an_error", "finish/background", "finish/continue"} {
		if in := read[last](t, name, true); in.Run == "" || in.Do == "" {
			t.Errorf("%s names no run or no step", name)
		}
	}
	for _, name := range []string{"tool/call", "tool/lost"} {
		if in := read[run.CallStep](t, name, true); in.Run == "" || (in.Lost != "") != (name == "tool/lost") {
			t.Errorf("%s: %+v", name, in)
		}
	}
	read[app.AdminRequest](t, "admin/create_admin", true)
}

// One completion, from the first sign-up to the sweeper.
func TestCompletion(t *testing.T) {
	w := newWorld()

	w.http(t, "api/health", http.StatusOK)
	w.http(t, "api/unknown_path", http.StatusNotFound)
	w.http(t, "api/not_signed_in", http.StatusUnauthorized)
	token := w.http(t, "api/signup", http.StatusOK)["token"].(string)
	w.words = []string{"API_KEY", token}
	if made := w.http(t, "api/create_tool", http.StatusOK); made["id"] != "echo" {
		t.Errorf("tool %v", made)
	}
	w.http(t, "api/list_tools", http.StatusOK)

	id := w.stream(t, "completions/create_chat")["id"].(string)
	w.words = append(w.words, "CHAT_ID", id)
	if answer := w.stream(t, "completions/completion"); answer["status"] != true {
		t.Fatalf("completion %v", answer)
	}
	if len(w.started) != 1 {
		t.Fatalf("%d executions", len(w.started))
	}
	start := w.started[0]
	sameKeys(t, "prepare/start", start)
	if tasks := w.stream(t, "completions/tasks")["task_ids"].([]any); len(tasks) != 1 {
		t.Errorf("tasks %v", tasks)
	}

	prepared := ok(t, app.Step(w.app.Runs.Prepare), start)
	sameKeys(t, "model/first_round", prepared)
	asked := ok(t, app.Step(w.app.Runs.CallModel), prepared.Step)
	if len(asked.Calls) != 1 {
		t.Fatalf("calls %+v", asked.Calls)
	}
	sameKeys(t, "model/second_round", asked)
	sameKeys(t, "tool/call", asked.Calls[0])
	ok(t, app.Step(w.app.RunTool), asked.Calls[0])
	if len(w.called) != 1 || w.called[0].Arguments != `{"text":"hi","times":3}` {
		t.Errorf("called %+v", w.called)
	}
	asked = ok(t, app.Step(w.app.Runs.CallModel), asked.Step)
	sameKeys(t, "finish/finish", asked, "step")
	sameKeys(t, "finish/after_an_error", asked, "step", "error", "cause")
	done := ok(t, app.Step(w.app.End), app.Last{Step: asked.Step, Do: "finish"})
	sameKeys(t, "finish/background", done, "step")
	ok(t, app.Step(w.app.End), app.Last{Step: done.Step, Do: "background"})

	// An execution of a run that has ended is reported; the schedule finds nothing to do.
	input, err := json.Marshal(start)
	if err != nil {
		t.Fatal(err)
	}
	report := read[app.StatusChange](t, "sweep/execution_failed", false)
	report.Detail.Input = string(input)
	ok(t, app.Step(w.app.Sweep), report)
	if tasks := w.stream(t, "completions/tasks")["task_ids"].([]any); len(tasks) != 0 {
		t.Errorf("tasks %v", tasks)
	}
}

// The files themselves, as `sam local invoke` sends them: their run does not exist here, as it would after its chat was deleted.
func TestStepsOfARunThatIsGone(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	if out := ok(t, app.Step(w.app.Runs.Prepare), read[run.Step](t, "prepare/start", false)); out.Next != "finish" {
		t.Errorf("%+v", out)
	}
	for _, name := range []string{"model/first_round", "model/second_round"} {
		if out := ok(t, app.Step(w.app.Runs.CallModel), read[run.Step](t, name, false)); out.Next != "finish" || len(out.Calls) != 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
	for _, name := range []string{"tool/call", "tool/lost"} {
		ok(t, app.Step(w.app.RunTool), read[run.CallStep](t, name, false))
	}
	for _, name := range []string{"finish/finish", "finish/after_an_error", "finish/background", "finish/continue"} {
		if out := ok(t, app.Step(w.app.End), read[app.Last](t, name, false)); out.Background {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if _, err := app.Step(w.app.End)(ctx, read[app.Last](t, "finish/unknown_step", true)); err == nil || err.Error() != `unknown step "dance"` {
		t.Errorf("unknown step: %v", err)
	}
	for _, name := range []string{"sweep/schedule", "sweep/execution_failed"} {
		ok(t, app.Step(w.app.Sweep), read[app.StatusChange](t, name, false))
	}
	report := read[app.StatusChange](t, "sweep/execution_failed", false)
	if report.Detail.Name == "" || report.Detail.Status != "FAILED" || !json.Valid([]byte(report.Detail.Input)) {
		t.Errorf("report %+v", report)
	}
	var platform *app.PlatformError
	if _, err := app.Step(w.app.Sweep)(ctx, read[app.StatusChange](t, "sweep/foreign_input", false)); !errors.As(err, &platform) {
		t.Errorf("foreign input: %v", err)
	}
}

func TestAdmin(t *testing.T) {
	w := newWorld()
	made := ok(t, w.app.Admin, read[app.AdminRequest](t, "admin/create_admin", true))
	if made.Email != "second@example.com" || !strings.HasPrefix(made.APIKey, "sk-") {
		t.Errorf("%+v", made)
	}
	if _, err := w.app.Admin(t.Context(), read[app.AdminRequest](t, "admin/unknown_operation", true)); err == nil {
		t.Error("an unknown operation succeeds")
	}
}

func TestSocket(t *testing.T) {
	w := newWorld()
	sockets := &live.Sockets{Service: w.app.Live, Chats: w.app.Runs.Chats, Runs: w.app.Runs}
	for _, c := range []struct {
		name   string
		status int
	}{{"socket/connect", 200}, {"socket/connect_old_protocol", 400}, {"socket/message", 200}, {"socket/disconnect", 200}} {
		in := read[live.Request](t, c.name, false)
		if in.RequestContext.ConnectionID == "" || in.RequestContext.RouteKey == "" {
			t.Errorf("%s: %+v", c.name, in.RequestContext)
		}
		if out := ok(t, sockets.Handle, in); out.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, out.StatusCode, c.status)
		}
	}
	if want := []string{`{"id":1,"type":"pong"}`}; !slices.Equal(w.posted, want) {
		t.Errorf("posted %v, want %v", w.posted, want)
	}
}

// world is the application on a table in memory. It stands in for what lies outside: the machine, the provider, the tool container,
// the gateway's connections, and the keys.
type world struct {
	app     app.App
	handler http.Handler
	words   []string // replaced in events
	started []run.Step
	called  []run.Invocation
	posted  []string
}

func newWorld() *world {
	w := &world{}
	tab, quiet := &memory.Table{}, slog.New(slog.DiscardHandler)
	accounts := access.New(tab, w, w, &access.Options{FirstSignup: true, BcryptCost: bcrypt.MinCost, Log: quiet})
	models := model.New(tab, w, accounts, &model.Options{Log: quiet})
	tools := tool.New(tab, container{}, w, accounts, &tool.Options{Log: quiet})
	files := &file.Store{Table: tab, Now: time.Now}
	shows := &live.Service{Table: tab, Post: w, Accounts: accounts, Keys: w, Patience: time.Second, Now: time.Now}
	runs := &run.Service{
		Table: tab, Chats: &chat.Store{Table: tab, Now: time.Now}, Accounts: accounts, Models: models, Tools: tools, Provider: provider{w},
		Container: w, Files: files, Machine: w, Limits: run.Limits{Rounds: 3, ToolSeconds: 1}, Now: time.Now, NewID: access.NewID,
		ItemID: func(prefix string) string { return prefix + "_" + access.NewID() },
	}
	runs.Live, runs.Broker, runs.Questions = shows, shows, shows
	w.app = app.App{Accounts: accounts, Models: models, Tools: tools, Runs: runs, Files: files, Live: shows}
	w.handler = httpapi.New(httpapi.Deps{
		Accounts: accounts, Models: models, Tools: tools, Files: files, Live: shows, Log: quiet,
		Chats: httpapi.Chats{Store: runs.Chats, Runs: runs, Purge: w, BaseURL: func(*http.Request) string { return "https://test" }},
	})
	return w
}

// http serves an event buffered, as the api function does, and returns the body.
func (w *world) http(t *testing.T, name string, status int) map[string]any {
	t.Helper()
	in := read[events.APIGatewayProxyRequest](t, name, false, w.words...)
	out, err := lambdahttp.Buffered(w.handler)(t.Context(), in)
	if err != nil || out.StatusCode != status {
		t.Fatalf("%s: status %d, want %d: %s %v", name, out.StatusCode, status, out.Body, err)
	}
	return object(t, name, []byte(out.Body))
}

// stream serves an event as the completions function does.
func (w *world) stream(t *testing.T, name string) map[string]any {
	t.Helper()
	in := read[events.APIGatewayProxyRequest](t, name, false)
	// The placeholders are in a body, too, which travels as base64.
	out, err := lambdahttp.Stream(w.replaced())(t.Context(), in)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	body, err := io.ReadAll(out.Body)
	if err != nil || out.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d: %s %v", name, out.StatusCode, body, err)
	}
	return object(t, name, body)
}

// replaced serves requests with the words of the world in place of an event's placeholders.
func (w *world) replaced() http.Handler {
	words := strings.NewReplacer(w.words...)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		body = []byte(words.Replace(string(body)))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.URL.Path = words.Replace(r.URL.Path)
		r.Header.Set("Authorization", words.Replace(r.Header.Get("Authorization")))
		w.handler.ServeHTTP(rw, r)
	})
}

// object decodes an answer; a list comes back empty.
func object(t *testing.T, name string, body []byte) (o map[string]any) {
	t.Helper()
	if bytes.HasPrefix(body, []byte("[")) {
		return nil
	}
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatalf("%s: %v: %s", name, err, body)
	}
	return o
}

// ok returns what a step gives, which must not fail.
func ok[In, Out any](t *testing.T, step func(context.Context, In) (Out, error), in In) Out {
	t.Helper()
	out, err := step(t.Context(), in)
	if err != nil {
		t.Fatalf("%+v: %v", in, err)
	}
	return out
}

// Signing implements access.Keys.
func (*world) Signing(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// Seal implements access.Sealer.
func (*world) Seal(_ context.Context, plain []byte, _ string) ([]byte, error) { return plain, nil }

// Open implements access.Sealer.
func (*world) Open(_ context.Context, sealed []byte, _ string) ([]byte, error) { return sealed, nil }

// Models implements model.Provider.
func (*world) Models(context.Context) ([]map[string]any, error) {
	return []map[string]any{{"id": "stub-model", "object": "model", "created": json.Number("1700000000"), "owned_by": "stub"}}, nil
}

// Start implements run.Machine.
func (w *world) Start(_ context.Context, _ string, input any) error {
	w.started = append(w.started, input.(run.Step))
	return nil
}

// Stop implements run.Machine.
func (*world) Stop(context.Context, string, string) error { return nil }

// Purge implements chat.Purger.
func (*world) Purge(context.Context, string) error { return nil }

// Post implements live.Poster.
func (w *world) Post(_ context.Context, _ string, frame []byte) error {
	w.posted = append(w.posted, string(frame))
	return nil
}

// Close implements live.Poster.
func (*world) Close(context.Context, string) error { return nil }

// Call implements run.Container.
func (w *world) Call(_ context.Context, inv run.Invocation) (run.Result, error) {
	w.called = append(w.called, inv)
	return run.Result{Content: "hi hi", Status: run.Completed}, nil
}

// provider is a model that calls the tool once and then answers.
type provider struct{ *world }

func (p provider) Stream(_ context.Context, _ []byte, _ openai.StreamOptions, _ func(openai.Delta) error) (*openai.Round, error) {
	if len(p.called) == 0 {
		return &openai.Round{Calls: []openai.Call{{ID: "c1", Name: "echo", Arguments: `{"text":"hi","times":3}`}}, Finish: openai.FinishToolCalls}, nil
	}
	return &openai.Round{Blocks: []openai.Block{{Text: "hi hi"}}, Finish: openai.FinishStop}, nil
}

func (provider) Complete(context.Context, []byte) (*openai.Completion, error) {
	return &openai.Completion{Status: http.StatusOK, Body: []byte("{}")}, nil
}

func (provider) Do(context.Context, []byte) (*http.Response, error) {
	return nil, errors.New("no request of these events asks for a raw answer")
}

// container describes the one tool of the events.
type container struct{}

func (container) Describe(context.Context, string, string) (tool.Description, error) {
	spec := tool.Spec{Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer"}}}`)}
	return tool.Description{Specs: []tool.Spec{spec}, Offered: []tool.Spec{spec}, HasValves: true}, nil
}

func (container) ValvesSpec(context.Context, string, string, tool.ValvesKind) (json.RawMessage, error) {
	return json.RawMessage("null"), nil
}

func (container) CheckValves(_ context.Context, _, _ string, _ tool.ValvesKind, values json.RawMessage) (json.RawMessage, error) {
	return values, nil
}
