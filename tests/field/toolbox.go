package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"

	"toolrounds/shared/tool"
	"toolrounds/shared/toolbox"
)

func init() {
	register("tool_spec", playToolSpec)
	register("tool_call", playToolCall)
}

// resultBytes is what the model gets of a result at most, as in the dispatcher: the container cuts and tells so.
const resultBytes = 256 << 10

// container is the Python tool container as a process that answers one event a line (functions/toolbox/src/toolbox/lines.py).
type container struct {
	cmd    *exec.Cmd
	in     *json.Encoder
	out    *bufio.Reader
	errors bytes.Buffer
	close  func() error
}

// root is the repository's folder, found from wherever the program or its test was started.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository")
		}
	}
}

// startContainer starts the container with $TOOLBOX_PYTHON or, without it, the virtual environment that `make` prepares.
func startContainer(ctx context.Context) (*container, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	python := os.Getenv("TOOLBOX_PYTHON")
	if python == "" {
		python = filepath.Join(dir, ".local", "toolbox-venv", "bin", "python")
	}
	if _, err := exec.LookPath(python); err != nil {
		return nil, fmt.Errorf("no Python with functions/toolbox/requirements.txt installed: set TOOLBOX_PYTHON (%w)", err)
	}
	c := &container{cmd: exec.CommandContext(ctx, python, "-m", "toolbox.lines")}
	c.cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "functions", "toolbox", "src"), "PYTHONDONTWRITEBYTECODE=1")
	c.cmd.Stderr = &c.errors
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out, c.close = json.NewEncoder(in), bufio.NewReader(out), in.Close
	return c, c.cmd.Start()
}

// stop ends the process by closing its input, so that it can take its children along.
func (c *container) stop() {
	_ = c.close()
	_ = c.cmd.Wait()
}

func (c *container) invoke(event, answer any) error {
	if err := c.in.Encode(event); err != nil {
		return fmt.Errorf("tool container: %w: %s", err, c.errors.Bytes())
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("tool container: %w: %s", err, c.errors.Bytes())
	}
	return json.Unmarshal(line, answer)
}

type fieldTool struct {
	ID         string          `json:"id"`
	Python     string          `json:"python"`
	Valves     json.RawMessage `json:"valves"`
	UserValves json.RawMessage `json:"user_valves"`
}

