package httpapi

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"

	"toolrounds/shared/fault"
	remote "toolrounds/shared/server"
	"toolrounds/shared/table"
)

func (s *server) serverRoutes() []Route {
	routes := []Route{
		// Connections (spec/http.md H).
		{"GET", "/api/v1/configs/tool_servers", Admin, s.connections(toolServers)},
		{"POST", "/api/v1/configs/tool_servers", Admin, s.setConnections(toolServers)},
		{"POST", "/api/v1/configs/tool_servers/verify", Admin, s.verifyToolServer},
		{"GET", "/api/v1/configs/terminal_servers", Admin, s.connections(terminalServers)},
		{"POST", "/api/v1/configs/terminal_servers", Admin, s.setConnections(terminalServers)},
		{"POST", "/api/v1/configs/terminal_servers/verify", Admin, s.verifyTerminal},
		{"GET", "/api/v1/terminals", User, s.terminals},
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} { // ServeMux lets HEAD to GET
		routes = append(routes, Route{method, "/api/v1/terminals/{id}/{path...}", User, s.forward})
	}
	return routes
}

// connectionForm is a list of connections as clients know it.
type connectionForm struct {
	kind     remote.Kind
	key      string
	required []string       // may be null, but must be there
	preset   map[string]any // what the others are when they are not there
}

var (
	toolServers = connectionForm{remote.Tools, "TOOL_SERVER_CONNECTIONS", []string{"url", "path", "auth_type", "key", "config"},
		map[string]any{"type": "openapi", "forward_cookies": false, "headers": nil}}
	terminalServers = connectionForm{remote.Terminals, "TERMINAL_SERVER_CONNECTIONS", []string{"url"},
		map[string]any{"id": "", "name": "", "enabled": true, "path": "/openapi.json", "key": "", "auth_type": "bearer", "forward_cookies": false,
			"config": nil, "server_type": nil, "policy_id": nil}}
)

// read checks one connection. What is unknown stays as it is.
func (c connectionForm) read(f form) map[string]any {
	made := maps.Clone(c.preset)
	maps.Copy(made, f.values)
	for _, name := range c.required {
		if _, ok := f.values[name]; !ok {
			f.missing(name)
		}
	}
	for _, name := range []string{"id", "name", "url", "path", "type", "auth_type", "key"} {
		f.textOrNil(name)
	}
	for _, name := range []string{"config", "info"} {
		f.objectOrNil(name)
	}
	switch f.values["headers"].(type) { // older clients send their text
	case nil, string, map[string]any:
	default:
		f.wrong("dict_type", "Input should be a valid dictionary", f.values["headers"], "headers")
	}
	if text, ok := f.values["headers"].(string); ok {
		var headers map[string]any
		if table.Decode([]byte(text), &headers) == nil {
			made["headers"] = headers
		}
	}
	return made
}

func (s *server) connections(c connectionForm) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		list, err := s.Servers.List(r.Context(), c.kind)
		if err != nil {
			return err
		}
		return answer(w, 200, map[string]any{c.key: list})
	}
}

// maxConnections is how many connections a list may have.
const maxConnections = 500

func (s *server) setConnections(c connectionForm) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		f, err := readForm(r)
		if err != nil {
			return err
		}
		list := []map[string]any{}
		for i, v := range f.list(c.key, true) {
			doc, ok := v.(map[string]any)
			if !ok {
				f.wrong("model_attributes_type", "Input should be a valid dictionary or object to extract fields from", v, c.key, i)
				continue
			}
			list = append(list, c.read(form{values: doc, loc: f.at(c.key, i), faults: f.faults}))
		}
		if err := f.err(); err != nil {
			return err
		}
		if len(list) > maxConnections {
			return fault.New(fault.Invalid, "Too many connections.")
		}
		if err := s.Servers.Set(r.Context(), c.kind, list); err != nil {
			return err
		}
		return answer(w, 200, map[string]any{c.key: list})
	}
}

// one reads the connection that is to be tried.
func (c connectionForm) one(r *http.Request) (map[string]any, error) {
	f, err := readForm(r)
	if err != nil {
		return nil, err
	}
	doc := c.read(f)
	return doc, f.err()
}

