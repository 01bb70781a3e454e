package server_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/run"
	"toolrounds/shared/server"
)

// hostile are ways in which a server can behave that must not do more harm than one failed call.
func hostile() map[string]http.HandlerFunc {
	flood := strings.Repeat("x", 64<<10)
	hijacked := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, text)
		}
	}
	return map[string]http.HandlerFunc{
		"silent":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stalled": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"a":`); flush(w); <-r.Context().Done() },
		"dripping": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				flush(w)
				time.Sleep(20 * time.Millisecond)
			}
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999999")
			fmt.Fprint(w, flood)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, flood); err != nil {
					return
				}
			}
		},
		"a bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 100 {
				_, _ = z.Write([]byte(flood))
			}
			_ = z.Close()
		},
		"redirecting for ever": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		},
		"redirecting inwards": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		},
		"longer than it says":     hijacked("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}"),
		"dying in its answer":     hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{\"a\":"),
		"dying before it":         hijacked(""),
		"not HTTP":                hijacked("SSH-2.0-OpenSSH_9.9\r\n"),
		"with too many headers":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat(flood, 10)) },
		"with an impossible code": hijacked("HTTP/1.1 999999 No\r\n\r\n"),
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// TestHostileServers: whatever a server does to a call, there is a result within the call's time, and whatever it does instead of giving
// its document, the others' tools are offered.
func TestHostileServers(t *testing.T) {
	good := api(t)
	for name, handler := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := httptest.NewServer(handler)
			defer bad.Close()
			defer bad.CloseClientConnections()
			calls := connection("calls", bad.URL, everybody())
			calls["spec_type"], calls["spec"] = "json", document
			s, _ := newService(t, server.Tools, connection("documents", bad.URL, everybody()), calls, connection("good", good.URL, everybody()))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			offers, err := s.Offer(context.WithoutCancel(ctx), run.Ask{User: user, ToolIDs: []string{"server:documents", "server:calls", "server:good"}})
			if err != nil || len(offers.Tools) != 2 || offers.Tools[1].ID != "server:good" {
				t.Errorf("offered %+v, %v", offers, err)
			}
			result, err := s.Call(ctx, run.ServerCall{Ask: run.Ask{User: user}, Name: "echo", Arguments: json.RawMessage(`{"a":"1"}`),
				Entry: run.Entry{Provider: run.OpenAPI, Toolkit: "server:calls", Function: "echo"}})
			if err == nil && result.Status != run.FailedCall || err != nil && ctx.Err() == nil {
				t.Errorf("called: %.200s %s, %v", result.Content, result.Status, err)
			}
		})
	}
}
