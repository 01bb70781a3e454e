package app

import (
	"context"
	"net/http"
	"time"

	"toolrounds/shared/openai"
	"toolrounds/shared/secret"
)

// How long a model may be silent before its first byte, and between two.
const (
	firstByte = 5 * time.Minute
	idle      = 5 * time.Minute
)

// provider asks the configured model API with the key that is in force at the time of each request.
type provider struct {
	baseURL string
	secrets *secret.Store
	http    *http.Client
}

func newProvider(baseURL string, secrets *secret.Store) *provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 512 // one process may hold many requests
	return &provider{baseURL: baseURL, secrets: secrets, http: &http.Client{Transport: transport}}
}

func (p *provider) client(ctx context.Context) (*openai.Client, error) {
	key, err := p.secrets.Model(ctx)
	if err != nil {
		return nil, err
	}
	return openai.New(openai.Config{BaseURL: p.baseURL, Key: key, FirstByte: firstByte, Idle: idle, HTTP: p.http}), nil
}

// Models implements model.Provider.
func (p *provider) Models(ctx context.Context) ([]map[string]any, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Models(ctx)
}

// Stream implements run.Provider.
func (p *provider) Stream(ctx context.Context, body []byte, opts openai.StreamOptions, sink func(openai.Delta) error) (*openai.Round, error) {
	c, err := p.client(ctx)
	if err != nil {
		return &openai.Round{Finish: openai.FinishError, Err: err}, err
	}
	return c.Stream(ctx, body, opts, sink)
}

// Complete implements run.Provider.
func (p *provider) Complete(ctx context.Context, body []byte) (*openai.Completion, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Complete(ctx, body)
}

// Do implements run.Provider.
func (p *provider) Do(ctx context.Context, body []byte) (*http.Response, error) {
	c, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, body)
}
