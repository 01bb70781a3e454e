package lambdahttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// Buffered serves h by responses that are sent whole. A body that is not UTF-8 travels as base64. A panic of h is a 500.
//
// This is the one file that knows aws-lambda-go-api-proxy. Its own request lacks what handlers expect of net/http (a path that
// survives escaping, the host, a port at the remote address), so it is replaced by the one that Stream makes.
func Buffered(h http.Handler) func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	return func(ctx context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r, err := request(ctx, e)
		if err != nil {
			return whole(http.StatusBadRequest, badRequest), nil
		}
		// The adapter would parse and decode all of it a second time.
		e.Path, e.Body, e.IsBase64Encoded = "/", "", false
		failed := false
		adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { failed = !served(h, w, r) }))
		answer, err := adapter.ProxyWithContext(ctx, e)
		if failed {
			return whole(http.StatusInternalServerError, internalError), nil
		}
		return answer, err
	}
}

func whole(status int, body string) events.APIGatewayProxyResponse {
	return events.APIGatewayProxyResponse{
		StatusCode: status, MultiValueHeaders: map[string][]string{"Content-Type": {"application/json"}}, Body: body,
	}
}

// served runs h, tells whether it came to its end, and sees to it that there is a status: the adapter takes a handler that wrote
// nothing for a failure.
func served(h http.Handler, w http.ResponseWriter, r *http.Request) (ok bool) {
	g := &guard{ResponseWriter: w, bodiless: r.Method == http.MethodHead}
	defer func() {
		failure := recover()
		g.WriteHeader(http.StatusOK)
		if ok = failure == nil; ok {
			return
		}
		if err, aborted := failure.(error); !aborted || !errors.Is(err, http.ErrAbortHandler) {
			slog.Error("handler panicked", "panic", fmt.Sprint(failure), "stack", string(debug.Stack()))
		}
	}()
	h.ServeHTTP(g, r)
	return true
}

// guard lets the first status through, and no body where there may be none.
type guard struct {
	http.ResponseWriter
	begun, bodiless bool
}

func (g *guard) WriteHeader(status int) {
	if g.begun || status < 200 {
		return
	}
	g.begun = true
	g.bodiless = g.bodiless || status == http.StatusNoContent || status == http.StatusNotModified
	g.ResponseWriter.WriteHeader(status)
}

func (g *guard) Write(p []byte) (int, error) {
	if !g.begun {
		g.begun = true // the adapter detects the type and sets 200
		if g.bodiless {
			g.ResponseWriter.WriteHeader(http.StatusOK)
		}
	}
	if g.bodiless {
		return len(p), nil
	}
	return g.ResponseWriter.Write(p)
}

func (g *guard) Flush() { g.WriteHeader(http.StatusOK) }
