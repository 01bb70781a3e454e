// Package toolbox is the Go side of the Python tool container, a Lambda function that runs toolkit sources. The protocol is in
// functions/toolbox/PROTOCOL.md; the types here have its shapes.
//
// An invocation may run a tool, and tools have effects, so it is never sent twice: only a 429, which says that nothing was started,
// is repeated. Whatever goes wrong is one of four: *tool.ContainerError, the container refused; *CrashError, the container died or
// ran out of time; *TooLargeError, the request does not fit into an invocation; or an error of the platform.
package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// MaxRequest is the largest request that is sent, in bytes: Lambda's 6 MB less what its own envelope may take.
const MaxRequest = 6<<20 - 64<<10

// longest is how long an answer is waited for: Lambda's 15 minutes and some slack.
const longest = 15*time.Minute + 30*time.Second

// saveTenant is the tenant whose environment looks at sources when they are saved. No user's data is ever in it.
const saveTenant = "save"

// Client calls the container. It is safe for concurrent use.
type Client struct {
	lambda   *lambda.Client
	function string
	tenancy  bool
}

var _ tool.Container = (*Client)(nil)

// New returns the client of that function (name or ARN). Tenancy says that the function is deployed with tenant isolation: then
// each user's calls run in environments of their own. Make client with Lambda, or one whose time limits allow 15 minutes.
func New(client *lambda.Client, functionName string, tenancy bool) *Client {
	return &Client{lambda: client, function: functionName, tenancy: tenancy}
}

// Lambda returns a Lambda client that waits for an answer as long as a function may run.
func Lambda(cfg aws.Config) *lambda.Client {
	return lambda.NewFromConfig(cfg, func(o *lambda.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(longest)
	})
}

// CrashError says that the container died over the request.
type CrashError struct {
	Kind    string // Lambda's errorType: Sandbox.Timedout, Runtime.ExitError, Runtime.OutOfMemory, …; "Unknown" when it has none
	Message string // Lambda's errorMessage, for the log
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("the tool container failed: %s: %s", e.Kind, e.Message)
}

// TimedOut tells whether the container ran out of time.
func (e *CrashError) TimedOut() bool { return e.Kind == "Sandbox.Timedout" }

// TooLargeError says that a request does not fit into an invocation. Nothing was run.
type TooLargeError struct{ Size, Limit int } // bytes

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request to the tool container has %d bytes, the limit is %d", e.Size, e.Limit)
}

// Describe implements tool.Container.
func (c *Client) Describe(ctx context.Context, id, source string) (tool.Description, error) {
	var d tool.Description
	err := c.invoke(ctx, saveTenant, describeRequest{Op: "describe", Tool: sourceOf{id, source}}, &d)
	return d, err
}

// ValvesSpec implements tool.Container.
func (c *Client) ValvesSpec(ctx context.Context, id, source string, kind tool.ValvesKind) (json.RawMessage, error) {
	var answer struct {
		Schema json.RawMessage `json:"schema"`
	}
	err := c.invoke(ctx, saveTenant, valvesRequest{Op: "valves_spec", Tool: sourceOf{id, source}, Kind: kind}, &answer)
	return or(answer.Schema, "null"), err
}

// CheckValves implements tool.Container.
func (c *Client) CheckValves(ctx context.Context, id, source string, kind tool.ValvesKind, values json.RawMessage) (json.RawMessage, error) {
	var answer struct {
		Values json.RawMessage `json:"values"`
	}
	r := valvesRequest{Op: "valves", Tool: sourceOf{id, source}, Kind: kind, Values: or(values, "{}")}
	err := c.invoke(ctx, saveTenant, r, &answer)
	return or(answer.Values, "{}"), err
}

// Call runs one function of a toolkit and returns when it has ended, or was ended by its time limit. A tool that raised is no
// error: it is a CallResult with a failed result.
func (c *Client) Call(ctx context.Context, r CallRequest) (CallResult, error) {
	if c.tenancy && r.UserID == "" {
		return CallResult{}, errors.New("toolbox: a call without a user cannot be isolated")
	}
	var result CallResult
	err := c.invoke(ctx, r.UserID, r.wire(), &result)
	return result, err
}

// Ping starts the container if it sleeps, and returns its Python version.
func (c *Client) Ping(ctx context.Context) (python string, err error) {
	var answer struct {
		Python string `json:"python"`
	}
	err = c.invoke(ctx, saveTenant, describeRequest{Op: "ping"}, &answer)
	return answer.Python, err
}

// onlyThrottled leaves nothing to be repeated but what was refused before it began.
func onlyThrottled(o *lambda.Options) {
	o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = 6
		s.MaxBackoff = 5 * time.Second
		s.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: map[string]struct{}{"TooManyRequestsException": {}}}}
	})
}

func (c *Client) invoke(ctx context.Context, tenant string, request, answer any) error {
	payload, err := table.Encode(request)
	if err != nil {
		return fmt.Errorf("encode request to the tool container: %w", err)
	}
	if len(payload) > MaxRequest {
		return &TooLargeError{Size: len(payload), Limit: MaxRequest}
	}
	in := &lambda.InvokeInput{FunctionName: &c.function, Payload: payload}
	if c.tenancy {
		in.TenantId = &tenant
	}
	out, err := c.lambda.Invoke(ctx, in, onlyThrottled)
	var large *types.RequestTooLargeException
	switch {
	case errors.As(err, &large):
		return &TooLargeError{Size: len(payload), Limit: MaxRequest}
	case err != nil:
		return fmt.Errorf("invoke the tool container: %w", err)
	case out.FunctionError != nil:
		return crash(out.Payload)
	}
	var head struct {
		OK    bool                 `json:"ok"`
		Error *tool.ContainerError `json:"error"`
	}
	if err := json.Unmarshal(out.Payload, &head); err != nil {
		return fmt.Errorf("answer of the tool container: %w", err)
	}
	if !head.OK {
		if head.Error == nil {
			return errors.New("answer of the tool container: neither ok nor an error")
		}
		return head.Error
	}
	if err := json.Unmarshal(out.Payload, answer); err != nil {
		return fmt.Errorf("answer of the tool container: %w", err)
	}
	return nil
}

func crash(payload []byte) error {
	var report struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal(payload, &report); err != nil {
		return &CrashError{Kind: "Unknown", Message: string(payload)}
	}
	if report.Type == "" {
		report.Type = "Unknown"
		if strings.Contains(report.Message, "Task timed out after") {
			report.Type = "Sandbox.Timedout"
		}
	}
	return &CrashError{Kind: report.Type, Message: report.Message}
}
