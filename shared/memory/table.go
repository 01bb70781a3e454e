// Package memory holds complete in-memory twins of the stores, for tests of the domain.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"toolrounds/shared/table"
)

// Table is a table.Table in memory. The zero value is ready.
type Table struct {
	mu    sync.Mutex
	items map[table.Key]table.Item
	// Fault, when set, is asked before every write with the number of the write (from 1) and its operations; an error it returns is
	// returned to the writer and nothing is written. With after true it is asked again once the write is done: a lost answer.
	Fault  func(n int, after bool, ops []table.Op) error
	writes int
}

// Snapshot remembers what is stored; restore brings it back, as often as it is called.
func (t *Table) Snapshot() (restore func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := maps.Clone(t.items) // items are never changed in place
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.items = maps.Clone(kept)
	}
}

// Get implements table.Table.
func (t *Table) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[table.Key]table.Item, len(keys))
	for _, k := range keys {
		if item, ok := t.items[k]; ok {
			found[k] = clone(item)
		}
	}
	return found, nil
}

// Apply implements table.Table.
func (t *Table) Apply(ctx context.Context, op table.Op) (table.Item, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.write(ctx, []table.Op{op}); err != nil {
		return table.Item{}, err
	}
	return clone(t.items[op.Key]), nil
}

// Transact implements table.Table.
func (t *Table) Transact(ctx context.Context, ops ...table.Op) error {
	if len(ops) == 0 {
		return nil
	}
	if err := transaction(ops); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx, ops)
}

// Batch implements table.Table.
func (t *Table) Batch(ctx context.Context, ops ...table.Op) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, op := range ops {
		if (op.Kind != table.KindPut && op.Kind != table.KindDelete) || len(op.Conds) > 0 {
			return fmt.Errorf("batch: write %d on %s/%s is no unconditional put or delete", i, op.Key.PK, op.Key.SK)
		}
	}
	for _, op := range ops {
		if err := t.write(ctx, []table.Op{op}); err != nil {
			return err
		}
	}
	return nil
}

// write does all operations or none. The caller holds the lock.
func (t *Table) write(ctx context.Context, ops []table.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, op := range ops {
		if err := valid(op); err != nil {
			return fmt.Errorf("write %s/%s: %w", op.Key.PK, op.Key.SK, err)
		}
	}
	t.writes++
	n := t.writes
	if t.Fault != nil {
		if err := t.Fault(n, false, ops); err != nil {
			return err
		}
	}
	var failed []table.Key
	for _, op := range ops {
		item, ok := t.items[op.Key]
		for _, c := range op.Conds {
			if !holds(c, item, ok) {
				failed = append(failed, op.Key)
				break
			}
		}
	}
	if failed != nil {
		return &table.ConditionError{Failed: failed}
	}
	if t.items == nil {
		t.items = map[table.Key]table.Item{}
	}
	for _, op := range ops {
		switch op.Kind {
		case table.KindPut:
			t.items[op.Key] = clone(op.Item)
		case table.KindUpdate:
			item := changed(t.items[op.Key], op.Change)
			item.Key = op.Key
			t.items[op.Key] = item
		case table.KindDelete:
			delete(t.items, op.Key)
		}
	}
	if t.Fault != nil {
		return t.Fault(n, true, ops)
	}
	return nil
}

func holds(c table.Cond, item table.Item, ok bool) bool {
	value, has := item.Attr[c.Attr]
	switch c.Test {
	case table.Exists:
		return ok
	case table.Missing:
		return !ok
	case table.Equal:
		return has && value == normal(c.Value)
	case table.NotEqual:
		return !has || value != normal(c.Value)
	case table.Below:
		n, isInt := value.(int64)
		return isInt && n < normal(c.Value).(int64)
	case table.Without:
		return !has
	}
	return false
}

func normal(v any) any {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return v
}

func changed(item table.Item, c table.Change) table.Item {
	item = clone(item)
	if item.Attr == nil {
		item.Attr = map[string]any{}
	}
	for k, v := range c.Set {
		if b, ok := v.(table.Blob); ok {
			v = slices.Clone(b)
		}
		item.Attr[k] = normal(v)
	}
	for k, n := range c.Add {
		item.Attr[k] = item.Int(k) + n
	}
	for _, k := range c.Remove {
		delete(item.Attr, k)
	}
	if c.Index != nil {
		item.IndexPK, item.IndexSK = c.Index[0], c.Index[1]
	}
	if c.Expires != nil {
		item.Expires = *c.Expires
	}
	return item
}

func clone(item table.Item) table.Item {
	item.Attr = maps.Clone(item.Attr)
	for k, v := range item.Attr {
		if b, ok := v.(table.Blob); ok {
			item.Attr[k] = slices.Clone(b)
		} else {
			item.Attr[k] = normal(v)
		}
	}
	return item
}

// Query implements table.Table.
func (t *Table) Query(ctx context.Context, q table.Query) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(table.Item{}, err)
			return
		}
		t.mu.Lock()
		var found []table.Item
		for _, item := range t.items {
			pk, sk := item.PK, item.SK
			if q.Index {
				pk, sk = item.IndexPK, item.IndexSK
			}
			if pk == q.PK && strings.HasPrefix(sk, q.Prefix) && (q.Until == "" || sk < q.Until) {
				item = clone(item)
				if q.Lazy {
					lighten(item)
				}
				found = append(found, item)
			}
		}
		t.mu.Unlock()
		slices.SortFunc(found, func(a, b table.Item) int {
			x, y := a.SK, b.SK
			if q.Index {
				x, y = a.IndexSK, b.IndexSK
			}
			if q.Descending {
				x, y = y, x
			}
			return cmp.Or(strings.Compare(x, y), strings.Compare(a.PK, b.PK), strings.Compare(a.SK, b.SK))
		})
		for i, item := range found {
			if q.Limit > 0 && i == q.Limit {
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}
