package memory

import (
	"errors"
	"fmt"

	"toolrounds/shared/table"
)

// largest is the size in bytes up to which a Lazy query brings a Blob. Package dynamo leaves larger ones where they are, and
// sometimes smaller ones too; a test that passes here must not count on them.
const largest = 32 << 10

// lighten takes the large Blobs out of an item.
func lighten(item table.Item) {
	for k, v := range item.Attr {
		if b, ok := v.(table.Blob); ok && len(b) > largest {
			item.Attr[k] = table.Blob(nil)
		}
	}
}

// transaction refuses what DynamoDB refuses: more than 100 operations, and two on one key.
func transaction(ops []table.Op) error {
	if len(ops) > 100 {
		return fmt.Errorf("transaction of %d writes: the limit is 100", len(ops))
	}
	seen := make(map[table.Key]bool, len(ops))
	for _, op := range ops {
		if seen[op.Key] {
			return fmt.Errorf("transaction of %d writes: two on %s/%s", len(ops), op.Key.PK, op.Key.SK)
		}
		seen[op.Key] = true
	}
	return nil
}

// valid refuses what the real table refuses, so that a test of the domain finds it without one.
func valid(op table.Op) error {
	if op.Key.PK == "" || op.Key.SK == "" {
		return errors.New("a part of the key is empty")
	}
	for _, c := range op.Conds {
		switch c.Test {
		case table.Equal, table.NotEqual, table.Below:
			if _, blob := c.Value.(table.Blob); blob || !storable(c.Value) {
				return fmt.Errorf("condition on %s with a value of type %T", c.Attr, c.Value)
			}
		}
	}
	switch op.Kind {
	case table.KindPut:
		if op.Item.IndexPK != "" && op.Item.IndexSK == "" {
			return errors.New("the sort key in the index is empty")
		}
		return storableAll(op.Item.Attr)
	case table.KindUpdate:
		if i := op.Change.Index; i != nil && (i[0] == "") != (i[1] == "") {
			return errors.New("a part of the key in the index is empty")
		}
		if name, twice := overlap(op.Change); twice {
			return fmt.Errorf("attribute %s is changed in two ways", name)
		}
		return storableAll(op.Change.Set)
	case table.KindCheck:
		if len(op.Conds) == 0 {
			return errors.New("a check without a condition")
		}
	}
	return nil
}

func overlap(c table.Change) (name string, twice bool) {
	seen := map[string]bool{}
	names := c.Remove
	for k := range c.Set {
		names = append(names[:len(names):len(names)], k)
	}
	for k := range c.Add {
		names = append(names[:len(names):len(names)], k)
	}
	for _, k := range names {
		if seen[k] {
			return k, true
		}
		seen[k] = true
	}
	return "", false
}

func storableAll(attr map[string]any) error {
	for k, v := range attr {
		if !storable(v) {
			return fmt.Errorf("attribute %s of type %T", k, v)
		}
	}
	return nil
}

func storable(v any) bool {
	switch v.(type) {
	case string, int64, int, bool, table.Blob:
		return true
	}
	return false
}
