package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/openapi"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// The functions of a terminal that are more than a call of it.
const (
	fnRun     = "run_command"
	fnDisplay = "display_file"
)

// Terminals lists the terminals that the user may use.
func (s *Service) Terminals(ctx context.Context, u access.User) ([]Connection, error) {
	all, err := s.connections(ctx, Terminals)
	if err != nil {
		return nil, err
	}
	return s.granted(ctx, u, all)
}

// Access to a terminal, as it stands.
var (
	errOff    = fault.New(fault.Forbidden, "Terminal server disabled")
	errDenied = fault.New(fault.Forbidden, "Access denied")
)

// Terminal returns a terminal that the user may use now. Faults: NotFound (unknown), Forbidden (switched off, or not for this user).
func (s *Service) Terminal(ctx context.Context, u access.User, id string) (Connection, error) {
	all, err := s.connections(ctx, Terminals)
	if err != nil {
		return Connection{}, err
	}
	i := slices.IndexFunc(all, func(c Connection) bool { return c.ID == id })
	if i < 0 || id == "" {
		return Connection{}, fault.New(fault.NotFound, fmt.Sprintf("Terminal server '%s' not found", id))
	}
	if !all[i].Enabled {
		return all[i], errOff
	}
	kept, err := s.granted(ctx, u, all[i:i+1])
	if err != nil {
		return Connection{}, err
	}
	if len(kept) == 0 {
		return all[i], errDenied
	}
	return all[i], nil
}

// terminal finds the terminal that a run asks for. False: for none, or for one that does not exist.
func (s *Service) terminal(ctx context.Context, u access.User, id string) (Connection, bool, error) {
	if id == "" {
		return Connection{}, false, nil
	}
	c, err := s.Terminal(ctx, u, id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return c, false, nil
	case errors.Is(err, errOff):
		return c, true, unavailable(fmt.Sprintf("Terminal server '%s' is disabled", id), err)
	case errors.Is(err, errDenied):
		return c, true, unavailable("Access denied to terminal "+id, err)
	}
	return c, true, err
}

func unavailable(why string, cause error) error {
	return fault.Wrap(fault.Unavailable, "Terminal unavailable: "+why, cause)
}

// offerTerminal is what a terminal offers: its functions, its own words for the system prompt, and where it stands.
func (s *Service) offerTerminal(ctx context.Context, c Connection, who Who) (*run.Offer, error) {
	at, err := s.openapi(ctx, c, who)
	if err != nil {
		return nil, err
	}
	o := &run.Offer{ID: "terminal:" + c.ID, Provider: run.Terminal, Prefix: c.ID}
	var cwd string
	var wg sync.WaitGroup
	wg.Go(func() { o.Prompt = s.told(ctx, at, "/system", "prompt") })
	wg.Go(func() { cwd = s.told(ctx, at, "/files/cwd", "cwd") })
	d, err := s.OpenAPI.Document(ctx, at)
	wg.Wait()
	if err != nil {
		warn(c, who, err)
		return nil, unavailable(fmt.Sprintf("Terminal server '%s' is unavailable", c.ID), err)
	}
	o.Functions = functions(c, d.Specs())
	for i, f := range o.Functions {
		switch {
		case f.Name == fnRun && cwd != "":
			o.Functions[i].Spec.Description += "\n\nThe current working directory is: " + cwd
		case f.Name == fnDisplay:
			o.Functions[i].Spec = displaySpec(f.Spec)
		}
	}
	return o, nil
}

// told is one text that a terminal tells of itself, "" when it does not.
func (s *Service) told(ctx context.Context, at openapi.Server, path, key string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(at.URL, "/")+path, nil)
	if err != nil {
		return ""
	}
	r.Header = at.Header.Clone()
	resp, err := s.HTTP.Do(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var answer map[string]any
	if err != nil || resp.StatusCode != http.StatusOK || table.Decode(raw, &answer) != nil {
		return ""
	}
	return text(answer, key)
}

// displaySpec adds to the function that shows a file what clients know of besides its path.
func displaySpec(spec tool.Spec) tool.Spec {
	spec.Description += " With inline=true the file is shown within the message instead of in the viewer. For PDF, DOCX " +
		"and PPTX files, page opens the preview at that page or slide. A file that was displayed needs no link and no second display."
	var schema map[string]any
	if table.Decode(spec.Parameters, &schema) != nil || object(schema, "properties") == nil {
		return spec
	}
	properties := object(schema, "properties")
	properties["inline"] = map[string]any{"type": "boolean", "description": "Show the file within the message instead of in the file viewer."}
	properties["page"] = map[string]any{"type": "integer", "minimum": 1, "description": "Page or slide, from 1, at which the preview opens."}
	spec.Parameters = json.RawMessage(table.MustJSON(schema))
	return spec
}

