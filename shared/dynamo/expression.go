package dynamo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"toolrounds/shared/table"
)

// expression collects the names and values of one request's expressions.
type expression struct {
	names  map[string]string
	values map[string]types.AttributeValue
	err    error // the first value that cannot be stored
}

// name returns the placeholder of an attribute as stored, the same one for the same attribute.
func (e *expression) name(stored string) string {
	for placeholder, n := range e.names {
		if n == stored {
			return placeholder
		}
	}
	if e.names == nil {
		e.names = map[string]string{}
	}
	placeholder := fmt.Sprintf("#n%d", len(e.names))
	e.names[placeholder] = stored
	return placeholder
}

func (e *expression) value(v any) string {
	encoded, err := encode(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	placeholder := fmt.Sprintf(":v%d", len(e.values))
	e.values[placeholder] = encoded
	return placeholder
}

// conditions returns the condition expression, nil when there is none.
func (e *expression) conditions(conds []table.Cond) *string {
	var all []string
	for _, c := range conds {
		switch c.Test {
		case table.Exists:
			all = append(all, "attribute_exists("+e.name(attrPK)+")")
		case table.Missing:
			all = append(all, "attribute_not_exists("+e.name(attrPK)+")")
		case table.Equal:
			all = append(all, e.name(outer(c.Attr))+" = "+e.value(c.Value))
		case table.NotEqual:
			n := e.name(outer(c.Attr))
			all = append(all, "(attribute_not_exists("+n+") OR "+n+" <> "+e.value(c.Value)+")")
		case table.Below:
			all = append(all, e.name(outer(c.Attr))+" < "+e.value(c.Value))
		case table.Without:
			all = append(all, "attribute_not_exists("+e.name(outer(c.Attr))+")")
		default:
			if e.err == nil {
				e.err = fmt.Errorf("unknown condition %d", c.Test)
			}
		}
	}
	if all == nil {
		return nil
	}
	return aws.String(strings.Join(all, " AND "))
}

// update returns the update expression, nil when nothing changes.
func (e *expression) update(c table.Change, large map[string]pointer) *string {
	var set, add, remove []string
	changed := map[string]bool{}
	once := func(attr string) {
		if changed[attr] && e.err == nil {
			e.err = fmt.Errorf("attribute %s is changed in two ways", attr)
		}
		changed[attr] = true
	}
	for _, attr := range slices.Sorted(maps.Keys(c.Set)) {
		once(attr)
		value := c.Set[attr]
		if p, ok := large[attr]; ok {
			value = p
		}
		set = append(set, e.name(outer(attr))+" = "+e.value(value))
	}
	for _, attr := range slices.Sorted(maps.Keys(c.Add)) {
		once(attr)
		add = append(add, e.name(outer(attr))+" "+e.value(c.Add[attr]))
	}
	for _, attr := range c.Remove {
		once(attr)
		remove = append(remove, e.name(outer(attr)))
	}
	if c.Index != nil {
		if c.Index[0] == "" {
			remove = append(remove, e.name(attrIndexPK), e.name(attrIndexSK))
		} else {
			set = append(set, e.name(attrIndexPK)+" = "+e.value(c.Index[0]), e.name(attrIndexSK)+" = "+e.value(c.Index[1]))
		}
	}
	if c.Expires != nil {
		if *c.Expires == 0 {
			remove = append(remove, e.name(attrExpires))
		} else {
			set = append(set, e.name(attrExpires)+" = "+e.value(*c.Expires))
		}
	}
	var parts []string
	for _, p := range []struct {
		verb    string
		clauses []string
	}{{"SET ", set}, {"ADD ", add}, {"REMOVE ", remove}} {
		if p.clauses != nil {
			parts = append(parts, p.verb+strings.Join(p.clauses, ", "))
		}
	}
	if parts == nil {
		return nil
	}
	return aws.String(strings.Join(parts, " "))
}

// image is a whole item as it is put.
func image(item table.Item, large map[string]pointer) (map[string]types.AttributeValue, error) {
	raw := keyOf(item.Key)
	if item.IndexPK != "" {
		raw[attrIndexPK], raw[attrIndexSK] = text(item.IndexPK), text(item.IndexSK)
	}
	if item.Expires != 0 {
		raw[attrExpires] = number(item.Expires)
	}
	for attr, v := range item.Attr {
		if p, ok := large[attr]; ok {
			v = p
		}
		encoded, err := encode(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", attr, err)
		}
		raw[outer(attr)] = encoded
	}
	return raw, nil
}
