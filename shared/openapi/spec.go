package openapi

import (
	"regexp"
	"slices"
	"strings"

	"toolrounds/shared/tool"
)

// param is a parameter of an operation that is not in its body.
type param struct {
	name     string // on the wire
	in       string // path, query, header or cookie
	required bool
	style    string
	explode  bool
	json     bool // the value travels as JSON text
	node     *object
	schema   any
}

// body is what an operation takes as its request's body, of the kind that is sent.
type body struct {
	required bool
	kind     string // media type
	node     *object
	schema   any
}

// never are the headers that a model does not set: those that OpenAPI itself leaves out, and those that belong to the connection.
var never = []string{
	"accept", "content-type", "authorization", "host", "cookie", "content-length", "transfer-encoding", "connection", "te", "trailer",
	"upgrade", "proxy-authorization", "expect",
}

// params are the parameters of a path and of its operation, which win.
func (d *Document) params(item, node *object) []param {
	var all []param
	for _, v := range append(slices.Clone(item.list("parameters")), node.list("parameters")...) {
		o := deref(d.root, v)
		p := param{name: o.text("name"), in: o.text("in"), required: o.flag("required"), style: o.text("style"), node: o, schema: o.get("schema")}
		if p.name == "" || !slices.Contains([]string{"path", "query", "header", "cookie"}, p.in) {
			continue
		}
		if p.in == "header" && slices.Contains(never, strings.ToLower(p.name)) {
			continue
		}
		if content := o.object("content"); len(content.each()) > 0 {
			p.json, p.schema = true, content.object(content.keys[0]).get("schema")
		}
		if p.style == "" {
			p.style = map[string]string{"path": "simple", "header": "simple", "query": "form", "cookie": "form"}[p.in]
		}
		p.explode = p.style == "form" || p.style == "deepObject"
		if given, ok := o.get("explode").(bool); ok {
			p.explode = given
		}
		p.required = p.required || p.in == "path"
		if at := slices.IndexFunc(all, func(q param) bool { return q.name == p.name && q.in == p.in }); at >= 0 {
			all[at] = p
		} else {
			all = append(all, p)
		}
	}
	return all
}

// body finds the kind of body to send: JSON before forms before whatever there is.
func (d *Document) body(node *object) *body {
	o := deref(d.root, node.get("requestBody"))
	content := o.object("content")
	best, rank := "", 9
	for _, kind := range content.each() {
		plain := mediaType(kind)
		r := 5
		switch {
		case plain == "application/json":
			r = 0
		case isJSON(plain):
			r = 1
		case plain == "application/x-www-form-urlencoded":
			r = 2
		case plain == "multipart/form-data":
			r = 3
		case strings.HasPrefix(plain, "text/"):
			r = 4
		}
		if r < rank {
			best, rank = kind, r
		}
	}
	if best == "" {
		return nil
	}
	media := deref(d.root, content.get(best))
	kind := mediaType(best)
	if kind == "*/*" || kind == "application/*" {
		kind = "application/json"
	}
	return &body{required: o.flag("required"), kind: kind, node: media, schema: media.get("schema")}
}

