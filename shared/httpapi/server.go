// Package httpapi is the HTTP surface: it decodes a request, calls a service of the domain, and encodes the answer. What is decided is
// decided elsewhere.
//
// All routes stand in one table (routes.go), each with who may call it; New wraps each in the same checks. A handler returns an error
// instead of answering with one: package fault maps it to a status and a body {"detail": ...}, and what is no fault is logged and
// answered 500 without its text. Statuses and bodies are those of Open WebUI as measured (spec/http.md), 401 where others say 403
// included.
//
// The handler is an ordinary http.Handler: API Gateway's proxy adapter, a streaming adapter and a plain server serve it alike.
package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/file"
	"toolrounds/shared/folder"
	"toolrounds/shared/live"
	"toolrounds/shared/model"
	remote "toolrounds/shared/server"
	"toolrounds/shared/tool"
)

// MaxBody is the largest request body in bytes. Lambda takes 6 MB in base64, headers and all.
const MaxBody = 4_500_000

// Deps are what the routes work with.
type Deps struct {
	Accounts *access.Accounts
	Models   *model.Models
	Tools    *tool.Tools
	Chats    Chats
	Files    *file.Store
	Folders  *folder.Store
	Live     *live.Service   // nil: no live routes
	Servers  *remote.Service // connections to other servers; nil: none can be made

	Name         string   // of the installation; default toolrounds
	Version      string   // default dev
	DeploymentID string   // a change makes web clients reload
	Origins      []string // that browsers may call from; empty or "*": any
	Now          func() time.Time
	Log          *slog.Logger
	More         []Route // of other packages; Caller tells them who calls
}

// Who says who may call a route.
type Who int

// The classes of callers. Each but Open refuses a request without a valid credential.
const (
	Open   Who = iota
	Known      // any account, one that waits to be let in included
	Person     // any account, by a session: API keys are refused
	User       // an account that has been let in
	Admin
)

// Route is one entry of the route table.
type Route struct {
	Method, Pattern string // of net/http.ServeMux, without a slash at the end
	Who             Who
	Handle          func(w http.ResponseWriter, r *http.Request) error
}

type server struct {
	Deps
}

// New makes the handler.
func New(deps Deps) http.Handler {
	s := newServer(deps)
	mux := http.NewServeMux()
	for _, route := range s.routes() {
		mux.Handle(route.Method+" "+route.Pattern, s.guarded(route))
	}
	return s.outer(s.routed(mux))
}

func newServer(deps Deps) *server {
	if deps.Name == "" {
		deps.Name = "toolrounds"
	}
	if deps.Version == "" {
		deps.Version = "dev"
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	return &server{deps}
}

// request is what is known of a request while it is served.
type request struct {
	id     string
	caller access.Caller
}

type contextKey struct{}

func state(r *http.Request) *request {
	if st, ok := r.Context().Value(contextKey{}).(*request); ok {
		return st
	}
	return &request{}
}

// Caller is who makes the request; the zero Caller on Open routes.
func Caller(r *http.Request) access.Caller { return state(r).caller }

func (s *server) caller(r *http.Request) access.Caller { return Caller(r) }

// outer does what concerns every request: an id, the log, panics, the size of the body, and browsers of other origins.
func (s *server) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := s.Now()
		st := &request{id: requestID(r)}
		r = r.WithContext(context.WithValue(r.Context(), contextKey{}, st))
		w := &writer{ResponseWriter: rw}
		w.Header().Set("X-Request-Id", st.id)
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.Log.ErrorContext(r.Context(), "panic", "request", st.id, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				if w.status == 0 {
					answer(w, http.StatusInternalServerError, map[string]any{"detail": "Internal Server Error"})
				}
			}
			s.Log.InfoContext(r.Context(), "request", "request", st.id, "method", r.Method, "path", r.URL.Path, "status", w.status,
				"ms", s.Now().Sub(start).Milliseconds(), "user", st.caller.User.ID)
		}()
		s.cors(w, r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.ContentLength > MaxBody {
			s.fail(w, r, errTooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		next.ServeHTTP(w, r)
	})
}

func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return id
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// cors lets browsers of the allowed origins call with cookies and any header.
func (s *server) cors(w http.ResponseWriter, r *http.Request) {
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	if origin == "" || !s.allowedOrigin(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		h.Set("Access-Control-Max-Age", "600")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
	}
}

func (s *server) allowedOrigin(origin string) bool {
	for _, allowed := range s.Origins {
		if allowed == "*" || allowed == origin {
			return true
		}
	}
	return len(s.Origins) == 0
}

// routed finds the route. A slash at the end makes no difference; what ServeMux would redirect is not found instead, so that no
// request is repeated elsewhere.
func (s *server) routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > 1 && strings.HasSuffix(r.URL.EscapedPath(), "/") {
			u := *r.URL
			u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
			r2 := *r
			r2.URL = &u
			r = &r2
		}
		if p := r.URL.EscapedPath(); path.Clean(p) != p {
			s.fail(w, r, errNoRoute)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			err := errNoRoute
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
				other := *r
				other.Method = method
				if _, pattern := mux.Handler(&other); pattern != "" {
					w.Header().Add("Allow", method)
					err = errNoMethod
				}
			}
			s.fail(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var (
	errNoRoute  = fault.New(fault.NotFound, "Not Found")
	errNoMethod = fault.New(fault.NotAllowed, "Method Not Allowed")
	errTooLarge = fault.New(fault.TooLarge, "The request body is larger than the limit of 4.5 MB (4,500,000 bytes).")
)

// guarded checks who calls before the route is served.
func (s *server) guarded(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.admit(r, route.Who); err != nil {
			s.fail(w, r, err)
			return
		}
		if err := route.Handle(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *server) admit(r *http.Request, who Who) error {
	if who == Open {
		return nil
	}
	c, err := s.Accounts.Authenticate(r.Context(), s.Accounts.Credential(r), r.Method, r.URL.Path)
	if err != nil {
		return err
	}
	state(r).caller = c
	switch {
	case who == Person && c.ByKey:
		return fault.New(fault.Forbidden, "A human session is required.")
	case who == User && !c.User.Active(), who == Admin && !c.User.Admin():
		return fault.New(fault.Unauthorized, fault.TextProhibited)
	}
	return nil
}

// fail answers with an error. Once an answer has begun it only logs.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := fault.Status(err)
	var other *tool.StatusError
	if errors.As(err, &other) {
		status, detail = other.Status, other.Detail
	}
	st := state(r)
	log := s.Log.DebugContext
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		log = s.Log.ErrorContext
	}
	log(r.Context(), "refused", "request", st.id, "path", r.URL.Path, "user", st.caller.User.ID, "status", status, "error", err)
	if own, ok := w.(*writer); ok && own.status != 0 {
		return
	}
	answer(w, status, map[string]any{"detail": detail})
}

// writer remembers whether an answer has begun.
type writer struct {
	http.ResponseWriter
	status int
}

func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	http.NewResponseController(w.ResponseWriter).Flush() // best effort: not every writer can
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
