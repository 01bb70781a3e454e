package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON into a tree. The decoder of the standard library, read token by token, keeps the order of keys as well, but takes
// several times as long: seconds for the documents of large APIs, before a run can begin.
type scanner struct {
	text string
	at   int
	keys map[string]string // one copy of each key: a document repeats a few of them very often
}

// parseJSON reads exactly one JSON value.
func parseJSON(raw []byte) (any, error) {
	s := scanner{text: string(raw), keys: map[string]string{}}
	v, err := s.value(0)
	if err != nil {
		return nil, err
	}
	if s.space(); s.at < len(s.text) {
		return nil, s.wrong("more than one JSON value")
	}
	return v, nil
}

func (s *scanner) wrong(why string) error { return fmt.Errorf("%s at byte %d", why, s.at) }

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\r' || s.text[s.at] == '\t') {
		s.at++
	}
}

// next skips white space and takes the byte if it comes next.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	s.space()
	if s.at >= len(s.text) {
		return nil, s.wrong("unexpected end")
	}
	switch c := s.text[s.at]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.list(depth)
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
		if strings.HasPrefix(s.text[s.at:], word) {
			s.at += len(word)
			return v, nil
		}
	}
	return nil, s.wrong("unexpected character")
}

func (s *scanner) list(depth int) (any, error) {
	s.at++
	list := []any{}
	if s.next(']') {
		return list, nil
	}
	for {
		v, err := s.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch {
		case s.next(','):
		case s.next(']'):
			return list, nil
		default:
			return nil, s.wrong("a list that goes on without a comma")
		}
	}
}

func (s *scanner) object(depth int) (any, error) {
	s.at++
	o := newObject()
	if s.next('}') {
		return o, nil
	}
	for {
		if s.space(); s.at >= len(s.text) || s.text[s.at] != '"' {
			return nil, s.wrong("a key that is no string")
		}
		key, err := s.str()
		if err != nil {
			return nil, err
		}
		if known, ok := s.keys[key]; ok {
			key = known
		} else {
			key = strings.Clone(key)
			s.keys[key] = key
		}
		if !s.next(':') {
			return nil, s.wrong("a key without a colon")
		}
		v, err := s.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
		switch {
		case s.next(','):
		case s.next('}'):
			return o, nil
		default:
			return nil, s.wrong("an object that goes on without a comma")
		}
	}
}

// str reads a string. One with escapes is left to the standard library, which knows about halves of characters.
func (s *scanner) str() (string, error) {
	start := s.at
	s.at++
	plain := true
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			if plain {
				return valid(s.text[start+1 : s.at-1]), nil
			}
			var made string
			err := json.Unmarshal([]byte(s.text[start:s.at]), &made)
			return made, err
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return "", s.wrong("a control character in a string")
		}
		s.at++
	}
	return "", errors.New("a string without an end")
}

// valid replaces each byte that is no UTF-8.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// number reads a number as it is written.
func (s *scanner) number() (any, error) {
	start := s.at
	for s.at < len(s.text) && strings.IndexByte("+-.0123456789Ee", s.text[s.at]) >= 0 {
		s.at++
	}
	text := s.text[start:s.at]
	if !isNumber(text) {
		s.at = start
		return nil, s.wrong("a number that is none")
	}
	return json.Number(text), nil
}

// isNumber tells whether a text is a number as JSON writes them.
func isNumber(s string) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	s = strings.TrimPrefix(s, "-")
	if rest, zero := strings.CutPrefix(s, "0"); zero {
		s = rest
	} else if !digits() {
		return false
	}
	if rest, point := strings.CutPrefix(s, "."); point {
		if s = rest; !digits() {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}
