package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

// Requests with "wait": true: the whole loop, driven by the machine as ever, with the answer in the body of the request in the shape
// of OpenAI's API, so that its SDKs take it for an ordinary completion.

const (
	// waitLimit is how long a request is held. Lambda would cut it at 900 s.
	waitLimit = 870 * time.Second
	// firstWords is how long the status of a stream stays open for a refusal while nothing has come.
	firstWords = 3 * time.Second
	// quiet is how long a stream says nothing before it gives a sign of life.
	quiet = 15 * time.Second
)

// What an error of a waiting request is, for programs.
const (
	codeLimit   = "tool_call_limit"
	codeGone    = "chat_deleted"
	codeTimeout = "wait_timeout"
)

// openAIError is the body of an error as OpenAI's SDKs read it, with the detail that other clients look for.
func openAIError(status int, detail any, code string) map[string]any {
	message, ok := detail.(string)
	if !ok {
		raw, _ := json.Marshal(detail)
		message = string(raw)
	}
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "api_error"
	}
	problem := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		problem["code"] = code
	}
	return map[string]any{"error": problem, "detail": detail}
}

// refuse answers a waiting request that was not accepted.
func (s *server) refuse(w http.ResponseWriter, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	status, detail := fault.Status(err)
	return s.answer(w, status, openAIError(status, detail, string(f.Code)))
}

// wait holds the caller of an accepted request and answers with what the run gives.
func (s *server) wait(w http.ResponseWriter, r *http.Request, a run.Accepted, body map[string]any) error {
	ctx, cancel := context.WithTimeout(r.Context(), waitLimit)
	defer cancel()
	defer s.abandon(r, a, body)
	if stream, _ := body["stream"].(bool); stream {
		return s.waitStream(ctx, w, a)
	}
	return s.waitWhole(ctx, w, a)
}

// abandon stops a run whose answer nobody can get any more: its caller has gone, nothing of it is stored, and no key leads back to it.
func (s *server) abandon(r *http.Request, a run.Accepted, body map[string]any) {
	if r.Context().Err() == nil || !a.Lone || body["idempotency_key"] != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 1500*time.Millisecond)
	defer cancel()
	_, err := s.Chats.Runs.Stop(ctx, s.caller(r).User.ID, a.Chat) // the mark is made at once; whoever works on the run ends it
	s.Log.InfoContext(ctx, "a waiting caller has gone", "run", a.Runs[0], "stopped", err == nil)
}

// waitWhole answers in one piece. As long as no time presses the status stays open.
func (s *server) waitWhole(ctx context.Context, w http.ResponseWriter, a run.Accepted) error {
	var ended run.Run
	var got bool
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended, got, err = s.Chats.Runs.Ended(ctx, a.Chat, a.Runs[0])
	}()
	begun := s.spaced(w, done)
	status, body, err := s.outcome(ctx, ended, got, err)
	if err != nil && !begun {
		return err
	}
	if err != nil {
		status, body = http.StatusInternalServerError, openAIError(http.StatusInternalServerError, "Internal Server Error", "")
	}
	if begun {
		raw, _ := json.Marshal(body)
		_, _ = w.Write(raw)
		return nil
	}
	if status >= http.StatusBadRequest {
		w.Header().Set("X-Should-Retry", "false") // SDKs would run the tools again
	}
	return s.answer(w, status, body)
}

// outcome is the status and the body for a run that has ended, or has not in time.
func (s *server) outcome(ctx context.Context, ended run.Run, got bool, err error) (int, map[string]any, error) {
	switch {
	case run.Gone(err):
		return http.StatusGone, openAIError(http.StatusGone, "The chat was deleted while the answer was made.", codeGone), nil
	case err != nil:
		return 0, nil, err
	case !got:
		const late = "The answer is not ready yet. The run goes on: poll its chat, or repeat the request with its Idempotency-Key."
		return http.StatusGatewayTimeout, openAIError(http.StatusGatewayTimeout, late, codeTimeout), nil
	}
	a, err := s.Chats.Runs.Answer(context.WithoutCancel(ctx), ended)
	if err != nil {
		return 0, nil, err
	}
	if a.Error != nil {
		status, body := refusal(a)
		return status, body, nil
	}
	message := map[string]any{"role": "assistant", "content": a.Content, "refusal": nil}
	if a.Reasoning != "" {
		message["reasoning_content"] = a.Reasoning
	}
	body := completion(a, "chat.completion")
	body["choices"] = []any{map[string]any{"index": 0, "message": message, "finish_reason": a.Finish, "logprobs": nil}}
	body["output"] = a.Output
	maps.Copy(body, extras(a))
	return http.StatusOK, body, nil
}

