// Package tabletest checks that an implementation of table.Table keeps what the interface promises. The in-memory twin and the
// DynamoDB table run the same checks, which is what makes tests of the domain on the twin worth something.
package tabletest

import (
	"errors"
	"fmt"
	"testing"

	"toolrounds/shared/table"
)

// Run checks the table that make returns. It is called once for each group of checks; the groups use partitions of their own, so one
// table may serve all of them.
func Run(t *testing.T, make func(t *testing.T) table.Table) {
	groups := []struct {
		name  string
		check func(t *testing.T, s table.Table, pk string)
	}{
		{"Get", get}, {"Conditions", conditions}, {"Put", put}, {"Update", update}, {"Delete", remove}, {"Check", check},
		{"Transact", transact}, {"TransactLimits", transactLimits}, {"Batch", batch}, {"Order", order}, {"Index", indexed},
		{"Pages", pages}, {"Blobs", blobs}, {"ManyBlobs", manyBlobs}, {"GrowingItem", growingItem}, {"BigTransaction", bigTransaction},
		{"Copies", copies}, {"Names", names}, {"Counter", counter}, {"OneWinner", oneWinner}, {"Refusals", refusals}, {"Cancelled", cancelled},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.check(t, make(t), "TEST#"+t.Name()) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failed expects a failed condition on exactly the keys.
func failed(t *testing.T, err error, keys ...table.Key) {
	t.Helper()
	if !errors.Is(err, table.ErrCondition) {
		t.Fatalf("error %v, want a failed condition", err)
	}
	var c *table.ConditionError
	if !errors.As(err, &c) || len(c.Failed) != len(keys) {
		t.Fatalf("failed on %v, want %v", err, keys)
	}
	for _, k := range keys {
		if !table.FailedOn(err, k) {
			t.Fatalf("failed on %v, want %v", c.Failed, keys)
		}
	}
}

// refused expects an error that is no failed condition.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, table.ErrCondition) {
		t.Errorf("%s: error %v, want a refusal", what, err)
	}
}

func read(t *testing.T, s table.Table, key table.Key) (table.Item, bool) {
	t.Helper()
	item, ok, err := table.One(t.Context(), s, key)
	must(t, err)
	return item, ok
}

func apply(t *testing.T, s table.Table, op table.Op) table.Item {
	t.Helper()
	item, err := s.Apply(t.Context(), op)
	must(t, err)
	return item
}

func same(t *testing.T, what string, got, want table.Item) {
	t.Helper()
	if got.Key != want.Key || got.IndexPK != want.IndexPK || got.IndexSK != want.IndexSK || got.Expires != want.Expires {
		t.Errorf("%s: keys %v, want %v", what, short(got), short(want))
	}
	if len(got.Attr) != len(want.Attr) {
		t.Errorf("%s: %v, want %v", what, short(got), short(want))
	}
	for k, v := range want.Attr {
		g, ok := got.Attr[k]
		if !ok || !equal(g, v) {
			t.Errorf("%s: attribute %s is %v, want %v", what, k, brief(g), brief(v))
		}
	}
}

func equal(a, b any) bool {
	x, isX := a.(table.Blob)
	y, isY := b.(table.Blob)
	if isX || isY {
		return isX && isY && string(x) == string(y)
	}
	return a == b
}

func short(i table.Item) string {
	return fmt.Sprintf("{%v %s/%s exp=%d, %d attributes}", i.Key, i.IndexPK, i.IndexSK, i.Expires, len(i.Attr))
}

func brief(v any) string {
	if b, ok := v.(table.Blob); ok {
		return fmt.Sprintf("Blob of %d bytes", len(b))
	}
	return fmt.Sprintf("%T %v", v, v)
}

func sks(t *testing.T, s table.Table, q table.Query) []string {
	t.Helper()
	items, err := table.All(t.Context(), s, q)
	must(t, err)
	var out []string
	for _, i := range items {
		out = append(out, i.SK)
	}
	return out
}
