package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

// textCut ends a stream that the provider, or the way to it, has broken off.
const textCut = "Chat completion stream failed"

// direct answers a request without a chat: the provider's answer byte for byte (spec/http.md F), after a round of tools in legacy mode
// (spec/http.md E).
func (s *server) direct(w http.ResponseWriter, r *http.Request, u access.User, body map[string]any) error {
	d, err := s.Chats.Runs.Direct(r.Context(), u, body, s.Chats.BaseURL(r))
	if err != nil {
		return err
	}
	switch {
	case d.Chooses() && d.Stream():
		return s.streamChosen(w, r, d)
	case d.Chooses():
		return s.answerChosen(w, r, d)
	}
	resp, err := d.Send(r.Context())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	head(w, resp)
	pass(w, resp.Body, d.Stream())
	return nil
}

// head sends the status of a provider's response and the headers that belong to its body.
func head(w http.ResponseWriter, resp *http.Response) {
	for _, h := range []string{"Content-Type", "Content-Encoding", "Cache-Control"} {
		if v := resp.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
}

// pass copies a provider's body as it comes. Nothing is gathered: a caller who reads slowly slows the provider down.
func pass(w http.ResponseWriter, body io.Reader, stream bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return // nobody listens any more
			}
			flush(w)
		}
		if err == nil {
			continue
		}
		if err != io.EOF && stream {
			_, _ = io.WriteString(w, "\n\n")
			failed(w, textCut)
		}
		return
	}
}

// failed ends a stream with an error in the form that clients of OpenAI's API know.
func failed(w io.Writer, message string) {
	frame(w, map[string]any{"error": map[string]any{"message": message}})
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// frame writes one object as an event of a stream.
func frame(w io.Writer, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		return
	}
	_, _ = w.Write(append(append([]byte("data: "), raw...), "\n\n"...))
}

// awhile waits for work that goes on in the background, and gives signs of life: none within the first time, in which the status may
// still be chosen, then begin once and beat again and again.
func (s *server) awhile(done <-chan struct{}, begin, beat func()) (begun bool) {
	timer := time.NewTimer(holdHeader)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return begun
		case <-timer.C:
			if !begun {
				begun = true
				begin()
			}
			beat()
			timer.Reset(keepAlive)
		}
	}
}

// answerChosen answers with the provider's object and the sources in it.
func (s *server) answerChosen(w http.ResponseWriter, r *http.Request, d *run.Direct) error {
	var reply *run.Reply
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = d.Choose(r.Context()); err == nil {
			reply, err = d.Complete(r.Context())
		}
	}()
	begun := s.spaced(w, done)
	switch {
	case err != nil && !begun:
		return err
	case err != nil:
		_ = json.NewEncoder(w).Encode(problem(err))
	default:
		relay(w, reply, begun)
	}
	return nil
}

// problem is the body of an error that comes after the status is sent.
func problem(err error) map[string]any {
	_, detail := fault.Status(err)
	return map[string]any{"detail": detail, "error": map[string]any{"message": detail}}
}

// streamChosen answers with a frame of sources and the provider's stream. While the tools run the status stays open, for a while: the
// provider may yet refuse.
func (s *server) streamChosen(w http.ResponseWriter, r *http.Request, d *run.Direct) error {
	var resp *http.Response
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = d.Choose(r.Context()); err == nil {
			resp, err = d.Send(r.Context())
		}
	}()
	begun := s.awhile(done, func() {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		w.WriteHeader(http.StatusOK)
	}, func() {
		_, _ = io.WriteString(w, ": the tools are running\n\n")
		flush(w)
	})
	if resp != nil {
		defer resp.Body.Close()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil && !begun:
		return err
	case err != nil:
		_, detail := fault.Status(err)
		text, _ := detail.(string)
		failed(w, text)
		return nil
	case resp.StatusCode >= http.StatusBadRequest && begun: // the status is gone: its body is the error
		refused(w, resp)
		return nil
	case !begun:
		head(w, resp)
	}
	if sources := d.Sources(); len(sources) > 0 && resp.StatusCode < http.StatusBadRequest {
		frame(w, map[string]any{"sources": sources})
		flush(w)
	}
	pass(w, resp.Body, resp.StatusCode < http.StatusBadRequest)
	return nil
}

// refused tells a provider's refusal within a stream that has begun.
func refused(w io.Writer, resp *http.Response) {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var object map[string]any
	if json.Unmarshal(raw, &object) == nil && object["error"] != nil {
		frame(w, map[string]any{"error": object["error"]})
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
		return
	}
	failed(w, "The provider answered with status "+resp.Status+".")
}
