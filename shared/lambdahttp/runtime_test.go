package lambdahttp_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"toolrounds/shared/lambdahttp"
)

// TestMain is also the function that TestRuntime starts: in that process it serves invocations instead of tests.
func TestMain(m *testing.M) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		os.Exit(m.Run())
	}
	lambda.Start(lambdahttp.Stream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate, _ := http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/gate")
		gate.Body.Close()
		io.WriteString(w, "first|")
		gate, _ = http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/gate")
		gate.Body.Close()
		io.WriteString(w, "second|")
		panic("third")
	})))
}

// TestRuntime runs a function with the real Lambda runtime client against a Runtime API of ours. The second half of the answer is
// written only after the first has arrived.
func TestRuntime(t *testing.T) {
	raw, err := os.ReadFile("testdata/completion.json")
	if err != nil {
		t.Fatal(err)
	}
	gate, ended := make(chan struct{}, 1), make(chan struct{})
	gate <- struct{}{}
	next := make(chan struct{}, 1)
	next <- struct{}{}
	mux := http.NewServeMux()
	mux.HandleFunc("/gate", func(w http.ResponseWriter, r *http.Request) { <-gate })
	mux.HandleFunc("/2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-next:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
			w.Header().Set("Lambda-Runtime-Deadline-Ms", "4102444800000")
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:f")
			w.Write(raw)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/2018-06-01/runtime/invocation/1/response", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		defer w.WriteHeader(http.StatusAccepted)
		if r.Header.Get("Content-Type") != "application/vnd.awslambda.http-integration-response" {
			t.Errorf("headers %v", r.Header)
		}
		b := bufio.NewReader(r.Body)
		head, err := b.ReadString('|')
		prelude, body, ok := strings.Cut(head, strings.Repeat("\x00", 8))
		if err != nil || !ok || !strings.Contains(prelude, `"statusCode":200`) || body != "first|" {
			t.Errorf("%q, %v", head, err)
		}
		gate <- struct{}{}
		if rest, err := io.ReadAll(b); err != nil || string(rest) != "second|" {
			t.Errorf("rest %q, %v", rest, err)
		}
		if r.Trailer.Get("Lambda-Runtime-Function-Error-Type") == "" {
			t.Errorf("the failure is not reported: %v", r.Trailer)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	var log bytes.Buffer
	function := exec.CommandContext(t.Context(), os.Args[0])
	function.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(server.URL, "http://")}
	function.Stdout, function.Stderr = &log, &log
	if err := function.Start(); err != nil {
		t.Fatal(err)
	}
	<-ended
	function.Process.Kill()
	function.Wait()
	if t.Failed() {
		t.Log(log.String())
	}
}
