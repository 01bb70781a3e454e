// Package faults kills the process of each step of a run, in the middle of the step, on the deployed local stack: the run must end
// all the same, with the answer of an undisturbed run or an error that says what happened, and only once.
//
// `make test-faults` runs it; infra/local/suite.py brings up the stack and names it in the environment.
package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A run that lost a process must end within this time: the platform notices at once, retries are seconds apart.
const patience = 90 * time.Second

// No request may hang longer than that either.
var client = &http.Client{Timeout: patience}

const source = `
class Tools:
    def add(self, a: int, b: int) -> int:
        """
        Add two integers.
        :param a: first
        :param b: second
        """
        return a + b

    async def slow(self, a: int, b: int) -> int:
        """
        Add two integers, thoughtfully.
        :param a: first
        :param b: second
        """
        import asyncio

        await asyncio.sleep(4)
        return a + b
`

// prompt makes the scripted model call the tool twice and then answer with the last sum.
const prompt = `add script:{"turns":[{"calls":[{"name":"add","arguments":{"a":1,"b":2}}]},` +
	`{"calls":[{"name":"add","arguments":{"a":3,"b":4}}]},{"text":"the sum is {{result}}","chunk":3,"interval":0.05}]}`

const want = "the sum is 7"

func TestEveryStepMayDie(t *testing.T) {
	s := newServer(t)
	for range 2 { // warm: a process to stop exists then
		if got := s.finish(t, s.start(t)); got.Content != want {
			t.Fatalf("undisturbed: %+v", got)
		}
	}
	for _, function := range []string{"Prepare", "Model", "Tool", "Toolbox", "Finish"} {
		t.Run(function, func(t *testing.T) {
			// Stopped first, so that the run is certainly in the middle of this step when the process dies.
			victims := pids(t, function)
			if len(victims) == 0 {
				t.Fatalf("no process serves %s", function)
			}
			signal(t, victims, syscall.SIGSTOP)
			run := s.start(t)
			time.Sleep(1500 * time.Millisecond)
			if len(s.tasks(t, run.chat)) == 0 {
				t.Error("the run did not wait for the stopped process")
			}
			signal(t, victims, syscall.SIGKILL)
			s.check(t, run)
		})
	}
	t.Run("Completions", func(t *testing.T) {
		victims := pids(t, "Completions")
		run := s.start(t)
		signal(t, victims, syscall.SIGKILL)
		s.check(t, run)
	})
}

// check waits for the end of a run and looks at what stands in the chat.
func (s *server) check(t *testing.T, run run) {
	t.Helper()
	got := s.finish(t, run)
	if !got.Done {
		t.Errorf("the message is open: %+v", got)
	}
	if got.Content != want && got.Error == nil {
		t.Errorf("neither the answer nor an error: %+v", got)
	}
	if n := strings.Count(got.Content, "the sum is"); n > 1 {
		t.Errorf("%d answers: %q", n, got.Content)
	}
	t.Logf("ended with %q, error %v", got.Content, got.Error)
}

type server struct{ base, key string }

type run struct{ chat, message string }

type message struct {
	Content string `json:"content"`
	Done    bool   `json:"done"`
	Error   any    `json:"error"`

	Output json.RawMessage `json:"output"`
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{base: os.Getenv("BASE_URL"), key: os.Getenv("ADMIN_KEY")}
	if s.base == "" || os.Getenv("EMULATOR_URL") == "" {
		t.Skip("no stack is named; make test-faults brings one up")
	}
	form := map[string]any{"id": "faults", "name": "Faults", "content": source, "meta": map[string]string{"description": "adds"}}
	if s.call(t, "POST", "/api/v1/tools/create", form, nil) != http.StatusOK { // the stack keeps its data
		s.must(t, "POST", "/api/v1/tools/id/faults/update", form, nil)
	}
	return s
}

