package lambdahttp

import (
	"context"
	"errors"
	"fmt"
	"io"
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
			return events.APIGatewayProxyResponse{
				StatusCode: http.StatusBadRequest, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"detail":"Bad Request"}`,
			}, nil
		}
		// The adapter would parse and decode all of it a second time.
		e.Path, e.Body, e.IsBase64Encoded = "/", "", false
		adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { guarded(h, w, r) }))
		return adapter.ProxyWithContext(ctx, e)
	}
}

// guarded runs h and sees to it that there is a status: the adapter takes a handler that wrote nothing for a failure.
func guarded(h http.Handler, w http.ResponseWriter, r *http.Request) {
	g := &guard{ResponseWriter: w, bodiless: r.Method == http.MethodHead}
	defer func() {
		failure := recover()
		if failure == nil {
			g.WriteHeader(http.StatusOK)
			return
		}
		if err, ok := failure.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			slog.Error("handler panicked", "panic", fmt.Sprint(failure), "stack", string(debug.Stack()))
		}
		if !g.begun {
			clear(w.Header())
			w.Header().Set("Content-Type", "application/json")
			g.WriteHeader(http.StatusInternalServerError)
			io.WriteString(g, internalError)
		}
	}()
	h.ServeHTTP(g, r)
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
