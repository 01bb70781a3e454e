package states_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"toolrounds/shared/states"
)

func TestMachine(t *testing.T) {
	endpoint := os.Getenv("TEST_AWS_ENDPOINT")
	if endpoint == "" {
		t.Skip("TEST_AWS_ENDPOINT is not set")
	}
	client := sfn.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	ctx := t.Context()
	made, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{
		Name: aws.String("t-" + rand.Text()), RoleArn: aws.String("arn:aws:iam::000000000000:role/r"),
		Definition: aws.String(`{"StartAt":"Wait","States":{"Wait":{"Type":"Wait","Seconds":300,"End":true}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := states.New(client, *made.StateMachineArn)
	arn := strings.Replace(*made.StateMachineArn, ":stateMachine:", ":execution:", 1) + ":run-g1"
	describe := func() *sfn.DescribeExecutionOutput {
		t.Helper()
		out, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := m.Stop(ctx, "never", "nothing there"); err != nil {
		t.Errorf("stop of an unknown one: %v", err)
	}
	for range 2 {
		if err := m.Start(ctx, "run-g1", map[string]string{"run": "run"}); err != nil {
			t.Errorf("start: %v", err)
		}
	}
	if out := describe(); out.Status != types.ExecutionStatusRunning || *out.Input != `{"run":"run"}` {
		t.Errorf("%s, input %s", out.Status, *out.Input)
	}
	for range 2 {
		if err := m.Stop(ctx, "run-g1", strings.Repeat("ä", 3000)); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if out := describe(); out.Status != types.ExecutionStatusAborted {
		t.Errorf("after stop: %s", out.Status)
	}
	if err := m.Start(ctx, "run-g1", map[string]string{"run": "other"}); err != nil {
		t.Errorf("start of an ended one: %v", err)
	}
	if err := m.Start(ctx, "bad name", nil); err == nil {
		t.Log("the emulator takes any name")
	}
	if err := m.Start(ctx, "run-g2", func() {}); err == nil {
		t.Error("an input that is no JSON")
	}
}
