// Package server is the tools that live elsewhere: the connections to OpenAPI, MCP and terminal servers that administrators make, who may
// use which, and the offers and calls that a run makes of them.
//
// # What it promises
//
// A list of connections is stored as one text that is encrypted as a whole, so neither keys nor headers nor addresses lie open in the
// table. It leaves here in full for administrators only; what others see of a connection is its id, its name and its description.
//
// Access is checked with every read: when the tools are offered and again when one is called, from the list as it is then. A
// connection that was taken away, switched off or is not granted any more refuses the next call of a running answer.
//
// A server that is down, slow or talks nonsense costs its own tools and nothing else.
//
// The measured behaviour that it follows is spec/http.md H.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"toolrounds/shared/access"
	"toolrounds/shared/mcp"
	"toolrounds/shared/openapi"
	"toolrounds/shared/table"
)

// Groups tells which groups an account is in; access.Accounts does.
type Groups interface {
	Groups(ctx context.Context, userID string) ([]string, error)
}

// Sessions makes a session of an account, for servers that are told who asks by the user's own; access.Accounts does.
type Sessions interface {
	Session(ctx context.Context, u access.User) (access.Session, error)
}

// Sealer encrypts connections; see access.Sealer.
type Sealer interface {
	Seal(ctx context.Context, plain []byte, about string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, about string) ([]byte, error)
}

// Service knows the connections. All fields are required.
type Service struct {
	Table    table.Table
	Seal     Sealer
	Groups   Groups
	Sessions Sessions
	OpenAPI  *openapi.Client
	MCP      *mcp.Client
	HTTP     *http.Client // to terminals; it decides which addresses may be reached
}

// Kind is one of the two lists of connections.
type Kind string

// The kinds.
const (
	Tools     Kind = "tool_servers"
	Terminals Kind = "terminal_servers"
)

// The types of tool servers.
const (
	typeOpenAPI = "openapi"
	typeMCP     = "mcp"
)

// Connection is one configured server.
type Connection struct {
	ID, Name, Description string
	Type                  string // openapi, mcp or terminal
	URL, Path             string
	AuthType, Key         string
	Headers               map[string]string
	Enabled               bool
	Grants                []access.Grant
	Filter                []string // names of functions that are offered, "!name" those that are not
	Inline                string   // the OpenAPI document itself
	ChatUploads           string   // of a terminal
}

// ToolID is the id under which requests ask for the connection's tools.
func (c Connection) ToolID() string {
	if c.Type == typeMCP {
		return "server:mcp:" + c.ID
	}
	return "server:" + c.ID
}

func attrAbout(k Kind) string { return "CONFIG/" + string(k) }

// attrSealed holds a list of connections.
const attrSealed = "sealed"

// List is the list of connections as administrators gave it.
func (s *Service) List(ctx context.Context, k Kind) ([]map[string]any, error) {
	item, ok, err := table.One(ctx, s.Table, table.Config(string(k)))
	if err != nil {
		return nil, fmt.Errorf("read connections: %w", err)
	}
	list := []map[string]any{}
	sealed, _ := item.Attr[attrSealed].(table.Blob)
	if !ok || sealed == nil {
		return list, nil
	}
	plain, err := s.Seal.Open(ctx, sealed, attrAbout(k))
	if err != nil {
		return nil, fmt.Errorf("open connections: %w", err)
	}
	if err := table.Decode(plain, &list); err != nil {
		return nil, fmt.Errorf("decode connections: %w", err)
	}
	return list, nil
}

// Set replaces the list of connections.
func (s *Service) Set(ctx context.Context, k Kind, list []map[string]any) error {
	sealed, err := s.Seal.Seal(ctx, table.MustJSON(list), attrAbout(k))
	if err != nil {
		return fmt.Errorf("seal connections: %w", err)
	}
	item := table.Item{Key: table.Config(string(k)), Attr: map[string]any{attrSealed: table.Blob(sealed)}}
	if _, err := s.Table.Apply(ctx, table.Put(item)); err != nil {
		return fmt.Errorf("store connections: %w", err)
	}
	return nil
}

