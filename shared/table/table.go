// Package table is the project's one table as the domain sees it: items under a partition and a sort key, conditional writes,
// transactions, and ordered reads of one partition. It knows nothing of DynamoDB; package dynamo implements it on the real table,
// package memory is its complete in-memory twin, so every store of the domain is written once and tested without a network.
//
// Attributes hold string, int64, bool or Blob. Everything structured is JSON in a Blob: the table looks only at what it must
// compare. A Blob may be of any size; the adapter keeps the large ones elsewhere and nobody else notices.
package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Key names one item.
type Key struct{ PK, SK string }

// Blob is an opaque value of any size.
type Blob []byte

// Item is one stored record.
type Item struct {
	Key
	IndexPK string         // partition of the sparse index; empty: not indexed
	IndexSK string         // sort key within it
	Expires int64          // Unix seconds after which the item may vanish; 0: never
	Attr    map[string]any // string, int64, bool or Blob
}

// String returns a text attribute, "" when absent.
func (i Item) String(name string) string { s, _ := i.Attr[name].(string); return s }

// Int returns a number attribute, 0 when absent.
func (i Item) Int(name string) int64 { n, _ := i.Attr[name].(int64); return n }

// Bool returns a flag attribute, false when absent.
func (i Item) Bool(name string) bool { b, _ := i.Attr[name].(bool); return b }

// Has tells whether the attribute is present.
func (i Item) Has(name string) bool { _, ok := i.Attr[name]; return ok }

// JSON decodes a Blob attribute into v, keeping numbers exact (json.Number). An absent attribute leaves v as it is.
func (i Item) JSON(name string, v any) error {
	raw, ok := i.Attr[name].(Blob)
	if !ok {
		return nil
	}
	if err := Decode(raw, v); err != nil {
		return fmt.Errorf("decode %s of %s/%s: %w", name, i.PK, i.SK, err)
	}
	return nil
}

// MustJSON encodes v as a Blob. It panics on values that JSON cannot express, which is a programming error: everything the domain
// stores was decoded from JSON or is a plain struct.
func MustJSON(v any) Blob {
	raw, err := Encode(v)
	if err != nil {
		panic(fmt.Sprintf("table: encode %T: %v", v, err))
	}
	return raw
}

// Cond is a condition on the item before a write. All conditions of one write must hold.
type Cond struct {
	Test  Test
	Attr  string
	Value any // string, int64 or bool
}

// Test says how a Cond compares.
type Test int

// The tests. Equal, NotEqual and Below also fail on an absent attribute, except NotEqual, which an absent one passes.
const (
	Exists Test = iota // the item is there
	Missing
	Equal
	NotEqual
	Below   // a number smaller than Value
	Without // the attribute is absent
)

// Must is the condition that the item exists.
func Must() Cond { return Cond{Test: Exists} }

// New is the condition that the item does not exist.
func New() Cond { return Cond{Test: Missing} }

// Is is the condition that the attribute equals the value.
func Is(attr string, value any) Cond { return Cond{Test: Equal, Attr: attr, Value: value} }

// Not is the condition that the attribute is absent or differs from the value.
func Not(attr string, value any) Cond { return Cond{Test: NotEqual, Attr: attr, Value: value} }

// Less is the condition that the number attribute is below the value.
func Less(attr string, value int64) Cond { return Cond{Test: Below, Attr: attr, Value: value} }

// No is the condition that the attribute is absent.
func No(attr string) Cond { return Cond{Test: Without, Attr: attr} }

// Kind is what an Op does.
type Kind int

// The kinds of Op.
const (
	KindPut Kind = iota
	KindUpdate
	KindDelete
	KindCheck
)

// Change is what an update does to an item. Index and Expires are changed only when given.
type Change struct {
	Set     map[string]any
	Add     map[string]int64
	Remove  []string
	Index   *[2]string // new index keys; two empty strings take the item out of the index
	Expires *int64
}

// Op is one write.
type Op struct {
	Kind   Kind
	Item   Item   // of a put
	Key    Key    // of the others
	Change Change // of an update
	Conds  []Cond
}

// Put replaces the whole item.
func Put(item Item, conds ...Cond) Op {
	return Op{Kind: KindPut, Item: item, Key: item.Key, Conds: conds}
}

// Update changes attributes of an existing item: it carries the condition that the item exists, so that nothing deleted comes back.
func Update(key Key, change Change, conds ...Cond) Op {
	return Op{Kind: KindUpdate, Key: key, Change: change, Conds: append([]Cond{Must()}, conds...)}
}

// Delete removes the item, if it is there.
func Delete(key Key, conds ...Cond) Op { return Op{Kind: KindDelete, Key: key, Conds: conds} }

// Check makes a transaction depend on an item that it does not change.
func Check(key Key, conds ...Cond) Op { return Op{Kind: KindCheck, Key: key, Conds: conds} }

// Query reads one partition in the order of the sort keys.
type Query struct {
	PK         string
	Prefix     string // of the sort key
	Until      string // exclusive upper bound of the sort key; not together with Prefix
	Index      bool   // read the index instead; it may lag behind by a moment
	Descending bool
	Limit      int  // 0: everything
	Lazy       bool // leave large Blobs where they are: they come as nil
}

// ErrCondition says that a condition did not hold. Errors of Apply and Transact that wrap it changed nothing.
var ErrCondition = errors.New("condition not met")

// ConditionError tells which writes of a transaction failed.
type ConditionError struct{ Failed []Key }

func (e *ConditionError) Error() string { return fmt.Sprintf("%v on %v", ErrCondition, e.Failed) }

// Unwrap makes errors.Is(err, ErrCondition) true.
func (e *ConditionError) Unwrap() error { return ErrCondition }

// FailedOn tells whether the condition on that key was (among) those that failed.
func FailedOn(err error, key Key) bool {
	var c *ConditionError
	if !errors.As(err, &c) {
		return false
	}
	for _, k := range c.Failed {
		if k == key {
			return true
		}
	}
	return false
}

// Table is the store. Reads of the table itself are strongly consistent.
type Table interface {
	// Get returns the items that exist, by key.
	Get(ctx context.Context, keys ...Key) (map[Key]Item, error)
	// Apply does one write and returns the item as it is afterwards (zero after a delete).
	Apply(ctx context.Context, op Op) (Item, error)
	// Transact does all writes or none; at most 100, each on another key.
	Transact(ctx context.Context, ops ...Op) error
	// Batch does any number of unconditional puts and deletes, each by itself.
	Batch(ctx context.Context, ops ...Op) error
	// Query streams the items of one partition.
	Query(ctx context.Context, q Query) iter.Seq2[Item, error]
}

// One reads a single item; ok tells whether it exists.
func One(ctx context.Context, t Table, key Key) (item Item, ok bool, err error) {
	found, err := t.Get(ctx, key)
	if err != nil {
		return Item{}, false, err
	}
	item, ok = found[key]
	return item, ok, nil
}

// All collects a query.
func All(ctx context.Context, t Table, q Query) ([]Item, error) {
	var items []Item
	for item, err := range t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