func mediaType(kind string) string {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func isJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// shape is how models see an operation, and how what they give goes back onto the wire.
type shape struct {
	spec   tool.Spec
	names  names
	fields *object // of the body, nil when it has no fields that are known
}

func (d *Document) shape(op *operation) shape {
	s := &schemas{root: d.root}
	made := shape{names: names{byWire: map[string]string{}, taken: map[string]bool{}}}
	var whole *object
	if op.body != nil {
		whole = s.clean(op.body.schema, nil)
		made.fields = s.fields(whole)
	}
	made.names.give(op.params, made.fields)
	properties, required := newObject(), []any{}
	require := func(wire string) {
		if name := any(made.names.offered(wire)); !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	add := func(wire string, schema any) {
		if name := made.names.offered(wire); !properties.has(name) {
			properties.set(name, schema)
		}
	}
	for _, p := range op.params {
		add(p.name, s.param(p))
		if p.required {
			require(p.name)
		}
	}
	if op.body != nil && made.fields == nil {
		add(wholeBody, whole)
		if op.body.required {
			require(wholeBody)
		}
	}
	for _, wire := range made.fields.object("properties").each() {
		add(wire, made.fields.object("properties").values[wire])
	}
	for _, wire := range made.fields.list("required") {
		require(wire.(string))
	}
	description := ""
	for _, text := range []string{op.node.text("description"), op.node.text("summary"), op.method + " " + op.path} {
		if strings.TrimSpace(description) == "" {
			description = text
		}
	}
	made.spec = tool.Spec{Name: op.name, Description: description, Parameters: encode(newObject(
		"type", "object", "properties", properties, "required", required,
	))}
	return made
}

// param is the schema of a parameter as models see it (spec/http.md H).
func (s *schemas) param(p param) *object {
	given, _ := p.schema.(*object)
	clean := s.clean(p.schema, nil)
	made := newObject()
	t := clean.get("type")
	if t == nil {
		t = "string"
	}
	description := given.text("description")
	if description == "" {
		description = p.node.text("description")
	}
	values := clean.list("enum")
	inline := given.text("$ref") == ""
	if len(values) > 0 && inline {
		var texts []string
		for _, v := range values {
			texts = append(texts, plainText(v))
		}
		description += ". Possible values: " + strings.Join(texts, ", ")
	}
	if clean.has("anyOf") || clean.has("oneOf") {
		made = clean.clone()
	} else {
		made.set("type", t)
	}
	made.set("description", description)
	for _, key := range []string{"items", "properties", "required", "additionalProperties"} {
		if clean.has(key) {
			made.set(key, clean.values[key])
		}
	}
	if len(values) > 0 && inline {
		made.set("enum", values)
	}
	return made
}

// fields are the fields of a body that is an object, those of all its alternatives together; nil when it is something else, or has no
// fields that are known.
func (s *schemas) fields(schema *object) *object {
	made := schema.clone()
	for _, key := range []string{"anyOf", "oneOf"} {
		var together *object
		for _, part := range schema.list(key) {
			fields := s.fields(part.(*object))
			if fields == nil {
				return nil
			}
			if together == nil {
				together = fields.clone()
				continue
			}
			together = either(together, fields)
		}
		if together != nil {
			made.remove(key)
			made = merge(made, together)
		}
	}
	if len(made.object("properties").each()) == 0 || made.has("type") && made.text("type") != "object" {
		return nil
	}
	return tidy(made)
}

// either has the fields of two alternatives and requires what both require.
func either(a, b *object) *object {
	made := newObject()
	properties := a.object("properties").clone()
	for _, name := range b.object("properties").each() {
		v := b.object("properties").values[name]
		had := properties.get(name)
		switch {
		case !properties.has(name):
			properties.set(name, v)
		case string(encode(had)) != string(encode(v)):
			choices := properties.object(name).list("anyOf")
			if choices == nil {
				choices = []any{had}
			}
			properties.set(name, newObject("anyOf", append(slices.Clip(choices), v)))
		}
	}
	made.set("properties", properties)
	var required []any
	for _, name := range a.list("required") {
		if slices.Contains(b.list("required"), name) {
			required = append(required, name)
		}
	}
	made.set("required", required)
	return made
}

// wholeBody stands for the argument that is the whole body where it has no fields. No name on the wire is like it.
const wholeBody = "\x00body"

// names are the arguments by their names on the wire.
type names struct {
	byWire map[string]string
	taken  map[string]bool
}

var goodArgument = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// offered is the name under which models give what is called wire in the document: the same, in letters that providers take.
func (n names) offered(wire string) string {
	if name, ok := n.byWire[wire]; ok {
		return name
	}
	name := strings.TrimPrefix(wire, "\x00")
	if !goodArgument.MatchString(name) {
		name = strings.Trim(safe(name), "_")
		if name == "" || len(name) > maxName {
			name = cut(name, wire)
		}
	}
	if n.taken[name] {
		name = cut(name, wire)
	}
	n.byWire[wire], n.taken[name] = name, true
	return name
}

// give gives out the names of an operation's arguments, the good ones first, always in the same way.
func (n names) give(params []param, fields *object) {
	var wires []string
	for _, p := range params {
		wires = append(wires, p.name)
	}
	wires = append(wires, fields.object("properties").each()...)
	for _, good := range []bool{true, false} {
		for _, w := range wires {
			if goodArgument.MatchString(w) == good {
				n.offered(w)
			}
		}
	}
}
