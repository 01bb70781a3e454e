package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

// TestMain is also the streamed function: the tests start their own binary as its bootstrap, so that the real client of
// aws-lambda-go speaks to the Runtime API here.
func TestMain(m *testing.M) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(streamedFunction)
		return
	}
	os.Exit(m.Run())
}

func streamedFunction(_ context.Context, event events.APIGatewayProxyRequest) (any, error) {
	read, write := io.Pipe()
	response := &events.APIGatewayProxyStreamingResponse{
		StatusCode:        http.StatusCreated,
		Headers:           map[string]string{"Content-Type": "text/event-stream", "X-Both": "single"},
		MultiValueHeaders: map[string][]string{"X-Both": {"a", "b"}},
		Cookies:           []string{"one=1", "two=2"},
		Body:              read,
	}
	go func() {
		defer write.Close()
		switch event.Headers["Do"] {
		case "echo":
			_ = json.NewEncoder(write).Encode(event)
		case "steps":
			for i := range 3 {
				_, _ = fmt.Fprintf(write, "step %d\n", i)
				time.Sleep(200 * time.Millisecond)
			}
		case "silence":
			_, _ = io.WriteString(write, "begun\n")
			time.Sleep(time.Minute)
		case "die":
			_, _ = io.WriteString(write, "begun\n")
			time.Sleep(100 * time.Millisecond)
			os.Exit(3)
		case "fail":
			_, _ = io.WriteString(write, "begun\n")
			_ = write.CloseWithError(errors.New("broken off"))
		case "touch":
			time.Sleep(300 * time.Millisecond)
			_ = os.WriteFile(event.Headers["File"], nil, 0o600)
		case "pid":
			_, _ = fmt.Fprint(write, os.Getpid())
		}
	}()
	switch event.Headers["Do"] {
	case "error":
		return nil, errors.New("no answer")
	case "plain":
		return map[string]int{"statusCode": 200}, nil
	}
	return response, nil
}

// door starts a front door around the test's own streamed function and an emulator made of a handler.
func door(t *testing.T, emulator http.Handler) (base string, g *gateway) {
	t.Helper()
	base, g, _ = doorWithProcess(t, emulator)
	return base, g
}

func doorWithProcess(t *testing.T, emulator http.Handler) (base string, g *gateway, process *bootstrap) {
	t.Helper()
	if emulator == nil {
		emulator = http.NotFoundHandler()
	}
	back := httptest.NewServer(emulator)
	t.Cleanup(back.Close)
	target, _ := url.Parse(back.URL)

	queue := newQueue("arn:aws:lambda:us-east-1:000000000000:function:streamed")
	runtimeAPI := httptest.NewServer(queue)
	folder := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(folder, "bootstrap")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	process = &bootstrap{
		function:    &function{name: "streamed", endpoint: back.URL, region: "us-east-1", memory: 128},
		queue:       queue,
		folder:      folder,
		runtimeAPI:  strings.TrimPrefix(runtimeAPI.URL, "http://"),
		concurrency: 8,
		pidFile:     filepath.Join(folder, "pid"),
	}
	done := make(chan struct{})
	go func() { defer close(done); process.supervise(ctx) }()

	g = &gateway{
		apiID: "api", stage: "v1", queue: queue, timeout: 30 * time.Second, idle: 3 * time.Second,
		rest: newRESTProxy(target, "api", "v1"), upgrades: newUpgradeProxy(target, "sockets", "v1"),
	}
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		cancel()
		<-done
		runtimeAPI.CloseClientConnections()
		runtimeAPI.Close()
	})
	return front.URL, g, process
}

func request(t *testing.T, method, address, do string, body io.Reader) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Do", do)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestStreamedRoutesAreTheTemplates(t *testing.T) {
	template, err := os.ReadFile("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, line := range strings.Split(string(template), "\n") {
		if strings.Contains(line, "ResponseTransferMode: RESPONSE_STREAM") {
			declared = append(declared, regexp.MustCompile(`Path: '?([^',]+)`).FindStringSubmatch(line)[1])
		}
	}
	if !slices.Equal(declared, streamedRoutes) {
		t.Fatalf("the template streams %q, the front door %q", declared, streamedRoutes)
	}
}

