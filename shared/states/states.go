// Package states starts and stops executions of the one state machine. An execution is known by its name (a run and its
// generation), never by its ARN, and both operations may be repeated: starting what is started and stopping what has ended succeed.
package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// Machine is a Standard state machine.
type Machine struct {
	client *sfn.Client
	arn    string
}

// New returns the machine of that ARN.
func New(client *sfn.Client, machineARN string) *Machine {
	return &Machine{client: client, arn: machineARN}
}

// Start starts the execution of that name (at most 80 characters) with input as JSON (at most 256 KiB). An execution that was
// already started under the name, with whatever input and whether it still runs or not, is success.
func (m *Machine) Start(ctx context.Context, name string, input any) error {
	raw, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("start execution %s: %w", name, err)
	}
	_, err = m.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &m.arn, Name: &name, Input: aws.String(string(raw)),
	})
	var exists *types.ExecutionAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("start execution %s: %w", name, err)
	}
	return nil
}

// Stop ends the execution of that name at once: no state is run any more, no Catch either, and a Lambda function under way goes on.
// One that is unknown or has ended is success. Cause is for people who read the execution (cut at 1,000 bytes).
func (m *Machine) Stop(ctx context.Context, name, cause string) error {
	arn := strings.Replace(m.arn, ":stateMachine:", ":execution:", 1) + ":" + name
	if len(cause) > 1000 {
		cause = strings.ToValidUTF8(cause[:1000], "")
	}
	_, err := m.client.StopExecution(ctx, &sfn.StopExecutionInput{
		ExecutionArn: &arn, Cause: &cause, Error: aws.String("Stopped"),
	})
	var unknown *types.ExecutionDoesNotExist
	if err != nil && !errors.As(err, &unknown) {
		return fmt.Errorf("stop execution %s: %w", name, err)
	}
	return nil
}
