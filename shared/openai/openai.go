// Package openai is the client of OpenAI-compatible chat completion APIs: OpenAI, Bedrock's OpenAI endpoint, Ollama, vLLM,
// LiteLLM, OpenRouter and the many proxies that are only nearly compatible.
//
// There are three ways to ask, for three kinds of callers:
//
//   - [Client.Stream] for the tool loop: the answer as a finished [Round] (text, reasoning, tool calls, usage) and, while it
//     comes, as [Delta] values for whoever watches.
//   - [Client.Complete] for short questions to a model (titles, tags, tool selection): one answer, raw body kept.
//   - [Client.Do] for pass-through: the provider's response as it is, never retried, never buffered.
//
// What it promises: whatever bytes a provider sends, Stream returns a Round and never panics; the Round depends on the bytes and
// not on how the network cut them; replaying the Deltas in order gives the Round's blocks and calls; every call of a Round has an
// id that is unique in the Round and among the prior ids given; numbers keep their digits; text that came before an error is kept.
//
// The package decides nothing about the loop: what to do with a call, an error or an empty answer is the caller's business.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits of what is read into memory, in bytes.
const (
	maxFrame  = 64 << 20 // one line or frame of a stream, or one whole JSON answer
	maxErrors = 1 << 20  // the body of an answer with an error status
)

// Config describes one connection to a provider.
type Config struct {
	// BaseURL is the API's root, such as https://api.openai.com/v1, with or without a slash at its end. A query string is kept
	// (Azure's ?api-version=).
	BaseURL string
	// Key is sent as a bearer token; empty sends none.
	Key string
	// Headers are added to every request and win over the client's own, so a provider with another scheme of authorization can
	// be reached.
	Headers map[string]string
	// FirstByte bounds the time from sending a request to the first byte of the answer's body, per attempt; 0: no bound.
	FirstByte time.Duration
	// Idle bounds the time between two pieces of the body, comments and pings included; 0: no bound. Time that the sink takes
	// does not count.
	Idle time.Duration
	// Retry says when a request is sent again; nil: DefaultRetry. Raw requests (Do) never are.
	Retry *RetryPolicy
	// HTTP does the requests; nil: http.DefaultClient. It must have no Timeout of its own, which would cut long streams.
	HTTP *http.Client
}

// Client talks to one provider. It is safe for concurrent use.
type Client struct {
	cfg   Config
	retry RetryPolicy
}

// New makes a client. A wrong BaseURL shows at the first request.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg, retry: DefaultRetry()}
	if cfg.Retry != nil {
		c.retry = *cfg.Retry
	}
	if c.cfg.HTTP == nil {
		c.cfg.HTTP = http.DefaultClient
	}
	return c
}

// Models lists the provider's models as it describes them, numbers as json.Number; every entry has a text "id". Besides the
// standard {"data": [...]} it understands {"models": [...]}, a bare list, entries that are only a name, and entries that have a
// name instead of an id. Errors are those of Complete.
func (c *Client) Models(ctx context.Context) ([]map[string]any, error) {
	answer, err := c.whole(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	models, err := readModels(answer.Body)
	if err != nil {
		return nil, &FormatError{ContentType: answer.Header.Get("Content-Type"), Excerpt: excerpt(answer.Body), Problem: err.Error()}
	}
	return models, nil
}

// readModels is the decision of Models on a body.
func readModels(body []byte) ([]map[string]any, error) {
	var outer any
	if err := decodeNumbers(body, &outer); err != nil {
		return nil, fmt.Errorf("the list of models is not JSON: %w", err)
	}
	list, ok := outer.([]any)
	if o, isObject := outer.(map[string]any); isObject {
		if list, ok = o["data"].([]any); !ok {
			list, ok = o["models"].([]any)
		}
	}
	if !ok {
		return nil, fmt.Errorf("the answer holds no list of models")
	}
	models := []map[string]any{}
	for _, entry := range list {
		m, _ := entry.(map[string]any)
		if name, isText := entry.(string); isText {
			m = map[string]any{"id": name}
		}
		for _, key := range []string{"name", "model"} {
			if id, _ := m["id"].(string); id == "" && m != nil {
				m["id"] = m[key]
			}
		}
		if id, _ := m["id"].(string); id != "" {
			models = append(models, m)
		}
	}
	return models, nil
}

// Do sends a chat completion request as it is and returns the response as it is, whatever its status: the caller copies the body
// on and closes it. It is sent once. Reading the body gives a *TimeoutError where a configured bound is passed; an error of Do
// itself is a *TimeoutError, a *TransportError, or the context's.
func (c *Client) Do(ctx context.Context, body []byte) (*http.Response, error) {
	return c.send(ctx, http.MethodPost, "/chat/completions", body, RetryPolicy{})
}

// Complete sends a request that asks for no stream and reads the whole answer. An answer with a status of 400 or more comes back
// together with a *StatusError, so that the raw body can be passed on. Other errors: *TimeoutError, *TransportError, the
// context's. Whether the body is a completion at all is not looked at here: see [Completion.Round].
func (c *Client) Complete(ctx context.Context, body []byte) (*Completion, error) {
	return c.whole(ctx, http.MethodPost, "/chat/completions", body)
}

func (c *Client) whole(ctx context.Context, method, path string, body []byte) (*Completion, error) {
	resp, err := c.send(ctx, method, path, body, c.retry)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		fault := readStatusError(resp)
		return &Completion{Status: resp.StatusCode, Header: resp.Header, Body: fault.Body}, fault
	}
	plain, err := decompress(resp)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(plain, maxFrame+1))
	if err != nil {
		return nil, c.broken(ctx, "read the answer", err)
	}
	if len(raw) > maxFrame {
		return nil, &FormatError{Problem: fmt.Sprintf("the answer is larger than %d bytes", maxFrame)}
	}
	return &Completion{Status: resp.StatusCode, Header: resp.Header, Body: raw}, nil
}