// refusal is the error of a run that failed: the provider's own, where it has refused, with all that was made before.
func refusal(a run.Answer) (int, map[string]any) {
	status, code := http.StatusBadGateway, ""
	if a.Limit {
		status, code = http.StatusUnprocessableEntity, codeLimit
	}
	detail := a.Error
	if o, ok := detail.(map[string]any); ok && o["message"] != nil {
		detail = o["message"]
	}
	body := openAIError(status, detail, code)
	if a.Reply != nil && a.Reply.Status >= http.StatusBadRequest {
		status = a.Reply.Status
		body = openAIError(status, detail, code)
		var own map[string]any
		if json.Unmarshal(a.Reply.Body, &own) == nil && own["error"] != nil {
			body["error"] = own["error"]
		}
	}
	if len(a.Output) > 0 {
		body["output"] = a.Output
	}
	body["chat_id"], body["message_id"] = a.Chat, a.Message
	return status, body
}

func completion(a run.Answer, object string) map[string]any {
	return map[string]any{
		"id": "chatcmpl-" + a.Run, "object": object, "created": a.Created, "model": a.Model, "chat_id": a.Chat, "message_id": a.Message,
	}
}

// extras are what an answer has besides its text: usage under OpenAI's names, summed over all rounds, and sources.
func extras(a run.Answer) map[string]any {
	more := map[string]any{}
	if a.Usage != nil {
		usage := maps.Clone(a.Usage)
		usage["prompt_tokens"], usage["completion_tokens"] = usage["input_tokens"], usage["output_tokens"]
		more["usage"] = usage
	}
	if len(a.Sources) > 0 {
		more["sources"] = a.Sources
	}
	if a.Stopped {
		more["stopped"] = true
	}
	return more
}

// waitStream answers with chunks: text as deltas, reasoning as reasoning_content, calls and results in a field of their own.
func (s *server) waitStream(ctx context.Context, w http.ResponseWriter, a run.Accepted) error {
	c := &chunks{w: w, id: "chatcmpl-" + a.Runs[0], chat: a.Chat, model: a.Models[0], message: a.Messages[0], created: s.Now(), last: time.Now()}
	ended, got, err := s.Chats.Runs.Follow(ctx, a.Chat, a.Runs[0], c.take)
	if errors.Is(err, errHungUp) || ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	answer := run.Answer{}
	status, body, failure := s.outcome(ctx, ended, got, err)
	if failure == nil && got && status == http.StatusOK {
		answer, failure = s.Chats.Runs.Answer(context.WithoutCancel(ctx), ended)
	}
	switch {
	case failure != nil && !c.begun:
		return failure
	case failure != nil:
		body = openAIError(http.StatusInternalServerError, "Internal Server Error", "")
	case status >= http.StatusBadRequest && !c.begun:
		w.Header().Set("X-Should-Retry", "false")
		return s.answer(w, status, body)
	}
	if failure != nil || status >= http.StatusBadRequest {
		frame(w, map[string]any{"error": body["error"]})
	} else {
		c.begin()
		last := c.chunk(map[string]any{}, answer.Finish)
		maps.Copy(last, extras(answer))
		frame(w, last)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	flush(w)
	return nil
}

// errHungUp says that the caller has gone.
var errHungUp = errors.New("the caller has gone")

// chunks writes what is told of a run as chunks of a streamed completion.
type chunks struct {
	w                        http.ResponseWriter
	id, chat, model, message string
	created, last            time.Time
	begun                    bool
}

func (c *chunks) chunk(delta map[string]any, finish any) map[string]any {
	return map[string]any{
		"id": c.id, "object": "chat.completion.chunk", "created": c.created.Unix(), "model": c.model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}},
	}
}

func (c *chunks) begin() {
	if c.begun {
		return
	}
	c.begun = true
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-cache")
	c.w.WriteHeader(http.StatusOK)
	first := c.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	first["chat_id"], first["message_id"] = c.chat, c.message
	frame(c.w, first)
}

// take implements the listener of Service.Follow.
func (c *chunks) take(t run.Told) error {
	now := time.Now()
	var delta map[string]any
	switch {
	case t.Text != "":
		delta = map[string]any{"content": t.Text}
	case t.Reasoning != "":
		delta = map[string]any{"reasoning_content": t.Reasoning}
	case t.Item != nil:
		delta = map[string]any{}
	case !c.begun && now.Sub(c.last) < firstWords, c.begun && now.Sub(c.last) < quiet:
		return nil
	}
	opened := c.begun
	c.begin()
	c.last = now
	if delta == nil && opened {
		if _, err := io.WriteString(c.w, ": the run goes on\n\n"); err != nil {
			return errHungUp
		}
	} else if delta != nil {
		chunk := c.chunk(delta, nil)
		if t.Item != nil {
			chunk["output_item"] = t.Item
		}
		frame(c.w, chunk)
	}
	flush(c.w)
	return nil
}
