package asl

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// undefined is what a path gives that leads nowhere; an object leaves it out.
type undefined struct{}

// evaluate gives the value of a text: of the expression between {% and %}, or the text itself.
func evaluate(text string, states map[string]any) (any, error) {
	p := parser{rest: expression(text)}
	if p.rest == "" {
		return text, nil
	}
	value, err := p.comparison()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("%s: %q is not understood", text, p.rest)
	}
	v, err := value(states)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return v, nil
}

// expression is what stands between {% and %}, "" where there is none.
func expression(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{%") || !strings.HasSuffix(text, "%}") {
		return ""
	}
	return strings.TrimSpace(text[2 : len(text)-2])
}

// term is a part of an expression; it is given $states.
type term func(states map[string]any) (any, error)

type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace) }

func (p *parser) take(token string) bool {
	p.space()
	if !strings.HasPrefix(p.rest, token) {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

func (p *parser) comparison() (term, error) {
	left, err := p.concatenation()
	if err != nil || !p.take("=") {
		return left, err
	}
	right, err := p.concatenation()
	if err != nil {
		return nil, err
	}
	return func(s map[string]any) (any, error) {
		a, err := left(s)
		if err != nil {
			return nil, err
		}
		b, err := right(s)
		return reflect.DeepEqual(a, b), err
	}, nil
}

func (p *parser) concatenation() (term, error) {
	first, err := p.primary()
	if err != nil {
		return nil, err
	}
	parts := []term{first}
	for p.take("&") {
		next, err := p.primary()
		if err != nil {
			return nil, err
		}
		parts = append(parts, next)
	}
	if len(parts) == 1 {
		return first, nil
	}
	return func(s map[string]any) (any, error) {
		var b strings.Builder
		for _, part := range parts {
			v, err := part(s)
			if err != nil {
				return nil, err
			}
			if _, none := v.(undefined); !none {
				fmt.Fprint(&b, v)
			}
		}
		return b.String(), nil
	}, nil
}

func (p *parser) primary() (term, error) {
	switch p.space(); {
	case p.take("$states"):
		return p.path(), nil
	case p.take("$merge("):
		return p.call(merge)
	case p.take("$substring("):
		return p.call(substring)
	case p.take("["):
		list, err := p.list("]")
		return func(s map[string]any) (any, error) { return each(list, s) }, err
	case p.take("{"):
		return p.object()
	case p.take("true"):
		return constant(true), nil
	case p.take("false"):
		return constant(false), nil
	}
	d := json.NewDecoder(strings.NewReader(p.rest)) // a text or a number, as in JSON
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%q is not understood", p.rest)
	}
	p.rest = p.rest[d.InputOffset():]
	return constant(v), nil
}

func constant(v any) term { return func(map[string]any) (any, error) { return v, nil } }

func (p *parser) path() term {
	var names []string
	for strings.HasPrefix(p.rest, ".") {
		end := 1
		for end < len(p.rest) && (unicode.IsLetter(rune(p.rest[end])) || p.rest[end] == '_') {
			end++
		}
		names = append(names, p.rest[1:end])
		p.rest = p.rest[end:]
	}
	return func(s map[string]any) (any, error) {
		var v any = s
		for _, name := range names {
			o, _ := v.(map[string]any)
			next, ok := o[name]
			if !ok {
				return undefined{}, nil
			}
			v = next
		}
		return v, nil
	}
}

func (p *parser) list(end string) ([]term, error) {
	var items []term
	for !p.take(end) {
		if len(items) > 0 && !p.take(",") {
			return nil, fmt.Errorf("a comma is missing before %q", p.rest)
		}
		item, err := p.comparison()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func each(list []term, s map[string]any) ([]any, error) {
	out := []any{}
	for _, item := range list {
		v, err := item(s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *parser) object() (term, error) {
	var names []string
	var values []term
	for !p.take("}") {
		if len(names) > 0 && !p.take(",") {
			return nil, fmt.Errorf("a comma is missing before %q", p.rest)
		}
		name, err := p.primary()
		if err != nil {
			return nil, err
		}
		key, _ := name(nil)
		text, ok := key.(string)
		if !ok || !p.take(":") {
			return nil, fmt.Errorf("an object's key is missing before %q", p.rest)
		}
		value, err := p.comparison()
		if err != nil {
			return nil, err
		}
		names, values = append(names, text), append(values, value)
	}
	return func(s map[string]any) (any, error) {
		vs, err := each(values, s)
		out := map[string]any{}
		for i, v := range vs {
			if _, none := v.(undefined); !none {
				out[names[i]] = v
			}
		}
		return out, err
	}, nil
}

func (p *parser) call(f func([]any) (any, error)) (term, error) {
	args, err := p.list(")")
	return func(s map[string]any) (any, error) {
		values, err := each(args, s)
		if err != nil {
			return nil, err
		}
		return f(values)
	}, err
}

func merge(args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok || len(args) != 1 {
		return nil, fmt.Errorf("$merge takes a list")
	}
	out := map[string]any{}
	for _, v := range list {
		o, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("$merge of %T", v)
		}
		for k, x := range o {
			out[k] = x
		}
	}
	return out, nil
}

func substring(args []any) (any, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("$substring takes three arguments")
	}
	if _, none := args[0].(undefined); none {
		return undefined{}, nil
	}
	text, ok := args[0].(string)
	from, ok2 := args[1].(float64)
	length, ok3 := args[2].(float64)
	if !ok || !ok2 || !ok3 {
		return nil, fmt.Errorf("$substring of %T, %T, %T", args[0], args[1], args[2])
	}
	runes := []rune(text)
	start := min(int(from), len(runes))
	return string(runes[start:min(start+int(length), len(runes))]), nil
}
