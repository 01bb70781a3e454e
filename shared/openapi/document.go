// Package openapi makes tools of an OpenAPI document and calls them.
//
// # What it promises
//
// Every operation of a document, 3.0 or 3.1, JSON or YAML, becomes one function with a name and a schema that providers accept;
// whatever is wrong with one operation stays with that one. References are resolved everywhere, circles end in an outline.
//
// A call sends each argument to where the document says, path, query, header, cookie or body, in the style that it says, and nothing
// else. A value cannot leave its place: path segments are encoded, headers and cookies hold no line breaks. What the connection
// sets (its key, its headers) cannot be set by a model.
//
// Numbers keep their digits and objects their order, in schemas, arguments and results.
//
// A document never makes this package call another host than the connection's own, and no external reference is fetched.
package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"toolrounds/shared/tool"
)

// Document is a parsed OpenAPI document. It is safe for concurrent use.
type Document struct {
	root       *object
	operations []*operation
	specs      func() []tool.Spec
}

// operation is one operation of a document, with what a call needs.
type operation struct {
	name    string // as models know it
	id      string // operationId, may be empty
	method  string // in capitals
	path    string // as in the document
	node    *object
	params  []param
	body    *body
	servers []any // of the operation or its path, nil when they have none
	shape   func() shape
}

// methods are those of OpenAPI, in the order in which operations of one path are offered when the document does not say.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// Parse reads a document, JSON or YAML. It fails only when there are no paths to be read.
func Parse(raw []byte) (*Document, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	var v any
	var err error
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '{' {
		if v, err = parseJSON(raw); err != nil {
			if other, yamlErr := parseYAML(raw); yamlErr == nil { // a flow mapping
				v, err = other, nil
			}
		}
	} else {
		v, err = parseYAML(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	root, ok := v.(*object)
	if !ok || root.object("paths") == nil && root.text("openapi") == "" {
		return nil, errors.New("this is no OpenAPI document")
	}
	d := &Document{root: root}
	d.read()
	d.specs = sync.OnceValue(func() []tool.Spec {
		all := make([]tool.Spec, len(d.operations))
		for i, op := range d.operations {
			all[i] = op.shape().spec
		}
		return all
	})
	return d, nil
}

// Title is the document's own name.
func (d *Document) Title() string { return d.root.object("info").text("title") }

// Description is what the document says of itself.
func (d *Document) Description() string { return d.root.object("info").text("description") }

// JSON is the document as compact JSON.
func (d *Document) JSON() []byte { return encode(d.root) }

// Specs are the functions, in the order of the document.
func (d *Document) Specs() []tool.Spec { return d.specs() }

// Named returns the name under which the operation of that operationId is offered; false when there is none.
func (d *Document) Named(operationID string) (string, bool) {
	for _, op := range d.operations {
		if op.id == operationID && op.id != "" {
			return op.name, true
		}
	}
	return "", false
}

func (d *Document) operation(name string) *operation {
	for _, op := range d.operations {
		if op.name == name {
			return op
		}
	}
	return nil
}

func (d *Document) read() {
	names := namer{}
	paths := d.root.object("paths")
	for _, path := range paths.each() {
		item := deref(d.root, paths.values[path])
		if item == nil || !strings.HasPrefix(path, "/") {
			continue
		}
		for _, key := range item.each() {
			node, ok := item.values[key].(*object)
			if !ok || !slices.Contains(methods, key) {
				continue
			}
			op := &operation{id: node.text("operationId"), method: strings.ToUpper(key), path: path, node: node}
			op.name = names.name(op)
			op.servers = node.list("servers")
			if op.servers == nil {
				op.servers = item.list("servers")
			}
			op.params = d.params(item, node)
			op.body = d.body(node)
			op.shape = sync.OnceValue(func() shape { return d.shape(op) })
			d.operations = append(d.operations, op)
		}
	}
}

// maxName is the longest name of a function that the common providers take.
const maxName = 64

// namer gives each operation a name of its own.
type namer map[string]bool

// name is the operationId, or what method and path say, in the letters that providers take.
func (n namer) name(op *operation) string {
	whole := op.id
	if strings.TrimSpace(whole) == "" {
		whole = strings.NewReplacer("{", "", "}", "").Replace(op.path)
	}
	name := safe(whole)
	if strings.TrimSpace(op.id) == "" || strings.Trim(name, "_") == "" {
		name = strings.Trim(strings.ToLower(op.method)+"_"+strings.Trim(name, "_"), "_")
	}
	if len(name) > maxName {
		name = cut(name, whole)
	}
	if n[name] {
		name = cut(name, op.method+" "+op.path)
	}
	n[name] = true
	return name
}

// cut makes a name short and its own, by a sum of what it stands for.
func cut(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	return name[:min(len(name), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}

// safe replaces what providers refuse in names of functions.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// base is the address that an operation's path is added to: that of the connection, or below it where the document's servers say so.
// Other hosts, and other paths of the same one, are not followed: the connection's address is the one that an administrator chose.
func (d *Document) base(op *operation, connection, document string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(connection, "/"))
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	servers := op.servers
	if servers == nil {
		servers = d.root.list("servers")
	}
	if len(servers) == 0 {
		return base, nil
	}
	server, _ := servers[0].(*object)
	from, err := url.Parse(document)
	if err != nil {
		return base, nil
	}
	at, err := from.Parse(expand(server))
	if err != nil || at.Scheme != base.Scheme || !strings.EqualFold(at.Host, base.Host) {
		return base, nil
	}
	path := strings.TrimRight(at.EscapedPath(), "/")
	if strings.HasPrefix(path, base.EscapedPath()+"/") && !strings.Contains(path, "/../") && !strings.HasSuffix(path, "/..") {
		below := *base
		below.Path, below.RawPath = strings.TrimRight(at.Path, "/"), strings.TrimRight(at.RawPath, "/")
		return &below, nil
	}
	return base, nil
}

// expand fills in the variables of a server's URL with their defaults.
func expand(server *object) string {
	u := server.text("url")
	variables := server.object("variables")
	for _, name := range variables.each() {
		v := variables.object(name)
		value := v.text("default")
		if value == "" {
			if choices := v.list("enum"); len(choices) > 0 {
				value, _ = choices[0].(string)
			}
		}
		u = strings.ReplaceAll(u, "{"+name+"}", value)
	}
	return u
}