// Completion is an answer that came whole.
type Completion struct {
	Status int
	Header http.Header
	Body   []byte // raw, as the provider sent it
}

// Round reads the body as an answer, with the same tolerance as Stream: reasoning is apart from the text, calls have ids. A body
// that is no completion gives a Round with Err set.
func (c *Completion) Round(opts StreamOptions) *Round {
	a := newAssembler(opts, nil)
	done, err := readFrames(bytes.NewReader(c.Body), a.frame)
	if err != nil && !isTyped(err) {
		err = &FormatError{Problem: "it is cut or broken", Excerpt: excerpt(c.Body)}
	}
	return a.finish(done, err, c.Header.Get("Content-Type"))
}

// Stream sends a request and assembles the answer. body must ask for a stream, but a provider that answers with one JSON object
// is understood as well. sink gets every Delta in order, from the calling goroutine; nil: nobody watches. An error of the sink
// ends the stream.
//
// The Round is never nil and holds everything up to the error, if any; the error is Round.Err: *StatusError (status of 400 or
// more), *FrameError (the provider reported an error within the stream), *FormatError (not a completion at all), *TransportError
// (connection refused or cut), *TimeoutError, the context's own, or the sink's, wrapped.
func (c *Client) Stream(ctx context.Context, body []byte, opts StreamOptions, sink func(Delta) error) (*Round, error) {
	a := newAssembler(opts, sink)
	contentType, done, err := c.stream(ctx, body, a)
	round := a.finish(done, err, contentType)
	return round, round.Err
}

func (c *Client) stream(ctx context.Context, body []byte, a *assembler) (contentType string, done bool, err error) {
	resp, err := c.send(ctx, http.MethodPost, "/chat/completions", body, c.retry)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return "", false, readStatusError(resp)
	}
	contentType = resp.Header.Get("Content-Type")
	plain, err := decompress(resp)
	if err != nil {
		return contentType, false, err
	}
	done, err = readFrames(plain, a.frame)
	if err != nil {
		err = c.broken(ctx, "read the stream", err)
	}
	if done {
		drain(resp.Body)
	}
	return contentType, done, err
}

// broken says what an error of reading a body was: the caller's own cancellation, an error that already has its type, or the
// transport's.
func (c *Client) broken(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isTyped(err) {
		return err
	}
	return &TransportError{Doing: doing, Err: err}
}

// url joins a path to the base, before its query string.
func (c *Client) url(path string) string {
	base, query, found := strings.Cut(c.cfg.BaseURL, "?")
	u := strings.TrimRight(base, "/") + path
	if found {
		u += "?" + query
	}
	return u
}

// decodeNumbers reads exactly one JSON value and keeps numbers as they are written.
func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}
