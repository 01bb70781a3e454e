package tool

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLiteralDepth bounds the nesting of a Python literal; Python's own parser gives up near there too.
const maxLiteralDepth = 200

// parseLiteral reads exactly one Python literal as ast.literal_eval does, as far as JSON can express it: dicts, lists, tuples
// (which become lists), strings, numbers, True, False, None. Sets, bytes and complex numbers are refused, because Python's
// json.dumps refuses them as well. JSON's own true, false and null are names to Python and refused.
func parseLiteral(text string) (any, error) {
	p := &literal{s: text}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.i < len(p.s) {
		return nil, errLiteral("text after the value")
	}
	return v, nil
}

func errLiteral(why string) error { return errors.New("python literal: " + why) }

// literal is the reader's position in the text.
type literal struct {
	s string
	i int
}

func (p *literal) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n\f", p.s[p.i]) >= 0 {
		p.i++
	}
}

// next skips white space and takes the byte c if it is next.
func (p *literal) next(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *literal) value(depth int) (any, error) {
	if depth > maxLiteralDepth {
		return nil, errLiteral("nested too deeply")
	}
	p.space()
	if p.i >= len(p.s) {
		return nil, errLiteral("ends too early")
	}
	switch c := p.s[p.i]; {
	case c == '{':
		p.i++
		return p.dict(depth + 1)
	case c == '[':
		p.i++
		list, _, err := p.items(']', depth+1)
		return list, err
	case c == '(':
		p.i++
		list, comma, err := p.items(')', depth+1)
		if err == nil && len(list) == 1 && !comma {
			return list[0], nil // parentheses around one value are no tuple
		}
		return list, err
	case c == '\'' || c == '"':
		return p.text()
	case c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+':
		return p.number()
	}
	return p.word()
}

// items reads values up to the closing bracket. comma says whether one stood anywhere, which makes (1,) a tuple.
func (p *literal) items(closing byte, depth int) (list []any, comma bool, err error) {
	list = []any{}
	for !p.next(closing) {
		if len(list) > 0 {
			if !p.next(',') {
				return nil, false, errLiteral("no comma between items")
			}
			comma = true
			if p.next(closing) {
				break
			}
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, false, err
		}
		list = append(list, v)
	}
	return list, comma, nil
}

func (p *literal) dict(depth int) (any, error) {
	o := newObject()
	for first := true; !p.next('}'); first = false {
		if !first {
			if !p.next(',') {
				return nil, errLiteral("no comma between members")
			}
			if p.next('}') {
				break
			}
		}
		k, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		key, err := keyText(k)
		if err != nil {
			return nil, err
		}
		if !p.next(':') {
			return nil, errLiteral("no colon after a key") // a set ends here as well
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
	}
	return o, nil
}

// keyText is what json.dumps makes of a dict's key.
func keyText(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(k), nil
	case json.Number:
		return k.String(), nil
	}
	return "", errLiteral("a key that is neither text nor a number")
}

