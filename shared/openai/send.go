package openai

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// send makes one request, repeated as the policy allows. The response's body obeys the configured time bounds and must be closed.
func (c *Client) send(ctx context.Context, method, path string, body []byte, policy RetryPolicy) (*http.Response, error) {
	var spent time.Duration
	for attempt := 0; ; attempt++ {
		resp, err := c.once(ctx, method, path, body)
		o := outcome{err: err}
		if err == nil {
			o = outcome{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
			if o.status < 400 {
				return resp, nil
			}
		}
		wait, again := policy.next(attempt, spent, o, time.Now())
		if !again {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		spent += wait
	}
}

// once makes one request. On success the watchdog of the body owns the request's context.
func (c *Client) once(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	inner, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(inner, method, c.url(path), bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, &TransportError{Doing: "make the request", Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// A compressed stream arrives in the compressor's blocks, late; asking for none also keeps raw answers byte for byte.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "toolrounds")
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	for name, value := range c.cfg.Headers {
		req.Header.Set(name, value)
	}
	dog := &watchdog{ctx: inner, cancel: cancel, idle: c.cfg.Idle}
	dog.arm(true, c.cfg.FirstByte)
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		dog.rest()
		err = dog.cause(err)
		cancel(nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if isTyped(err) {
			return nil, err
		}
		return nil, &TransportError{Doing: "send the request", Err: err}
	}
	dog.body = resp.Body
	resp.Body = dog
	return resp, nil
}

// watchdog is a response's body that bounds the silence of the other side. Its timer runs only while somebody waits for bytes,
// so a slow reader is never mistaken for a silent provider.
type watchdog struct {
	body   io.ReadCloser
	ctx    context.Context // the request's; ends it when the timer fires
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	begun  bool // the first byte is there
}

// arm starts the timer; a bound of 0 starts none.
func (w *watchdog) arm(first bool, bound time.Duration) {
	if bound > 0 {
		w.timer = time.AfterFunc(bound, func() { w.cancel(&TimeoutError{First: first, After: bound}) })
	}
}

// rest stops the timer.
func (w *watchdog) rest() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// cause is the timeout if one ended the request, else err.
func (w *watchdog) cause(err error) error {
	var timeout *TimeoutError
	if errors.As(context.Cause(w.ctx), &timeout) {
		return timeout
	}
	return err
}

// Read reads the body. Until the first byte the timer that was started with the request goes on.
func (w *watchdog) Read(p []byte) (int, error) {
	if w.begun {
		w.arm(false, w.idle)
	}
	n, err := w.body.Read(p)
	if n > 0 || err != nil {
		w.begun = true
		w.rest()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = w.cause(err)
	}
	return n, err
}

// Close ends the request.
func (w *watchdog) Close() error {
	w.rest()
	err := w.body.Close()
	w.cancel(nil)
	return err
}

// drain reads what follows [DONE], as a rule nothing, so that the connection can be used again: the next round's request then needs
// no new handshake. A server that keeps the stream open is not waited for.
func drain(body io.ReadCloser) {
	if w, ok := body.(*watchdog); ok {
		w.idle = 20 * time.Millisecond
		_, _ = io.CopyN(io.Discard, w, 4<<10)
	}
}

// decompress gives the plain bytes of an answer that came compressed although none was asked for. Some proxies forget the
// header, so gzip is also known by its first bytes.
func decompress(resp *http.Response) (io.Reader, error) {
	r := bufio.NewReader(resp.Body)
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if resp.Uncompressed || encoding == "identity" {
		encoding = ""
	}
	switch encoding {
	case "", "gzip", "x-gzip":
		// What says gzip but is not (a proxy that unpacked it and kept the header) is taken as it is.
		magic, err := r.Peek(2)
		if err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
			return r, nil
		}
		return unpacked(resp, func() (io.Reader, error) { return gzip.NewReader(r) })
	case "deflate":
		return unpacked(resp, func() (io.Reader, error) { return zlib.NewReader(r) })
	}
	return nil, &FormatError{ContentType: resp.Header.Get("Content-Type"), Problem: "content encoding " + encoding + " is not supported"}
}

// unpacked opens a decompressor and removes the headers that no longer fit what is read.
func unpacked(resp *http.Response, open func() (io.Reader, error)) (io.Reader, error) {
	plain, err := open()
	if err != nil {
		return nil, &TransportError{Doing: "unpack the answer", Err: err}
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return plain, nil
}

// readStatusError reads the body of an answer with an error status. A body that cannot be read leaves the status.
func readStatusError(resp *http.Response) *StatusError {
	e := &StatusError{Status: resp.StatusCode, Header: resp.Header}
	if plain, err := decompress(resp); err == nil {
		e.Body, _ = io.ReadAll(io.LimitReader(plain, maxErrors))
	}
	e.Message = errorMessage(e.Body)
	if e.Message == "" {
		e.Message = excerpt(e.Body)
	}
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	if e.Message == "" {
		e.Message = "no message"
	}
	return e
}