type described struct {
	OK      bool `json:"ok"`
	Offered []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"offered"`
	Manifest map[string]string `json:"manifest"`
	Error    struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	} `json:"error"`
}

func (c *container) describe(t fieldTool) (described, error) {
	var d described
	err := c.invoke(map[string]any{"op": "describe", "tool": map[string]any{"id": t.ID, "source": t.Python}}, &d)
	return d, err
}

func playToolSpec(ctx context.Context, c Case) (any, error) {
	var given struct {
		ToolID string `json:"tool_id"`
		Python string `json:"python"`
	}
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, err
	}
	box, err := startContainer(ctx)
	if err != nil {
		return nil, err
	}
	defer box.stop()
	d, err := box.describe(fieldTool{ID: given.ToolID, Python: given.Python})
	if err != nil {
		return nil, err
	}
	specs := map[string]any{}
	for _, s := range d.Offered {
		specs[s.Name] = map[string]any{"description": s.Description, "parameters": s.Parameters}
	}
	return map[string]any{"loads": d.OK, "error": d.Error.Message, "frontmatter": d.Manifest, "specs": specs}, nil
}

// fieldResult is the text of a tool message and what hangs on it.
type fieldResult struct {
	Content string            `json:"content"`
	Status  toolbox.Status    `json:"status"`
	Files   []json.RawMessage `json:"files"`
	Embeds  []string          `json:"embeds"`
}

type fieldCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// target is one function under the name by which it is offered.
type target struct {
	tool     fieldTool
	function string
}

type toolCallGiven struct {
	Tools     []fieldTool `json:"tools"`
	Calls     []fieldCall `json:"calls"`
	EventCall *struct {
		Reply json.RawMessage `json:"reply"`
	} `json:"event_call"`
	Limits struct {
		Seconds int `json:"tool_timeout_s"`
	} `json:"limits"`
}

func playToolCall(ctx context.Context, c Case) (any, error) {
	var given toolCallGiven
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, err
	}
	box, err := startContainer(ctx)
	if err != nil {
		return nil, err
	}
	defer box.stop()
	targets, err := box.offer(given.Tools)
	if err != nil {
		return nil, err
	}
	broker := newFieldBroker(given)
	defer broker.server.Close()
	results, called := []fieldResult{}, []map[string]string{}
	for _, call := range given.Calls {
		for _, text := range tool.SplitGlued(argumentText(call.Arguments)) {
			t, known := targets[call.Name]
			if !known {
				results = append(results, fieldResult{Content: fmt.Sprintf("Error: Tool %q not found.", call.Name), Status: toolbox.Failed})
				continue
			}
			clean, bad := tool.ParseArguments(call.Name, text)
			if bad != nil {
				results = append(results, fieldResult{Content: bad.Error(), Status: toolbox.Failed})
				continue
			}
			result, err := box.call(t, clean, given.Limits.Seconds, broker)
			if err != nil {
				return nil, err
			}
			results = append(results, result)
			called = append(called, map[string]string{"name": call.Name, "arguments": clean})
		}
	}
	return map[string]any{"results": results, "events": broker.list(), "called": called}, nil
}

// offer describes all tools and names their functions: a name that is taken already gets the tool's id in front.
func (c *container) offer(tools []fieldTool) (map[string]target, error) {
	targets := map[string]target{}
	for _, t := range tools {
		d, err := c.describe(t)
		if err != nil {
			return nil, err
		}
		if !d.OK {
			return nil, fmt.Errorf("tool %s: %s", t.ID, d.Error.Message)
		}
		for _, s := range d.Offered {
			name := s.Name
			for _, taken := targets[name]; taken; _, taken = targets[name] {
				name = t.ID + "_" + name
			}
			targets[name] = target{tool: t, function: s.Name}
		}
	}
	return targets, nil
}

// argumentText is what the model sent, as text: some servers send an object instead.
func argumentText(raw json.RawMessage) string {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return text
	}
	return string(raw)
}

func (c *container) call(t target, arguments string, seconds int, broker *fieldBroker) (fieldResult, error) {
	event := map[string]any{
		"op":   "call",
		"tool": map[string]any{"id": t.tool.ID, "source": t.tool.Python, "valves": t.tool.Valves, "user_valves": t.tool.UserValves},
		"user": map[string]string{"id": "user-1", "name": "User", "email": "user@example.com", "role": "user"},
		"context": map[string]any{
			"metadata": map[string]any{"user_id": "user-1", "params": map[string]string{"function_calling": "native"}},
			"chat_id":  "chat-1", "message_id": "message-1", "session_id": "session-1",
		},
		"function": t.function, "arguments": arguments, "key": "field/0/0",
		"limits": toolbox.Limits{Seconds: seconds, ResultBytes: resultBytes},
		"broker": toolbox.Broker{URL: broker.server.URL, Token: "field"},
	}
	var answer struct {
		OK     bool           `json:"ok"`
		Result toolbox.Result `json:"result"`
		Error  struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := c.invoke(event, &answer); err != nil {
		return fieldResult{}, err
	}
	if !answer.OK {
		return fieldResult{Content: "Error: " + answer.Error.Message, Status: toolbox.Failed}, nil
	}
	result := fieldResult{Content: answer.Result.Content, Status: answer.Result.Status, Files: answer.Result.Files, Embeds: answer.Result.Embeds}
	for _, image := range answer.Result.Images {
		// The service stores it and gives the URL of the file; here the data URI stands for that.
		file, err := json.Marshal(map[string]string{"type": "image", "url": image})
		if err != nil {
			return fieldResult{}, err
		}
		result.Files = append(result.Files, file)
	}
	return result, nil
}

// fieldBroker plays the broker and the answering client behind it.
type fieldBroker struct {
	server *httptest.Server
	posted chan postedEvent
	events []json.RawMessage
}

type postedEvent struct {
	N     int             `json:"n"`
	Event json.RawMessage `json:"event"`
}

func newFieldBroker(given toolCallGiven) *fieldBroker {
	b := &fieldBroker{posted: make(chan postedEvent, 1<<16)}
	reply := map[string]any{"state": "failed", "error": "Client session disconnected."}
	if given.EventCall != nil {
		reply = map[string]any{"state": "answered", "value": given.EventCall.Reply}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Events []postedEvent `json:"events"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer field" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		for _, e := range body.Events {
			b.posted <- e
		}
		_, _ = w.Write([]byte("{}"))
	})
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"id": "q1"}) })
	mux.HandleFunc("GET /call/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, reply) })
	b.server = httptest.NewServer(mux)
	return b
}

// take takes over what was posted: the container has flushed a call's events before it answers.
func (b *fieldBroker) take() {
	for {
		select {
		case e := <-b.posted:
			b.events = append(b.events, e.Event)
		default:
			return
		}
	}
}

func (b *fieldBroker) list() []json.RawMessage {
	b.take()
	if b.events == nil {
		return []json.RawMessage{}
	}
	return b.events
}
