package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// maxName is how long a name of a function may be for the common providers.
const maxName = 64

// names makes the names that models see. They are unique, and the same for the same list of tools.
type names struct {
	server string
	taken  map[string]bool
}

// offered returns SERVERID_name. A name that is too long, or that is taken because characters had to be replaced, is cut to make room
// for 8 hex digits of the SHA-256 of the whole name.
func (n *names) offered(name string) string {
	whole := n.server + "_" + name
	short := safe(whole)
	if len(short) > maxName || n.taken[short] {
		sum := sha256.Sum256([]byte(whole))
		short = short[:min(len(short), 55)] + "_" + hex.EncodeToString(sum[:4])
	}
	n.taken[short] = true
	return short
}

// safe replaces what providers refuse in a name.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// passes tells whether a filter lets a tool through.
func passes(filter []string, name string) bool {
	var allowed []string
	for _, f := range filter {
		f = strings.TrimSpace(f)
		if f == "" {
			continue
		}
		if blocked, ok := strings.CutPrefix(f, "!"); ok {
			if blocked == name {
				return false
			}
			continue
		}
		allowed = append(allowed, f)
	}
	return len(allowed) == 0 || slices.Contains(allowed, name)
}

// parameters makes a server's schema one that providers take: an object with a type and properties. All else stays as it came.
func parameters(schema json.RawMessage) json.RawMessage {
	list, err := members(schema)
	if err != nil {
		list = nil
	}
	if get(list, "type") == nil {
		list = append([]member{{"type", json.RawMessage(`"object"`)}}, list...)
	}
	if first(get(list, "properties")) != '{' {
		list = slices.DeleteFunc(list, func(m member) bool { return m.key == "properties" })
		list = append(list, member{"properties", json.RawMessage("{}")})
	}
	var b bytes.Buffer
	if err := json.Compact(&b, object(list)); err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return b.Bytes()
}