func TestStreamedRoute(t *testing.T) {
	for path, want := range map[string]string{
		"/api/chat/completions":    "/api/chat/completions",
		"/api/v1/chats":            "/api/v1/chats",
		"/api/v1/chats/":           "/api/v1/chats",
		"/api/v1/chats/a%2Fb":      "/api/v1/chats/{proxy+}",
		"/api/v1/chats/a/messages": "/api/v1/chats/{proxy+}",
		"/api/tasks/chat/x":        "/api/tasks/{proxy+}",
		"/api/v1/chatsy":           "",
		"/api/chat/completions/x":  "",
		"/api/v1/tools/":           "",
		"/":                        "",
	} {
		if got, _, _ := streamedRoute(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestEventIsThatOfARESTAPI(t *testing.T) {
	base, _ := door(t, nil)
	sent := []byte("{\"a\":\xff}")
	response := request(t, "POST", base+"/api/tasks/a%2Fb%20c?q=1&q=%262&e=", "echo", bytes.NewReader(sent))
	var event events.APIGatewayProxyRequest
	if err := json.NewDecoder(response.Body).Decode(&event); err != nil {
		t.Fatal(err)
	}
	if event.Path != "/api/tasks/a%2Fb%20c" || event.Resource != "/api/tasks/{proxy+}" || event.PathParameters["proxy"] != "a/b c" {
		t.Errorf("path %q of %q, parameters %q", event.Path, event.Resource, event.PathParameters)
	}
	if body, _ := base64.StdEncoding.DecodeString(event.Body); !event.IsBase64Encoded || !bytes.Equal(body, sent) {
		t.Errorf("body %q, base64 %v", event.Body, event.IsBase64Encoded)
	}
	if got := event.MultiValueQueryStringParameters["q"]; !slices.Equal(got, []string{"1", "&2"}) || event.QueryStringParameters["q"] != "&2" {
		t.Errorf("query %q", got)
	}
	if event.RequestContext.Stage != "v1" || event.RequestContext.Path != "/v1/api/tasks/a%2Fb%20c" || event.HTTPMethod != "POST" {
		t.Errorf("context %+v", event.RequestContext)
	}
	if event.Headers["Do"] != "echo" || event.Headers["X-Forwarded-For"] != "127.0.0.1" {
		t.Errorf("headers %q", event.Headers)
	}
}

func TestHeadAndChunksArriveAsTheyAreWritten(t *testing.T) {
	base, _ := door(t, nil)
	began := time.Now()
	response := request(t, "GET", base+"/api/tasks", "steps", nil)
	first := make([]byte, 7)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "step 0\n" {
		t.Fatalf("%q, %v", first, err)
	}
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "step 1\nstep 2\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	if all := time.Since(began); all < 500*time.Millisecond {
		t.Errorf("all of it came after %v", all)
	}
	if response.StatusCode != http.StatusCreated || !slices.Equal(response.Header["X-Both"], []string{"a", "b"}) ||
		!slices.Equal(response.Header["Set-Cookie"], []string{"one=1", "two=2"}) {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
}

func TestRequestsAreServedAtOnce(t *testing.T) {
	base, _ := door(t, nil)
	request(t, "GET", base+"/api/tasks", "pid", nil)
	began := time.Now()
	done := make(chan error, 6)
	for range cap(done) {
		go func() {
			r, _ := http.NewRequest("GET", base+"/api/tasks", nil)
			r.Header.Set("Do", "steps")
			response, err := http.DefaultClient.Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if all := time.Since(began); all > 3*time.Second {
		t.Errorf("six answers of 0.6 s took %v", all)
	}
}

func TestFailures(t *testing.T) {
	base, _, process := doorWithProcess(t, nil)
	for _, do := range []string{"error", "plain"} {
		response := request(t, "GET", base+"/api/tasks", do, nil)
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusBadGateway || string(body) != `{"detail":"Internal server error"}` ||
			response.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %s", do, response.StatusCode, body)
		}
	}
	pid := pidOf(t, base)
	for _, do := range []string{"fail", "die"} {
		response := request(t, "GET", base+"/api/tasks", do, nil)
		if body, err := io.ReadAll(response.Body); err == nil || string(body) != "begun\n" {
			t.Errorf("%s: %q, error %v, want a cut connection", do, body, err)
		}
	}
	replaced(t, process, pid)
	if pidOf(t, base) == pid {
		t.Error("the process did not die")
	}
}

// replaced waits for the process that comes after pid. A request that comes in the moment of a death may be lost with it, as on AWS.
func replaced(t *testing.T, process *bootstrap, pid int) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile(process.pidFile); string(text) != strconv.Itoa(pid)+"\n" {
			return
		}
	}
	t.Fatalf("process %d was not replaced", pid)
}

func pidOf(t *testing.T, base string) int {
	t.Helper()
	text, _ := io.ReadAll(request(t, "GET", base+"/api/tasks", "pid", nil).Body)
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestKilledProcessIsReplaced(t *testing.T) {
	base, g, process := doorWithProcess(t, nil)
	first := pidOf(t, base)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	replaced(t, process, first)
	if second := pidOf(t, base); second == first {
		t.Errorf("still process %d", first)
	}
	g.queue.mu.Lock()
	defer g.queue.mu.Unlock()
	if n := len(g.queue.running); n != 0 {
		t.Errorf("%d invocations are left over", n)
	}
}

func TestFunctionRunsOnWhenItsClientHasGone(t *testing.T) {
	base, _ := door(t, nil)
	file := filepath.Join(t.TempDir(), "touched")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "POST", base+"/api/tasks", nil)
	r.Header.Set("Do", "touch")
	r.Header.Set("File", file)
	if response, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.ReadAll(response.Body)
		response.Body.Close()
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
	t.Error("the function was ended with its client")
}

func TestLimits(t *testing.T) {
	base, _ := door(t, nil)
	pidOf(t, base)
	for _, path := range []string{"/api/chat/completions", "/api/v1/tools/create"} {
		response := request(t, "POST", base+path, "echo", bytes.NewReader(make([]byte, payloadLimit)))
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "4.5 MB") {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
	if body, err := io.ReadAll(request(t, "GET", base+"/api/tasks", "silence", nil).Body); err == nil || string(body) != "begun\n" {
		t.Errorf("a silent answer: %q, %v", body, err)
	}
}

func TestRESTProxy(t *testing.T) {
	base, _ := door(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_aws/execute-api/api/v1/broken":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"message": "panic: with a stack trace"}`)
		case "/_aws/execute-api/api/v1/refused":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"detail": "The provider is away."}`)
		case "/_aws/execute-api/api/v1/huge":
			_, _ = w.Write(make([]byte, payloadLimit+1))
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.URL.RawQuery, body)
		}
	}))
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		// The emulator decodes once, as this server did; what is left must be what the client sent.
		{"/a%2Fb//c%20d/%C3%A9?x=%2F&y", 200, "PUT /_aws/execute-api/api/v1/a%2Fb//c%20d/%C3%A9 x=%2F&y hello"},
		{"/broken", 502, `{"detail":"Internal server error"}`},
		{"/refused", 502, `{"detail": "The provider is away."}`},
		{"/huge", 502, `{"detail":"Internal server error"}`},
	} {
		response := request(t, "PUT", base+c.path, "", strings.NewReader("hello"))
		if body, _ := io.ReadAll(response.Body); response.StatusCode != c.status || string(body) != c.body {
			t.Errorf("%s: %d %.200s", c.path, response.StatusCode, body)
		}
	}
}

func TestUpgradesAreTunnelled(t *testing.T) {
	base, _ := door(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		_, _ = fmt.Fprintf(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n%s\n", r.RequestURI)
		_ = buffer.Flush()
		line, _ := buffer.ReadString('\n')
		_, _ = fmt.Fprintf(buffer, "got %s", line)
		_ = buffer.Flush()
	}))
	r, _ := http.NewRequest("GET", base+"/ws/socket.io/?EIO=4&transport=websocket", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	tunnel, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("no tunnel: %d", response.StatusCode)
	}
	_, _ = io.WriteString(tunnel, "ping\n")
	all, _ := io.ReadAll(tunnel)
	if want := "/_aws/execute-api/sockets/v1/socket.io/?EIO=4&transport=websocket\ngot ping\n"; string(all) != want {
		t.Errorf("%q", all)
	}
}

func TestEnvironmentIsLambdas(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "1")
	t.Setenv("AWS_ACCESS_KEY_ID", "root")
	f := &function{name: "streamed", variables: map[string]string{"TABLE_NAME": "table"}, endpoint: "http://emulator", region: "us-east-1"}
	env := f.environment("/code", "127.0.0.1:1", 3)
	for _, want := range []string{"TABLE_NAME=table", "AWS_LAMBDA_MAX_CONCURRENCY=3", "AWS_ENDPOINT_URL=http://emulator"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if joined := strings.Join(env, "\n"); strings.Contains(joined, "SECRET_OF_THE_HOST") || strings.Contains(joined, "AWS_ACCESS_KEY_ID") {
		t.Error("the host's environment reaches the function")
	}
}
