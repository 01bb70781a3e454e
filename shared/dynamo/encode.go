package dynamo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"toolrounds/shared/table"
)

// The attributes that the adapter itself keeps in an item.
const (
	attrPK      = "pk"
	attrSK      = "sk"
	attrIndexPK = "gsi1pk"
	attrIndexSK = "gsi1sk"
	attrExpires = "exp"
)

// stored is an item as DynamoDB has it, with the large values still elsewhere (a nil Blob in item.Attr).
type stored struct {
	item  table.Item
	large []largeValue
	gone  bool
}

type largeValue struct {
	attr    string
	pointer pointer
}

// outer is the name under which an attribute is stored.
func outer(name string) string {
	switch {
	case name == attrPK, name == attrSK, name == attrIndexPK, name == attrIndexSK, name == attrExpires, strings.HasPrefix(name, "@"):
		return "@" + name
	}
	return name
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func keyOf(k table.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrPK: text(k.PK), attrSK: text(k.SK)}
}

// encode makes a DynamoDB value of an attribute.
func encode(v any) (types.AttributeValue, error) {
	switch v := v.(type) {
	case string:
		return text(v), nil
	case int64:
		return number(v), nil
	case int:
		return number(int64(v)), nil
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}, nil
	case table.Blob:
		if v == nil {
			v = table.Blob{} // the SDK would send a nil as no value at all
		}
		return &types.AttributeValueMemberB{Value: v}, nil
	case pointer:
		return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"s3": text(v.key), "len": number(int64(v.size)),
		}}, nil
	}
	return nil, fmt.Errorf("attribute of type %T", v)
}

func decodeAll(raws []map[string]types.AttributeValue) ([]stored, error) {
	items := make([]stored, 0, len(raws))
	for _, raw := range raws {
		item, err := decode(raw)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func decode(raw map[string]types.AttributeValue) (stored, error) {
	s := stored{item: table.Item{Attr: make(map[string]any, len(raw))}}
	for name, v := range raw {
		value, err := decodeValue(v)
		if err != nil {
			return stored{}, fmt.Errorf("attribute %s: %w", name, err)
		}
		switch name {
		case attrPK:
			s.item.PK, _ = value.(string)
		case attrSK:
			s.item.SK, _ = value.(string)
		case attrIndexPK:
			s.item.IndexPK, _ = value.(string)
		case attrIndexSK:
			s.item.IndexSK, _ = value.(string)
		case attrExpires:
			s.item.Expires, _ = value.(int64)
		default:
			name = strings.TrimPrefix(name, "@")
			if p, ok := value.(pointer); ok {
				s.large = append(s.large, largeValue{name, p})
				value = table.Blob(nil)
			}
			s.item.Attr[name] = value
		}
	}
	return s, nil
}

func decodeValue(v types.AttributeValue) (any, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, nil
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			return nil, err
		}
		return n, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	case *types.AttributeValueMemberB:
		if v.Value == nil {
			return table.Blob{}, nil
		}
		return table.Blob(v.Value), nil
	case *types.AttributeValueMemberM:
		key, okKey := v.Value["s3"].(*types.AttributeValueMemberS)
		size, okSize := v.Value["len"].(*types.AttributeValueMemberN)
		if !okKey || !okSize {
			return nil, fmt.Errorf("a map that is no pointer to a large value")
		}
		n, err := strconv.Atoi(size.Value)
		if err != nil {
			return nil, err
		}
		return pointer{key: key.Value, size: n}, nil
	}
	return nil, fmt.Errorf("stored as %T", v)
}
