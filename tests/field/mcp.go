package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"toolrounds/shared/mcp"
)

func init() { register("mcp", mcpCase) }

// mcpGiven is an MCP server by its answers, and what is wanted of it.
type mcpGiven struct {
	ServerID   string                `json:"server_id"`
	Tools      []json.RawMessage     `json:"tools"`
	Server     map[string][]mcpReply `json:"server"` // method -> its answers in turn; the last one stays
	Connection struct {
		URL      string            `json:"url"`
		AuthType string            `json:"auth_type"`
		Key      string            `json:"key"`
		Headers  map[string]string `json:"headers"`
	} `json:"connection"`
	Call *struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"call"`
}

// mcpReply is one answer. With if_arg_type, Else takes its place when the arguments are not of those types.
type mcpReply struct {
	Result     json.RawMessage   `json:"result"`
	Error      json.RawMessage   `json:"error"`
	HTTPStatus int               `json:"http_status"`
	Drop       bool              `json:"drop"`
	IfArgType  map[string]string `json:"if_arg_type"`
	Else       *mcpReply         `json:"else"`
}

type mcpCallSeen struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type mcpRequestSeen struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
}

type mcpSpec struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type mcpDocument struct {
	Specs       map[string]mcpSpec `json:"specs"`
	Result      string             `json:"result"`
	Status      string             `json:"status"`
	Files       []any              `json:"files"`
	ModelParts  []any              `json:"model_parts"`
	CallLog     []mcpCallSeen      `json:"call_log"`
	Initializes int                `json:"initializes"`
	HTTPLog     []mcpRequestSeen   `json:"http_log"`
	Error       *string            `json:"error"` // what the user is told of the connection, null when it stands
	Elapsed     float64            `json:"elapsed_s"`
}

// mcpCase lets the MCP client list the tools of a scripted server and call one, over real connections. Whatever host the case's URL
// names, its connections end at that server.
func mcpCase(ctx context.Context, c Case) (any, error) {
	var given mcpGiven
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, fmt.Errorf("given: %w", err)
	}
	script := &mcpScript{given: given}
	peer := httptest.NewServer(script)
	defer peer.Close()
	address := given.Connection.URL
	if address == "" {
		address = "http://mcp.test/mcp"
	}
	if _, err := url.Parse(address); err != nil {
		return nil, fmt.Errorf("connection url: %w", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", peer.Listener.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	client := mcp.New(mcp.Options{HTTP: &http.Client{Transport: transport}})
	defer client.Close()
	server := mcp.Server{
		ID: given.ServerID, URL: address, AuthType: given.Connection.AuthType, Key: given.Connection.Key, Headers: given.Connection.Headers,
		User: "user-1",
	}

	started := time.Now()
	doc := mcpDocument{Specs: map[string]mcpSpec{}, Files: []any{}, ModelParts: []any{}}
	if err := given.play(ctx, client, server, &doc); err != nil {
		text := err.Error()
		doc.Error = &text
	}
	doc.Elapsed = time.Since(started).Seconds()
	script.report(&doc)
	return doc, nil
}

// play lists and calls. Its error is one of the connection.
func (g mcpGiven) play(ctx context.Context, client *mcp.Client, server mcp.Server, doc *mcpDocument) error {
	listing, err := client.List(ctx, server)
	if err != nil {
		return err
	}
	var schema json.RawMessage
	for _, t := range listing.Tools {
		doc.Specs[t.Offered] = mcpSpec{Description: t.Description, Parameters: t.Parameters}
		if g.Call != nil && t.Name == g.Call.Name {
			schema = t.Parameters
		}
	}
	if g.Call == nil {
		return nil
	}
	result, err := client.Call(ctx, server, mcp.Request{Name: g.Call.Name, Arguments: g.Call.Arguments, Parameters: schema})
	if err != nil {
		result = mcp.Failure(err)
	}
	doc.Result, doc.Status = result.Content, result.Status
	for _, m := range result.Media {
		if m.Kept {
			doc.Files = append(doc.Files, map[string]any{"type": m.Type, "url": m.DataURI})
		}
		if m.Shown {
			doc.ModelParts = append(doc.ModelParts, map[string]any{"type": "input_image", "image_url": m.DataURI})
		}
	}
	return err
}

// mcpScript is the server: a well-behaved one with sessions, as far as the case says nothing else.
type mcpScript struct {
	given mcpGiven

	mu          sync.Mutex
	turn        map[string]int
	initializes int
	calls       []mcpCallSeen
	requests    []mcpRequestSeen
}

func (s *mcpScript) report(doc *mcpDocument) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc.Initializes, doc.CallLog, doc.HTTPLog = s.initializes, s.calls, s.requests
	if doc.CallLog == nil {
		doc.CallLog = []mcpCallSeen{}
	}
}

func (s *mcpScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers := map[string]string{}
	for name := range r.Header {
		headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	var msg struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Version   string          `json:"protocolVersion"`
		} `json:"params"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, mcpRequestSeen{Method: r.Method, Path: r.URL.Path, Headers: headers})
	s.mu.Unlock()
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if json.Unmarshal(body, &msg) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if msg.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reply, session, scripted := s.next(msg.Method, mcpCallSeen{Name: msg.Params.Name, Arguments: msg.Params.Arguments})
	switch {
	case reply.Drop:
		panic(http.ErrAbortHandler)
	case reply.HTTPStatus != 0:
		w.WriteHeader(reply.HTTPStatus)
		return
	case !scripted:
		reply = s.usual(msg.Method, msg.Params.Version)
	}
	if msg.Method == "initialize" {
		w.Header().Set("Mcp-Session-Id", session)
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": msg.ID}
	if reply.Error != nil {
		answer["error"] = reply.Error
	} else {
		answer["result"] = reply.Result
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that went away is none of the server's business
}

// next takes the answer whose turn it is, and names the session that an initialize opens.
func (s *mcpScript) next(method string, call mcpCallSeen) (reply mcpReply, session string, scripted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "initialize":
		s.initializes++
	case "tools/call":
		s.calls = append(s.calls, call)
	}
	session = fmt.Sprintf("session-%d", s.initializes)
	replies := s.given.Server[method]
	if len(replies) == 0 {
		return mcpReply{}, session, false
	}
	if s.turn == nil {
		s.turn = map[string]int{}
	}
	reply = replies[min(s.turn[method], len(replies)-1)]
	s.turn[method]++
	if reply.Else != nil && !argTypes(call.Arguments, reply.IfArgType) {
		return *reply.Else, session, true
	}
	return reply, session, true
}

// argTypes tells whether arguments have the JSON types that a case names.
func argTypes(arguments json.RawMessage, want map[string]string) bool {
	var args map[string]any
	if json.Unmarshal(arguments, &args) != nil {
		return false
	}
	for name, kind := range want {
		var ok bool
		switch v := args[name].(type) {
		case float64:
			ok = kind == "number" || kind == "integer" && v == float64(int64(v))
		case string:
			ok = kind == "string"
		case bool:
			ok = kind == "boolean"
		}
		if !ok {
			return false
		}
	}
	return true
}

// usual is what a server answers when the case says nothing.
func (s *mcpScript) usual(method, version string) mcpReply {
	answer := map[string]any{}
	switch method {
	case "initialize":
		answer["protocolVersion"] = version
		answer["capabilities"] = map[string]any{"tools": map[string]any{}}
		answer["serverInfo"] = map[string]any{"name": "field", "version": "1"}
	case "tools/list":
		answer["tools"] = s.given.Tools
	case "tools/call":
		answer["content"] = []any{map[string]any{"type": "text", "text": "ok"}}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return mcpReply{HTTPStatus: http.StatusInternalServerError}
	}
	return mcpReply{Result: raw}
}
