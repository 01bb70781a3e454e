package gateway

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"toolrounds/shared/live"
	"toolrounds/shared/table"
)

// Self calls the function that it runs in, asynchronously. It implements live.Later: one hop, and never from a call of its own, so
// Lambda's guard against recursion has nothing to find.
type Self struct {
	client   *lambda.Client
	function string
}

var _ live.Later = (*Self)(nil)

// NewSelf returns the function of that name.
func NewSelf(cfg aws.Config, function string) *Self {
	return &Self{client: lambda.NewFromConfig(cfg), function: function}
}

// Greet implements live.Later.
func (s *Self) Greet(ctx context.Context, connection string) error {
	_, err := s.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &s.function, InvocationType: types.InvocationTypeEvent, Payload: table.MustJSON(map[string]string{"greet": connection}),
	})
	if err != nil {
		return fmt.Errorf("invoke the socket function: %w", err)
	}
	return nil
}
