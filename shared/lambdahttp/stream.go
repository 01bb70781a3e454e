package lambdahttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// lastWords is how long Close waits for a handler whose reader has gone, so that it can still store what it knows before the
// environment is frozen.
const lastWords = 2 * time.Second

// Bodies of answers that no handler wrote.
const (
	internalError = `{"detail":"Internal Server Error"}`
	badRequest    = `{"detail":"Bad Request"}`
)

// errPanicked ends the body of a handler that panicked in the middle of it.
var errPanicked = errors.New("the handler failed while it was answering")

// Stream serves h by streamed responses. The function that it returns comes back as soon as h has written its header, its first
// byte, or nothing at all; h goes on in a goroutine, and its context ends when the reader goes away, when h returns or when Lambda's
// time is over, whatever comes first. Writes block while the reader is slow and fail when it is gone, never for ever. A panic of h is
// a 500 if nothing was written yet; else the body ends with an error, which the client sees as a broken transfer.
func Stream(h http.Handler) func(context.Context, events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
	return func(ctx context.Context, e events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		r, err := request(ctx, e)
		if err != nil {
			cancel()
			return plain(http.StatusBadRequest, badRequest), nil
		}
		read, write := io.Pipe()
		w := &writer{header: http.Header{}, body: write, ready: make(chan struct{}), bodiless: r.Method == http.MethodHead}
		done := make(chan struct{})
		// A pipe knows no deadline: without this a write would outlive a reader that neither reads nor closes.
		release := context.AfterFunc(ctx, func() { write.CloseWithError(context.Cause(ctx)) })
		go func() {
			defer close(done)
			defer cancel()
			defer release() // after the answer's end is in the pipe, and before cancel would replace it
			defer func() { w.end(recover()) }()
			h.ServeHTTP(w, r)
		}()
		select {
		case <-w.ready:
		case <-ctx.Done():
			// The handler's own end cancels as well, after it has made an answer ready.
			select {
			case <-w.ready:
			default:
				return nil, fmt.Errorf("no answer in time: %w", context.Cause(ctx))
			}
		}
		answer := w.answer()
		answer.Body = &stream{PipeReader: read, cancel: cancel, done: done}
		return answer, nil
	}
}

func plain(status int, body string) *events.APIGatewayProxyStreamingResponse {
	return &events.APIGatewayProxyStreamingResponse{
		StatusCode: status, MultiValueHeaders: map[string][]string{"Content-Type": {"application/json"}},
		Body: newBody([]byte(body)),
	}
}

func newBody(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// stream is the body that the Lambda runtime reads.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   <-chan struct{}
}

// Close says that nobody reads any more.
func (s *stream) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
	return err
}

// writer is the handler's http.ResponseWriter.
type writer struct {
	header http.Header // the handler's own, until it is sent
	body   *io.PipeWriter
	ready  chan struct{} // closed when status and sent are final

	mu       sync.Mutex
	status   int // 0 until the header is written
	sent     http.Header
	bodiless bool
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational statuses cannot be sent through the gateway and are dropped.
func (w *writer) WriteHeader(status int) {
	if status < 200 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *writer) writeHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	w.bodiless = w.bodiless || status == http.StatusNoContent || status == http.StatusNotModified
	close(w.ready)
}

// Write implements http.ResponseWriter. It returns when the runtime has taken the bytes, or an error when it will not.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.status == 0 {
		if _, ok := w.header["Content-Type"]; !ok && len(p) > 0 {
			w.header.Set("Content-Type", http.DetectContentType(p))
		}
		w.writeHeader(http.StatusOK)
	}
	bodiless := w.bodiless
	w.mu.Unlock()
	if bodiless {
		return len(p), nil // as net/http does for HEAD
	}
	if len(p) == 0 {
		return 0, nil // a pipe would wait for a reader even so
	}
	return w.body.Write(p)
}

// Flush implements http.Flusher: it sends the header. What was written has already gone.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// end finishes the answer; failure is what the handler panicked with.
func (w *writer) end(failure any) {
	if failure == nil {
		w.WriteHeader(http.StatusOK)
		w.body.Close()
		return
	}
	if err, ok := failure.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		slog.Error("handler panicked", "panic", fmt.Sprint(failure), "stack", string(debug.Stack()))
	}
	w.mu.Lock()
	begun := w.status != 0
	if !begun {
		w.header = http.Header{"Content-Type": {"application/json"}}
		w.writeHeader(http.StatusInternalServerError)
	}
	bodiless := w.bodiless
	w.mu.Unlock()
	switch {
	case begun:
		w.body.CloseWithError(errPanicked)
	case bodiless:
		w.body.Close()
	default:
		io.WriteString(w.body, internalError)
		w.body.Close()
	}
}

// answer is the response without its body. It is called once the writer is ready.
func (w *writer) answer() *events.APIGatewayProxyStreamingResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	cookies := w.sent["Set-Cookie"]
	for _, hop := range []string{"Set-Cookie", "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade"} {
		w.sent.Del(hop)
	}
	return &events.APIGatewayProxyStreamingResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Cookies: cookies}
}
