package faults

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
)

// Scripts that hold a step for some seconds.
const (
	slowAnswer = `say script:{"turns":[{"text":"one two three four five six","chunk":4,"interval":0.6}]}`
	slowTool   = `add script:{"turns":[{"calls":[{"name":"slow","arguments":{"a":3,"b":4}}]},{"text":"the sum is {{result}}"}]}`
)

// held starts a run and returns once the step that its script holds is under way.
func (s *server) held(t *testing.T, prompt string) run {
	t.Helper()
	made := s.chat(t, prompt)
	s.must(t, "POST", "/api/chat/completions", made.request(prompt, "api-"+made.message), nil)
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		m := s.read(t, made)
		if prompt == slowAnswer && m.Content != "" || prompt == slowTool && len(m.Output) > 0 {
			break
		}
		if m.Done || time.Now().After(until) {
			t.Fatalf("the step was never seen at work: %+v", m)
		}
	}
	time.Sleep(500 * time.Millisecond) // the dispatcher has reached the container
	return made
}

// The process dies in the middle of what it does: half an answer is streamed, or the tool runs.
func TestDeathInTheMiddle(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct{ function, prompt, want string }{
		{"Model", slowAnswer, "one two three four five six"},
		{"Tool", slowTool, "the sum is 7"},
		{"Toolbox", slowTool, "the sum is 7"},
	} {
		t.Run(c.function, func(t *testing.T) {
			run := s.held(t, c.prompt)
			victims := pids(t, c.function)
			if len(victims) == 0 {
				t.Fatal("no process to kill")
			}
			signal(t, victims, syscall.SIGKILL)
			if got := s.finish(t, run); !got.Done || got.Content != c.want && !got.told() || strings.Count(got.Content, "one") > 1 {
				t.Errorf("%+v", got)
			} else {
				t.Logf("ended with %q, error %v", got.Content, got.Error)
			}
		})
	}
}

// A caller waits for the answer, and the process that holds the request dies: the caller is cut off, the run is not.
func TestDeathUnderAWaitingRequest(t *testing.T) {
	s := newServer(t)
	run := s.chat(t, slowTool)
	answered := make(chan int, 1)
	go func() { answered <- s.call(t, "POST", "/api/chat/completions", run.request(slowTool, ""), nil) }()
	for until := time.Now().Add(patience); len(s.tasks(t, run.chat)) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the run never began")
		}
	}
	signal(t, pids(t, "Completions"), syscall.SIGKILL)
	if status := <-answered; status == 200 {
		t.Error("the request was answered by a dead process")
	}
	if got := s.finish(t, run); !got.Done || got.Content != "the sum is 7" || got.Error != nil {
		t.Errorf("%+v", got)
	}
}

// An operator stops the execution: no state of it runs any more, and still the run is ended, with an error that says so.
func TestExecutionAborted(t *testing.T) {
	s := newServer(t)
	machines := sfn.New(sfn.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(os.Getenv("EMULATOR_URL")),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	for _, prompt := range []string{slowAnswer, slowTool} {
		run := s.held(t, prompt)
		ids := s.tasks(t, run.chat)
		if len(ids) != 1 {
			t.Fatalf("open runs %v", ids)
		}
		listed, err := machines.ListStateMachines(t.Context(), &sfn.ListStateMachinesInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listed.StateMachines {
			if !strings.HasPrefix(*m.Name, os.Getenv("STACK_NAME")+"-") {
				continue
			}
			arn := strings.Replace(*m.StateMachineArn, ":stateMachine:", ":execution:", 1) + ":" + ids[0] + "-g0"
			if _, err := machines.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &arn, Cause: aws.String("an operator")}); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.finish(t, run); !got.Done || got.Error == nil {
			t.Errorf("%+v", got)
		} else {
			t.Logf("ended with %q, error %v", got.Content, got.Error)
		}
	}
}

// told tells whether the user reads that something went wrong: in an error, or in the result of a call.
func (m message) told() bool {
	return m.Error != nil || strings.Contains(string(m.Output), "Error: the tool")
}