func (s *server) verifyToolServer(w http.ResponseWriter, r *http.Request) error {
	doc, err := toolServers.one(r)
	if err != nil {
		return err
	}
	document, specs, err := s.Servers.Verify(r.Context(), s.caller(r).User, doc)
	if err != nil {
		return err
	}
	if document == nil {
		return answer(w, 200, map[string]any{"status": true, "specs": specs})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(document) // a caller that has gone needs no answer
	return nil
}

func (s *server) verifyTerminal(w http.ResponseWriter, r *http.Request) error {
	doc, err := terminalServers.one(r)
	if err != nil {
		return err
	}
	kind, err := s.Servers.VerifyTerminal(r.Context(), s.caller(r).User, doc)
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"status": true, "type": kind})
}

// serverTools are the tool servers that the caller may use, as entries of the list of toolkits.
func (s *server) serverTools(r *http.Request) ([]any, error) {
	if s.Servers == nil {
		return nil, nil
	}
	listed, err := s.Servers.Listed(r.Context(), s.caller(r).User, r.URL.Query().Get("query"))
	if err != nil {
		return nil, err
	}
	now := s.Now().Unix()
	var all []any
	for _, l := range listed {
		all = append(all, map[string]any{"version_id": nil, "id": l.ID, "user_id": l.ID, "name": l.Name, "user": nil, "access_grants": []any{},
			"meta":       map[string]any{"i18n": nil, "description": l.Description, "manifest": map[string]any{}, "has_user_valves": false},
			"updated_at": now, "created_at": now})
	}
	return all, nil
}

// serverSpecs lists the functions of an MCP server.
func (s *server) serverSpecs(w http.ResponseWriter, r *http.Request) error {
	if s.Servers == nil {
		return fault.New(fault.NotFound, "Tool not found")
	}
	tools, err := s.Servers.Specs(r.Context(), s.caller(r).User, r.PathValue("id"))
	if err != nil {
		return err
	}
	specs := []any{}
	for _, t := range tools {
		specs = append(specs, map[string]any{"name": t.Name, "description": t.Description})
	}
	return answer(w, 200, map[string]any{"specs": specs})
}

func (s *server) terminals(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Servers.Terminals(r.Context(), s.caller(r).User)
	if err != nil {
		return err
	}
	list := []any{}
	for _, c := range all {
		uploads := c.ChatUploads
		if uploads == "" {
			uploads = "default"
		}
		list = append(list, map[string]any{"id": c.ID, "url": c.URL, "name": c.Name, "contexts": map[string]any{},
			"config": map[string]any{"chat_uploads": uploads}})
	}
	return answer(w, 200, list)
}

// maxForwarded is the largest answer of a terminal that is handed on: Lambda answers with 6 MB at most, in base64.
const maxForwarded = 4_400_000

// kept are the headers of a terminal's answer that a client gets.
var kept = []string{"Content-Type", "Content-Disposition", "Content-Language", "Content-Range", "Accept-Ranges", "Cache-Control", "ETag", "Last-Modified"}

// forward hands a request on to a terminal. What comes back is another server's: a browser that opens it as a page runs none of it in
// this server's name.
func (s *server) forward(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), remote.ProxyTime)
	defer cancel()
	id := r.PathValue("id")
	_, below, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/terminals/"), "/")
	resp, err := s.Servers.Forward(ctx, s.caller(r).User, id, below, r)
	if code := fault.CodeOf(err); err != nil && code != fault.Internal {
		status, detail := fault.Status(err)
		return answer(w, status, map[string]any{"error": detail})
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded+1))
	if err != nil || len(body) > maxForwarded {
		return answer(w, http.StatusBadGateway, map[string]any{"error": "Terminal proxy error: the answer is too large or incomplete"})
	}
	h := w.Header()
	for _, name := range kept {
		if v := resp.Header.Values(name); v != nil {
			h[name] = v
		}
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // a caller that has gone needs no answer
	return nil
}
