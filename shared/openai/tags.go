package openai

import (
	"strings"
	"unicode"
)

// maxTag bounds the length of a start tag with its attributes; a longer one is text.
const maxTag = 512

// segment is what a piece of text turns out to be.
type segment struct {
	kind       segmentKind
	text       string            // plain, inside
	tags       [2]string         // opened
	attributes map[string]string // opened
}

type segmentKind int

const (
	plain  segmentKind = iota // text of the answer
	opened                    // a start tag
	inside                    // reasoning between tags
	closed                    // an end tag
)

// tagScanner finds reasoning tags in text that comes in pieces. What may be the beginning of a tag is held back until it is
// known, so no half tag is ever shown. White space around reasoning belongs to neither it nor the answer and is dropped.
type tagScanner struct {
	tags    [][2]string
	held    string
	in      bool
	current [2]string // the tags that enclose what comes, while in
	trim    bool      // white space that comes next is dropped
}

// feed takes a piece.
func (s *tagScanner) feed(piece string) []segment {
	text := s.held + piece
	s.held = ""
	var out []segment
	for text != "" {
		if s.trim {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
			if text == "" {
				break
			}
		}
		var rest string
		var found []segment
		if s.in {
			found, rest = s.scanInside(text)
		} else {
			found, rest = s.scanPlain(text)
		}
		out = append(out, found...)
		text = rest
	}
	return out
}

// flush gives up waiting for the rest of a tag.
func (s *tagScanner) flush() []segment {
	held := s.held
	s.held = ""
	if held == "" {
		return nil
	}
	s.trim = false
	if s.in {
		return []segment{{kind: inside, text: held}}
	}
	return []segment{{kind: plain, text: held}}
}

// leave ends reasoning that no end tag has ended.
func (s *tagScanner) leave() { s.in, s.trim = false, false }

// scanPlain reads up to and with the first start tag.
func (s *tagScanner) scanPlain(text string) (found []segment, rest string) {
	for i := range text {
		tags, attributes, length, maybe := s.startTag(text[i:])
		if length == 0 && !maybe {
			continue
		}
		if i > 0 {
			s.trim = false
			found = append(found, segment{kind: plain, text: text[:i]})
		}
		if maybe {
			s.held = text[i:]
			return found, ""
		}
		s.in, s.current, s.trim = true, tags, true
		return append(found, segment{kind: opened, tags: tags, attributes: attributes}), text[i+length:]
	}
	s.trim = false
	return []segment{{kind: plain, text: text}}, ""
}

// scanInside reads up to and with the end tag.
func (s *tagScanner) scanInside(text string) (found []segment, rest string) {
	end := s.current[1]
	at := strings.Index(text, end)
	keep := at
	if at < 0 {
		keep = len(text) - overlap(text, end)
		s.held = text[keep:]
	}
	if keep > 0 {
		s.trim = false
		found = append(found, segment{kind: inside, text: text[:keep]})
	}
	if at < 0 {
		return found, ""
	}
	s.in, s.trim = false, true
	return append(found, segment{kind: closed}), text[at+len(end):]
}

// startTag tells whether text begins with a start tag of the given length, or may begin with one when more comes.
func (s *tagScanner) startTag(text string) (tags [2]string, attributes map[string]string, length int, maybe bool) {
	for _, pair := range s.tags {
		start := pair[0]
		switch {
		case start == "" || pair[1] == "":
		case strings.HasPrefix(text, start):
			return pair, map[string]string{}, len(start), false
		case strings.HasPrefix(start, text):
			maybe = true
		case start[0] == '<' && strings.HasSuffix(start, ">") && strings.HasPrefix(text, start[:len(start)-1]):
			inner := text[len(start)-1:]
			if first, _ := firstRune(inner); !unicode.IsSpace(first) {
				continue
			}
			end := strings.IndexByte(inner, '>')
			if end >= 0 && end <= maxTag && !strings.ContainsAny(inner[:end], "<\n\r") {
				return pair, readAttributes(inner[:end]), len(start) - 1 + end + 1, false
			}
			if end < 0 && len(inner) <= maxTag && !strings.ContainsAny(inner, "<\n\r") {
				maybe = true
			}
		}
	}
	return [2]string{}, nil, 0, maybe
}

func firstRune(s string) (rune, bool) {
	for _, r := range s {
		return r, true
	}
	return 0, false
}

// overlap is the length of the longest end of text that is a beginning of tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasPrefix(tag, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// readAttributes reads name="value" pairs; anything else is skipped.
func readAttributes(s string) map[string]string {
	attributes := map[string]string{}
	for {
		before, after, found := strings.Cut(s, `="`)
		if !found {
			return attributes
		}
		value, rest, found := strings.Cut(after, `"`)
		if !found {
			return attributes
		}
		fields := strings.Fields(before)
		if len(fields) > 0 {
			attributes[fields[len(fields)-1]] = value
		}
		s = rest
	}
}
