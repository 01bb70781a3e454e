package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"toolrounds/shared/openapi"
	"toolrounds/shared/server"
)

func init() { register("openapi", openapiCase) }

// openapiGiven is a document, the server that answers, and what is called.
type openapiGiven struct {
	Document   json.RawMessage `json:"document"`
	BaseURL    string          `json:"base_url"`
	Connection map[string]any  `json:"connection"`
	Call       *struct {
		Name      string          `json:"name"` // operationId
		Arguments json.RawMessage `json:"arguments"`
	} `json:"call"`
	Response openapiResponse `json:"response"`
}

type openapiResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json"`
	Text    *string           `json:"text"`
	Raw     *string           `json:"raw"`
}

type openapiSpec struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type openapiRequest struct {
	Method   string              `json:"method"`
	Path     string              `json:"path"`
	RawPath  string              `json:"raw_path"`
	Query    map[string][]string `json:"query"`
	Headers  map[string]string   `json:"headers"`
	Body     any                 `json:"body"` // null when there is none or it is no JSON
	BodyText string              `json:"body_text"`
}

type openapiDocument struct {
	Specs   map[string]openapiSpec `json:"specs"`
	Request *openapiRequest        `json:"request"`
	Result  string                 `json:"result"`
	Status  string                 `json:"status"`
	Files   []string               `json:"files"`
	Error   *string                `json:"error"`
}

// openapiCase lets the OpenAPI client make specs of a document and call an operation of a server over a real connection. Whatever host
// the base URL names, its connections end at that server.
func openapiCase(ctx context.Context, c Case) (any, error) {
	var given openapiGiven
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, fmt.Errorf("given: %w", err)
	}
	doc := openapiDocument{Specs: map[string]openapiSpec{}, Files: []string{}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc.Request = seen(r)
		given.Response.write(w)
	}))
	defer api.Close()
	there := api.Listener.Addr().String()
	client := openapi.New(&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, there)
		},
	}})
	connection := map[string]any{"url": given.BaseURL, "spec_type": "json", "spec": string(given.Document)}
	for k, v := range given.Connection {
		connection[k] = v
	}
	parsed := server.Parse(server.Tools, connection, 0)
	at := openapi.Server{URL: parsed.URL, Inline: parsed.Inline, Header: parsed.Header(server.Who{}, "")}
	document, err := client.Document(ctx, at)
	if err != nil {
		text := err.Error()
		doc.Error = &text
		return doc, nil
	}
	for _, s := range document.Specs() {
		doc.Specs[s.Name] = openapiSpec{Description: s.Description, Parameters: s.Parameters}
	}
	if given.Call == nil {
		return doc, nil
	}
	name, ok := document.Named(given.Call.Name)
	if !ok {
		return nil, fmt.Errorf("the document has no operation %q", given.Call.Name)
	}
	result, err := client.Call(ctx, at, openapi.Request{Function: name, Arguments: given.Call.Arguments})
	if err != nil {
		return nil, err
	}
	doc.Result, doc.Status, doc.Files = result.Content, "completed", append(doc.Files, result.Files...)
	if result.Failed {
		doc.Status = "failed"
	}
	return doc, nil
}

// seen is a request as the server saw it.
func seen(r *http.Request) *openapiRequest {
	body, _ := io.ReadAll(r.Body) // what is missing shows in the checks
	path, _, _ := strings.Cut(r.RequestURI, "?")
	s := &openapiRequest{
		Method: r.Method, Path: r.URL.Path, RawPath: path, Query: r.URL.Query(), Headers: map[string]string{}, BodyText: string(body),
	}
	for name, values := range r.Header {
		s.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&s.Body) != nil {
		s.Body = nil
	}
	return s
}

func (r openapiResponse) write(w http.ResponseWriter) {
	body, kind := []byte(`{}`), "application/json"
	switch {
	case r.Raw != nil:
		body = []byte(*r.Raw)
	case r.Text != nil:
		body, kind = []byte(*r.Text), "text/plain; charset=utf-8"
	case r.JSON != nil:
		body = r.JSON
	case r.Status == http.StatusNoContent:
		body, kind = nil, ""
	}
	if kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	for name, value := range r.Headers {
		w.Header().Set(name, value)
	}
	if r.Status != 0 {
		w.WriteHeader(r.Status)
	}
	_, _ = w.Write(body) // a client that has gone shows in the result
}