func (s *Service) connections(ctx context.Context, k Kind) ([]Connection, error) {
	list, err := s.List(ctx, k)
	if err != nil {
		return nil, err
	}
	all := make([]Connection, len(list))
	for i, doc := range list {
		all[i] = Parse(k, doc, i)
	}
	return all, nil
}

// Parse reads a connection as it was given; place is where it stands in its list, the id of those that have no other.
func Parse(k Kind, doc map[string]any, place int) Connection {
	config, info := object(doc, "config"), object(doc, "info")
	c := Connection{
		URL: text(doc, "url"), Path: text(doc, "path"), AuthType: text(doc, "auth_type"), Key: text(doc, "key"), Headers: map[string]string{},
		Grants: grants(config["access_grants"]), Filter: words(config["function_name_filter_list"]),
	}
	for name, v := range object(doc, "headers") {
		c.Headers[name] = fmt.Sprint(v)
	}
	if k == Terminals {
		c.Type, c.ID, c.Name = "terminal", text(doc, "id"), text(doc, "name")
		c.Enabled = doc["enabled"] != false
		c.ChatUploads = text(config, "chat_uploads")
		return c
	}
	c.Type, c.ID, c.Name, c.Description = text(doc, "type"), text(info, "id"), text(info, "name"), text(info, "description")
	if c.Type == "" {
		c.Type = typeOpenAPI
	}
	if c.ID == "" {
		c.ID = strconv.Itoa(place)
	}
	c.Enabled, _ = config["enable"].(bool)
	if text(doc, "spec_type") == "json" {
		c.Inline = text(doc, "spec")
	}
	return c
}

// granted keeps the connections that are switched on and that the user may use, reading the user's groups only if they matter.
func (s *Service) granted(ctx context.Context, u access.User, all []Connection) ([]Connection, error) {
	var groups []string
	for _, c := range all {
		if access.NeedsGroups(u, "", c.Grants) {
			var err error
			if groups, err = s.Groups.Groups(ctx, u.ID); err != nil {
				return nil, fmt.Errorf("read groups: %w", err)
			}
			break
		}
	}
	kept := []Connection{}
	for _, c := range all {
		if c.Enabled && access.Allows(u, groups, "", c.Grants, access.Read) {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// usable are the tool servers that the user may use.
func (s *Service) usable(ctx context.Context, u access.User) ([]Connection, error) {
	all, err := s.connections(ctx, Tools)
	if err != nil {
		return nil, err
	}
	return s.granted(ctx, u, all)
}

// find returns the first of the connections of that tool id that the user may use; false when there is none.
func (s *Service) find(ctx context.Context, u access.User, toolID string) (Connection, bool, error) {
	all, err := s.usable(ctx, u)
	if err != nil {
		return Connection{}, false, err
	}
	i := slices.IndexFunc(all, func(c Connection) bool { return c.ToolID() == toolID })
	if i < 0 {
		return Connection{}, false, nil
	}
	return all[i], true, nil
}

func text(m map[string]any, key string) string { s, _ := m[key].(string); return s }

func object(m map[string]any, key string) map[string]any {
	o, _ := m[key].(map[string]any)
	return o
}

func grants(v any) []access.Grant {
	var all []access.Grant
	raw, err := json.Marshal(v)
	if err != nil || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// words is a list of names, given as one or as a text with commas.
func words(v any) []string {
	var all []string
	switch v := v.(type) {
	case string:
		all = strings.Split(v, ",")
	case []any:
		for _, w := range v {
			if s, ok := w.(string); ok {
				all = append(all, s)
			}
		}
	}
	var kept []string
	for _, w := range all {
		if w = strings.TrimSpace(w); w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// passes tells whether a filter lets a function through.
func passes(filter []string, name string) bool {
	some := false
	for _, f := range filter {
		if blocked, no := strings.CutPrefix(f, "!"); no {
			if strings.TrimSpace(blocked) == name {
				return false
			}
			continue
		}
		some = true
	}
	return !some || slices.Contains(filter, name)
}