// start accepts one completion.
func (s *server) start(t *testing.T) run {
	t.Helper()
	made := s.chat(t, prompt)
	s.must(t, "POST", "/api/chat/completions", made.request(prompt, "api-"+made.message), nil)
	return made
}

// request asks for the answer in a chat; without a session it is held until the answer is there.
func (r run) request(prompt, session string) map[string]any {
	body := map[string]any{
		"model": "stub-model", "stream": true, "chat_id": r.chat, "id": r.message,
		"messages": []any{map[string]string{"role": "user", "content": prompt}}, "tool_ids": []string{"faults"},
	}
	if session != "" {
		body["session_id"] = session
	}
	return body
}

// chat makes a chat that waits for an answer.
func (s *server) chat(t *testing.T, prompt string) run {
	t.Helper()
	user, assistant, now := uuid.NewString(), uuid.NewString(), time.Now().Unix()
	var chat struct {
		ID string `json:"id"`
	}
	s.must(t, "POST", "/api/v1/chats/new", map[string]any{"chat": map[string]any{
		"title": "faults", "models": []string{"stub-model"},
		"history": map[string]any{"currentId": assistant, "messages": map[string]any{
			user: map[string]any{
				"id": user, "role": "user", "content": prompt, "timestamp": now, "models": []string{"stub-model"},
				"childrenIds": []string{assistant},
			},
			assistant: map[string]any{
				"id": assistant, "role": "assistant", "content": "", "parentId": user, "childrenIds": []string{}, "model": "stub-model",
				"done": false, "timestamp": now,
			},
		}},
	}}, &chat)
	return run{chat.ID, assistant}
}

func (s *server) tasks(t *testing.T, chat string) []string {
	t.Helper()
	var open struct {
		TaskIDs []string `json:"task_ids"`
	}
	s.must(t, "GET", "/api/tasks/chat/"+chat, nil, &open)
	return open.TaskIDs
}

// finish waits until nothing of the run is open and reads its message.
func (s *server) finish(t *testing.T, run run) message {
	t.Helper()
	for until := time.Now().Add(patience); len(s.tasks(t, run.chat)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Errorf("still open after %v", patience)
			break
		}
	}
	return s.read(t, run)
}

// read reads a run's message as it is now.
func (s *server) read(t *testing.T, run run) message {
	t.Helper()
	var read struct {
		Chat struct {
			History struct {
				Messages map[string]message `json:"messages"`
			} `json:"history"`
		} `json:"chat"`
	}
	s.must(t, "GET", "/api/v1/chats/"+run.chat, nil, &read)
	return read.Chat.History.Messages[run.message]
}

// must calls until it succeeds for a while: the process that serves some routes is among those that are killed.
func (s *server) must(t *testing.T, method, path string, body, into any) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		status := s.call(t, method, path, body, into)
		if status == http.StatusOK {
			return
		}
		if attempt == 20 || status < 500 {
			t.Fatalf("%s %s: %d", method, path, status)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// call makes one request; no answer at all counts as 503.
func (s *server) call(t *testing.T, method, path string, body, into any) int {
	t.Helper()
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		payload = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, s.base+path, payload)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	if into != nil && response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return response.StatusCode
}

// pids are the processes that serve a function of this stack: each has the function's name and its emulator in its environment.
func pids(t *testing.T, function string) []int {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environments) == 0 {
		t.Skip("processes cannot be looked up here")
	}
	var found []int
	for _, file := range environments {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile, or somebody else's
		}
		env := "\x00" + string(text)
		if strings.Contains(env, fmt.Sprintf("\x00AWS_LAMBDA_FUNCTION_NAME=%s-%s-", os.Getenv("STACK_NAME"), function)) &&
			strings.Contains(env, "\x00AWS_ENDPOINT_URL="+os.Getenv("EMULATOR_URL")+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found = append(found, pid)
		}
	}
	return found
}

func signal(t *testing.T, pids []int, signal syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
}
