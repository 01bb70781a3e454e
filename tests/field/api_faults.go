package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fault arranges the case's fault; the function that it returns is called before each request to the model is answered.
func (s *sequence) fault(ctx context.Context) func(n int) {
	switch f := s.given.Faults[0]; f.Where + " " + f.What {
	case "model-round kill": // every try dies
		return func(int) {
			for pid := range processes("Model") {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					s.happened.Store(true)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	case "tool-task response_lost_once": // the platform asks once more for a call whose answer it has lost
		return func(n int) {
			if n == 1 {
				s.again(ctx)
			}
		}
	}
	return nil
}

// again invokes the tool function for the first call a second time, as the machine does when it did not hear the answer.
func (s *sequence) again(ctx context.Context) {
	raw, _ := json.Marshal(map[string]any{"run": s.run, "chat": s.chats[s.who], "round": 0, "index": 0})
	for _, name := range processes("Tool") {
		url := os.Getenv("EMULATOR_URL") + "/2015-03-31/functions/" + name + "/invocations"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
		if err != nil {
			return
		}
		if resp, err := fieldHTTP.Do(req); err == nil {
			s.happened.Store(resp.StatusCode == http.StatusOK)
			resp.Body.Close()
		}
		return
	}
}

// processes are those that serve a function of the stack, each with the function's full name.
func processes(function string) map[int]string {
	found := map[int]string{}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile, or somebody else's
		}
		env := "\x00" + string(text)
		_, rest, ok := strings.Cut(env, fmt.Sprintf("\x00AWS_LAMBDA_FUNCTION_NAME=%s-%s-", os.Getenv("STACK_NAME"), function))
		if !ok || !strings.Contains(env, "\x00AWS_ENDPOINT_URL="+os.Getenv("EMULATOR_URL")+"\x00") {
			continue
		}
		suffix, _, _ := strings.Cut(rest, "\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found[pid] = os.Getenv("STACK_NAME") + "-" + function + "-" + suffix
		}
	}
	return found
}

const fieldDocument = `{"openapi":"3.1.0","info":{"title":"field","version":"1"},"paths":{"/p":{"get":{"operationId":"list_p","description":"Lists.",
"parameters":[{"name":"size","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}}}`

// connect adds an OpenAPI server that the stack has never asked for anything.
func (s *sequence) connect(ctx context.Context) error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "openapi.json") {
			fmt.Fprint(w, fieldDocument)
			return
		}
		fmt.Fprint(w, `[]`)
	}))
	const path, key = "/api/v1/configs/tool_servers", "TOOL_SERVER_CONNECTIONS"
	a := s.users["a"]
	var before map[string][]any
	if err := a.must(ctx, "GET", path, nil, &before); err != nil {
		return err
	}
	s.disconnect = func(ctx context.Context) {
		server.Close()
		_, _ = a.do(ctx, "POST", path, map[string]any{key: before[key]})
	}
	s.tools["server:0"] = "server:" + s.mark
	return a.must(ctx, "POST", path, map[string]any{key: append(before[key], map[string]any{
		"url": server.URL, "path": "openapi.json", "type": "openapi", "auth_type": "none", "key": "", "config": map[string]any{"enable": true},
		"info": map[string]any{"id": s.mark, "name": "field", "description": ""},
	})}, nil)
}
