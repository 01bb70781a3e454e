package openai

import (
	"encoding/json"
	"strings"
)

// piece is one element of a delta's tool_calls.
type piece struct {
	index     int    // -1: none given
	id        string // "": none given
	name      string
	arguments json.RawMessage
}

// readPiece decodes an element of tool_calls; false when it is no object.
func readPiece(raw json.RawMessage) (piece, bool) {
	var c rawCall
	if !into(raw, &c) {
		return piece{}, false
	}
	p := piece{index: rawIndex(c.Index), id: rawText(c.ID)}
	var f rawCall
	if !into(c.Function, &f) {
		f = c // some servers leave the level out
	}
	p.name, p.arguments = rawText(f.Name), f.Arguments
	return p, true
}

// startsObject tells whether the piece's arguments begin an object of their own.
func (p piece) startsObject() bool {
	raw := strings.TrimLeft(rawText(p.arguments), " \t\r\n")
	return strings.HasPrefix(raw, "{") || len(p.arguments) > 0 && p.arguments[0] == '{'
}

// openCall is a call that is being assembled.
type openCall struct {
	index     int    // the provider's; -1: none
	wireID    string // the provider's id, which need not be unique
	id        string // ours, given when the call starts
	name      string
	arguments strings.Builder
	shape     objectScanner
	join      joiner
	started   bool   // it has an id, and a CallStarted or a Snapshot told of it
	shown     string // the name that was told
	frame     int    // the frame that touched it last
}

// callSet assembles calls. It is the place of all guesses about which piece belongs to which call.
type callSet struct {
	known map[string]bool
	open  []*openCall
}

// match finds the call that a piece continues, or nil for a new one. frame numbers the frame it came in.
//
// Where a provider keeps to the format, index decides alone. The rest is what they do instead: no index, index 0 for all, the
// index counting the chunks; no id, the id in every piece, a fresh id in every piece; the name in every piece.
func (s *callSet) match(p piece, frame int) *openCall {
	if len(s.open) == 0 {
		return nil
	}
	last := s.open[len(s.open)-1]
	var c *openCall
	switch {
	case p.index >= 0:
		if c = s.find(func(o *openCall) bool { return o.index == p.index }); c != nil {
			break
		}
		if p.name != "" {
			return nil
		}
		// A nameless piece under a new index cannot begin a call that anybody could run, so it continues one.
		if p.id != "" {
			c = s.find(func(o *openCall) bool { return o.wireID == p.id && !o.shape.complete() })
			return c
		}
		if last.index < 0 || !last.shape.complete() {
			return last
		}
		return nil
	case p.id != "":
		if c = s.find(func(o *openCall) bool { return o.wireID == p.id }); c != nil {
			break
		}
		c = last
	default:
		c = last
	}
	if !s.continues(c, p, frame) {
		return nil
	}
	return c
}

func (s *callSet) find(is func(*openCall) bool) *openCall {
	for i := len(s.open) - 1; i >= 0; i-- {
		if is(s.open[i]) {
			return s.open[i]
		}
	}
	return nil
}

// continues decides whether a piece that might belong to c does.
func (s *callSet) continues(c *openCall, p piece, frame int) bool {
	if p.id != "" && c.wireID != "" && p.id != c.wireID {
		if p.name == "" { // a server that makes up an id for every piece, unless a second object begins
			return !c.shape.complete() || !p.startsObject()
		}
		return p.name == c.name && c.shape.unfinished() && isSet(p.arguments) && !p.startsObject()
	}
	if p.name == "" {
		return true // a second object glued to the first is split off at the end
	}
	switch {
	case c.shape.complete():
		return p.name == c.name && (!p.startsObject() || s.repeats(c, p))
	case c.shape.unfinished():
		return p.name == c.name || s.known[c.name+p.name] || isSet(p.arguments) && !p.startsObject()
	}
	if c.frame == frame { // one delta lists whole calls
		return false
	}
	// No arguments yet: another name is the rest of this one, unless this one is complete.
	return p.name == c.name || !s.known[c.name] || s.known[c.name+p.name]
}

// repeats tells a last piece that says the whole call once more.
func (s *callSet) repeats(c *openCall, p piece) bool {
	return p.id != "" && p.id == c.wireID && p.name == c.name &&
		strings.TrimSpace(arguments(p.arguments, &joiner{})) == strings.TrimSpace(c.arguments.String())
}

// add takes a piece and returns the call it went to, whether that is new, and what was added to its arguments.
func (s *callSet) add(p piece, frame int) (c *openCall, isNew bool, added string) {
	c = s.match(p, frame)
	if c == nil {
		c = &openCall{index: p.index}
		if p.name == "" && len(s.open) > 0 { // a further object of the same tool
			c.name = s.open[len(s.open)-1].name
		}
		s.open = append(s.open, c)
		isNew = true
	}
	// The same call said once more is recognised before its arguments are appended.
	again := !isNew && c.shape.complete() && s.repeats(c, p)
	c.frame = frame
	if c.wireID == "" {
		c.wireID = p.id
	}
	if c.index < 0 {
		c.index = p.index
	}
	if c.shape.empty() || s.known[c.name+p.name] {
		c.name = s.joinName(c.name, p.name)
	}
	if !again {
		added = arguments(p.arguments, &c.join)
		c.arguments.WriteString(added)
		c.shape.feed(added)
	}
	return c, isNew, added
}

// joinName adds a piece of a name: the rest of it, the whole again, or the whole so far.
func (s *callSet) joinName(name, piece string) string {
	switch {
	case piece == "" || piece == name && !s.known[name+piece]:
		return name
	case name == "" || s.known[name+piece]:
		return name + piece
	case s.known[name]:
		return name
	case strings.HasPrefix(piece, name) || s.known[piece]:
		return piece
	}
	return name + piece
}

// objectScanner follows the nesting of arguments, to know whether they are complete without parsing them at every piece. It
// knows JSON's strings only; what it gets wrong about other notations is a guess gone wrong, not an error.
type objectScanner struct {
	begun, bad, quoted, escaped bool
	depth                       int
}

func (o *objectScanner) feed(text string) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case o.escaped:
			o.escaped = false
		case o.quoted:
			o.escaped = c == '\\'
			o.quoted = c != '"'
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '{' || c == '[':
			o.begun = true
			o.depth++
		case c == '}' || c == ']':
			o.depth--
		default:
			o.quoted = c == '"'
			o.bad = o.bad || o.depth <= 0
			o.begun = true
		}
	}
}

// empty: nothing but white space so far. complete: one or more whole objects. unfinished: the rest.
func (o *objectScanner) empty() bool      { return !o.begun }
func (o *objectScanner) complete() bool   { return o.begun && !o.bad && !o.quoted && o.depth == 0 }
func (o *objectScanner) unfinished() bool { return o.begun && !o.complete() }
