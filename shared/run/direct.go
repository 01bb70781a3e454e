package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
)

// Direct is a request that belongs to no chat, ready to be sent: its answer goes to the caller alone, and nothing is stored. The tools
// that it names are offered but not run, unless it asks for the legacy mode: then Choose runs them first.
type Direct struct {
	service *Service
	work    *Work
	cited   []cited
}

// Direct prepares a request without a chat. Faults: Invalid (model).
func (s *Service) Direct(ctx context.Context, u access.User, body map[string]any, baseURL string) (*Direct, error) {
	w, err := s.prepare(ctx, Request{User: u.ID, Model: text(body, "model"), Body: body, BaseURL: baseURL})
	if err != nil {
		return nil, err
	}
	if w.Mode == Prompted { // nobody runs the calls, so the caller gets them as ever
		w.Mode = ""
	}
	return &Direct{service: s, work: w}, nil
}

// Stream tells whether the answer is asked for as a stream.
func (d *Direct) Stream() bool { return d.work.Stream }

// Chooses tells whether tools may have to be run before the answer.
func (d *Direct) Chooses() bool { return d.work.Mode == Legacy }

// Sources are the results of the tools that were run.
func (d *Direct) Sources() []any { return sourcesOf(d.cited) }

// Choose lets the task model choose among the tools, runs what it chose side by side, and keeps the results for the answer. A tool
// that fails is a result too. The error is the context's.
func (d *Direct) Choose(ctx context.Context) error {
	chosen, err := d.service.choose(ctx, d.work)
	if err != nil || len(chosen) == 0 {
		return err
	}
	id := d.service.NewID()
	results := make([]*Result, len(chosen))
	slots := make(chan struct{}, sideBySide)
	var wg sync.WaitGroup
	for i, c := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = d.run(ctx, CallStep{Run: id, Index: i}, c)
		})
	}
	wg.Wait()
	for i, c := range chosen {
		if results[i].Content != "" {
			d.cited = append(d.cited, cited{label: d.work.Table[c.Name].label(c.Name), text: results[i].Content, parameters: c.Arguments})
		}
	}
	return ctx.Err()
}

func (d *Direct) run(ctx context.Context, step CallStep, c choice) *Result {
	entry := d.work.Table[c.Name]
	call := callRecord{callDoc: callDoc{Name: c.Name, Arguments: string(table.MustJSON(c.Arguments)), Entry: &entry}}
	result, err := d.service.call(ctx, step, d.work, call)
	if err != nil {
		logger(ctx, Step{Run: step.Run}).Error("run a tool without a chat", "tool", entry.label(c.Name), "user", d.work.Request.User, "error", err)
		return d.service.refusal("Error: the tool could not be run.")
	}
	return result
}

func (d *Direct) body() []byte {
	w := *d.work
	w.Messages = withSources(w.Messages, d.cited, d.service.Limits.ResultChars)
	ask := w.ask(nil, 0)
	if d.work.Request.Body["stream"] == nil && !w.Stream { // as it came
		delete(ask, "stream")
	}
	return table.MustJSON(ask)
}

// Send sends the request once and returns the provider's response as it is; the caller closes its body. Fault: Invalid (the provider
// cannot be reached).
func (d *Direct) Send(ctx context.Context) (*http.Response, error) {
	resp, err := d.service.Provider.Do(ctx, d.body())
	return resp, reachable(err)
}

// Complete asks for the answer in one piece: the provider's object with the sources in it, or its error as it is. Fault: Invalid (the
// provider cannot be reached).
func (d *Direct) Complete(ctx context.Context) (*Reply, error) {
	c, err := d.service.Provider.Complete(ctx, d.body())
	var status *openai.StatusError
	if errors.As(err, &status) {
		_, reply := failure(err)
		return reply, nil
	}
	if err != nil {
		return nil, reachable(err)
	}
	return &Reply{Status: c.Status, Type: "application/json", Body: withSourcesKey(c.Body, d.Sources())}, nil
}

// reachable turns what the way to the provider does into a fault that says so.
func reachable(err error) error {
	var silent *openai.TimeoutError
	var cut *openai.TransportError
	if errors.As(err, &silent) || errors.As(err, &cut) {
		return fault.Wrap(fault.Invalid, err.Error(), err)
	}
	if err != nil {
		return fmt.Errorf("ask the provider: %w", err)
	}
	return nil
}
