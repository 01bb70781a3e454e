package run

import (
	"context"
	"net/http"

	"errors"
	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/openai"
)

// Direct sends a request that belongs to no chat to the provider, with the tools it names offered but not run, and returns the
// provider's response as it is; the caller closes its body. Faults: Invalid (model; the provider cannot be reached).
func (s *Service) Direct(ctx context.Context, u access.User, body map[string]any, baseURL string) (*http.Response, error) {
	w, err := s.prepare(ctx, Request{User: u.ID, Model: text(body, "model"), Body: body, BaseURL: baseURL})
	if err != nil {
		return nil, err
	}
	if _, asked := body["stream"]; !asked {
		w.Stream = false
	}
	resp, err := s.Provider.Do(ctx, w.body(nil, 0))
	var silent *openai.TimeoutError
	var cut *openai.TransportError
	if errors.As(err, &silent) || errors.As(err, &cut) {
		return nil, fault.Wrap(fault.Invalid, err.Error(), err)
	}
	return resp, err
}