func (s *Service) callTerminal(ctx context.Context, call run.ServerCall, who Who) (run.Result, error) {
	c, err := s.Terminal(ctx, call.User, strings.TrimPrefix(call.Entry.Toolkit, "terminal:"))
	if err != nil {
		return run.Result{}, err
	}
	result, err := s.callOpenAPI(ctx, c, call, who)
	if err == nil && call.Entry.Function == fnDisplay && result.Status == run.Completed {
		result.Content = displayed(result.Content, c.ID, who, call.Arguments)
	}
	return result, err
}

// displayed adds to the result of the function that shows a file what a client needs to show it.
func displayed(content, terminal string, who Who, arguments json.RawMessage) string {
	var result, asked map[string]any
	if table.Decode([]byte(content), &result) != nil || result == nil || result["exists"] == false {
		return content
	}
	file := text(result, "path")
	kind := mime.TypeByExtension(path.Ext(file))
	if kind, _, _ = strings.Cut(kind, ";"); kind == "" {
		kind = "application/octet-stream"
	}
	for key, value := range map[string]any{
		"type": "file", "source": "open_terminal", "terminal_selector": terminal, "terminal_id": terminal, "session_id": who.Chat,
		"full_path": file, "name": path.Base(file), "mime_type": kind, "content_type": kind,
	} {
		result[key] = value
	}
	if table.Decode(arguments, &asked) == nil {
		for _, key := range []string{"inline", "page"} {
			if v, ok := asked[key]; ok && v != nil {
				result[key] = v
			}
		}
	}
	raw, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return content
	}
	return string(raw)
}

// VerifyTerminal asks a terminal server whether it is one, before its connection is stored: "terminal", or "orchestrator" of several.
// Fault: Invalid (it does not answer so).
func (s *Service) VerifyTerminal(ctx context.Context, u access.User, doc map[string]any) (string, error) {
	c := Parse(Terminals, doc, 0)
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	session, err := s.session(ctx, c, Who{User: u})
	if err != nil {
		return "", err
	}
	for _, probe := range []struct{ path, kind string }{{"/api/v1/policies", "orchestrator"}, {"/api/config", "terminal"}} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.URL, "/")+probe.path, nil)
		if err != nil {
			break
		}
		r.Header = c.Header(Who{User: u}, session)
		resp, err := s.HTTP.Do(r)
		if err != nil {
			break
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && json.Valid(raw) {
			return probe.kind, nil
		}
	}
	return "", fault.New(fault.Invalid, "Failed to connect to the terminal server")
}

// Forward sends a client's request on to a terminal that it may use, and returns the answer, whose body the caller closes. Path is the
// part of the address below the terminal's, still encoded. Faults: NotFound, Forbidden, Invalid (the path), BadGateway.
func (s *Service) Forward(ctx context.Context, u access.User, id, path string, from *http.Request) (*http.Response, error) {
	c, err := s.Terminal(ctx, u, id)
	if err != nil {
		return nil, err
	}
	if !within(path) {
		return nil, fault.New(fault.Invalid, "Invalid path")
	}
	who := Who{User: u}
	at, err := s.openapi(ctx, c, who)
	if err != nil {
		return nil, err
	}
	target := strings.TrimRight(c.URL, "/") + "/" + strings.TrimLeft(path, "/")
	if from.URL.RawQuery != "" {
		target += "?" + from.URL.RawQuery
	}
	r, err := http.NewRequestWithContext(ctx, from.Method, target, from.Body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "Invalid path", err)
	}
	r.ContentLength = from.ContentLength
	for _, name := range []string{"Accept", "Accept-Language", "Content-Type", "Range", "If-None-Match", "If-Modified-Since", "X-Session-Id"} {
		if v := from.Header.Values(name); v != nil {
			r.Header[name] = v
		}
	}
	for name, v := range at.Header {
		r.Header[name] = v
	}
	resp, err := s.HTTP.Do(r)
	if err != nil {
		return nil, fault.Wrap(fault.BadGateway, "Terminal proxy error: the terminal server cannot be reached", err)
	}
	return resp, nil
}

// within tells whether a path stays below where it starts, whatever is decoded of it, and however often.
func within(p string) bool {
	for range 3 {
		for _, part := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == ".." || part == "." {
				return false
			}
		}
		next := strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`, "%25", "%").Replace(p)
		if next == p {
			return true
		}
		p = next
	}
	return false
}

// ProxyTime is how long a terminal may take to answer a client's request: API Gateway waits no longer.
const ProxyTime = 28 * time.Second