// word reads True, False, None, or a string with a prefix such as r'...'.
func (p *literal) word() (any, error) {
	start := p.i
	for p.i < len(p.s) && (isLetter(p.s[p.i]) || p.s[p.i] == '_' || p.s[p.i] >= '0' && p.s[p.i] <= '9') {
		p.i++
	}
	word := p.s[start:p.i]
	switch word {
	case "True":
		return true, nil
	case "False":
		return false, nil
	case "None":
		return nil, nil
	case "u", "U", "r", "R":
		if p.i < len(p.s) && (p.s[p.i] == '\'' || p.s[p.i] == '"') {
			p.i = start
			return p.text()
		}
	}
	return nil, errLiteral("unknown name")
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// number reads an integer of any size or a float, with any signs in front of it, and normalises it to JSON: 0xff, 1_000, 1. and
// .5 are numbers to Python only.
func (p *literal) number() (any, error) {
	negative := false
	for p.i < len(p.s) && (p.s[p.i] == '-' || p.s[p.i] == '+' || p.s[p.i] == ' ') {
		negative = negative != (p.s[p.i] == '-')
		p.i++
	}
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		// A sign belongs to the number only as that of an exponent.
		sign := (c == '+' || c == '-') && p.i > start && p.s[p.i-1]|0x20 == 'e' && !strings.HasPrefix(strings.ToLower(p.s[start:p.i]), "0x")
		if !sign && !isLetter(c) && (c < '0' || c > '9') && c != '.' && c != '_' {
			break
		}
		p.i++
	}
	word := p.s[start:p.i]
	if word == "" || word[0] == '_' || isLetter(word[0]) {
		return nil, errLiteral("a sign without a number")
	}
	sign := ""
	if negative {
		sign = "-"
	}
	if n, ok := new(big.Int).SetString(word, 0); ok {
		if oldOctal(word) {
			return nil, errLiteral("a number that starts with 0")
		}
		return json.Number(sign + n.String()), nil
	}
	if strings.ContainsAny(word, "xXpPiInN") || !strings.ContainsAny(word, ".eE") { // Go reads hexadecimal floats, infinity and NaN; Python's literals do not
		return nil, errLiteral("not a number")
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(word, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || strings.Contains(word, "__") || strings.HasSuffix(word, "_") {
		return nil, errLiteral("not a number")
	}
	return json.Number(sign + floatText(f)), nil
}

// oldOctal tells integers such as 010, which Go reads as octal and Python refuses. Zeros alone are zero to both.
func oldOctal(word string) bool {
	return len(word) > 1 && word[0] == '0' && word[1] >= '0' && word[1] <= '9' && strings.Trim(word, "0_") != ""
}

// floatText is Python's repr of a float that is neither negative, infinite nor NaN.
func floatText(f float64) string {
	if f != 0 && (f < 1e-4 || f >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// text reads one or more adjacent string literals, which Python joins.
func (p *literal) text() (any, error) {
	var b strings.Builder
	for {
		raw := false
		if c := p.s[p.i]; isLetter(c) {
			raw = c|0x20 == 'r'
			p.i++
		}
		if err := p.quoted(&b, raw); err != nil {
			return nil, err
		}
		mark := p.i
		p.space()
		if p.i+1 < len(p.s) && strings.IndexByte("uUrR", p.s[p.i]) >= 0 && (p.s[p.i+1] == '\'' || p.s[p.i+1] == '"') {
			continue
		}
		if p.i < len(p.s) && (p.s[p.i] == '\'' || p.s[p.i] == '"') {
			continue
		}
		p.i = mark
		return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
	}
}

// quoted reads one string literal from its opening quote on.
func (p *literal) quoted(b *strings.Builder, raw bool) error {
	quote := p.s[p.i : p.i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.s[p.i:], triple) {
		quote = triple
	}
	p.i += len(quote)
	for p.i < len(p.s) {
		if strings.HasPrefix(p.s[p.i:], quote) {
			p.i += len(quote)
			return nil
		}
		c := p.s[p.i]
		switch {
		case c == '\n' && len(quote) == 1:
			return errLiteral("a line ends within a string")
		case c == '\\' && p.i+1 < len(p.s) && raw:
			b.WriteString(p.s[p.i : p.i+2])
			p.i += 2
		case c == '\\' && p.i+1 < len(p.s):
			if err := p.escape(b); err != nil {
				return err
			}
		default:
			b.WriteByte(c)
			p.i++
		}
	}
	return errLiteral("a string does not end")
}

// escape reads a backslash and what belongs to it. As in Python, a backslash before anything unknown stays.
func (p *literal) escape(b *strings.Builder) error {
	c := p.s[p.i+1]
	p.i += 2
	if at := strings.IndexByte("\\'\"abfnrtv", c); at >= 0 {
		b.WriteByte("\\'\"\a\b\f\n\r\t\v"[at])
		return nil
	}
	switch {
	case c == '\n':
	case c >= '0' && c <= '7':
		n := rune(c - '0')
		for k := 0; k < 2 && p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '7'; k++ {
			n = n*8 + rune(p.s[p.i]-'0')
			p.i++
		}
		b.WriteRune(n)
	case c == 'x':
		return p.hex(b, 2)
	case c == 'u':
		return p.hex(b, 4)
	case c == 'U':
		return p.hex(b, 8)
	case c == 'N':
		return errLiteral("a character given by its name")
	default:
		b.WriteByte('\\')
		p.i--
	}
	return nil
}

// hex reads exactly n hexadecimal digits as one character; half a surrogate pair becomes U+FFFD unless its other half follows.
func (p *literal) hex(b *strings.Builder, n int) error {
	r, ok := p.digits(p.i, n)
	if !ok || r > utf8.MaxRune {
		return errLiteral("a broken escape")
	}
	p.i += n
	if n == 4 && r >= 0xD800 && r < 0xDC00 && strings.HasPrefix(p.s[p.i:], `\u`) {
		if low, ok := p.digits(p.i+2, 4); ok && low >= 0xDC00 && low < 0xE000 {
			r = 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
			p.i += 6
		}
	}
	b.WriteRune(rune(r)) // WriteRune turns half a pair into U+FFFD
	return nil
}

func (p *literal) digits(at, n int) (uint64, bool) {
	if at+n > len(p.s) {
		return 0, false
	}
	v, err := strconv.ParseUint(p.s[at:at+n], 16, 32)
	return v, err == nil
}
