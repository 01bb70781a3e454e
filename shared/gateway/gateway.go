// Package gateway pushes frames to the connections of the WebSocket API. It implements live.Poster.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/apigatewaymanagementapi"
	"github.com/aws/aws-sdk-go-v2/service/apigatewaymanagementapi/types"

	"toolrounds/shared/live"
)

// Gateway is the connections API of one stage.
type Gateway struct {
	client *apigatewaymanagementapi.Client
}

var _ live.Poster = (*Gateway)(nil)

// New returns the gateway at that endpoint (https URL without "/@connections"). One frame is tried twice at most: an event that is
// late is worth less than the next one.
func New(cfg aws.Config, endpoint string) *Gateway {
	pool := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 256 })
	return &Gateway{apigatewaymanagementapi.NewFromConfig(cfg, func(o *apigatewaymanagementapi.Options) {
		o.BaseEndpoint = &endpoint
		o.HTTPClient = pool
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts, s.MaxBackoff = 2, 200*time.Millisecond })
	})}
}

// Post implements live.Poster.
func (g *Gateway) Post(ctx context.Context, connection string, frame []byte) error {
	_, err := g.client.PostToConnection(ctx, &apigatewaymanagementapi.PostToConnectionInput{ConnectionId: &connection, Data: frame})
	return explained("post to connection", err)
}

// Close implements live.Poster.
func (g *Gateway) Close(ctx context.Context, connection string) error {
	_, err := g.client.DeleteConnection(ctx, &apigatewaymanagementapi.DeleteConnectionInput{ConnectionId: &connection})
	return explained("close connection", err)
}

func explained(what string, err error) error {
	var gone *types.GoneException
	var refused interface{ HTTPStatusCode() int }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone), errors.As(err, &refused) && refused.HTTPStatusCode() == http.StatusGone:
		return live.ErrGone
	}
	return fmt.Errorf("%s: %w", what, err)
}
