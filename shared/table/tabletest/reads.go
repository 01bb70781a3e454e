package tabletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"toolrounds/shared/table"
)

func order(t *testing.T, s table.Table, pk string) {
	var ops []table.Op
	all := []string{"A", "A#", "A#1", "A#10", "A#2", "B", "M#x", "M#x#0001", "M#y", "Z", "a", "ä"}
	for i, sk := range slices.Backward(all) {
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: pk, SK: sk}, Attr: map[string]any{"n": int64(i)}}))
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: pk + "#", SK: sk}})) // a neighbour never shows up
	}
	must(t, s.Batch(t.Context(), ops...))
	for _, c := range []struct {
		q    table.Query
		want string
	}{
		{table.Query{}, "A A# A#1 A#10 A#2 B M#x M#x#0001 M#y Z a ä"},
		{table.Query{Descending: true}, "ä a Z M#y M#x#0001 M#x B A#2 A#10 A#1 A# A"},
		{table.Query{Limit: 3}, "A A# A#1"},
		{table.Query{Limit: 2, Descending: true}, "ä a"},
		{table.Query{Limit: 100}, "A A# A#1 A#10 A#2 B M#x M#x#0001 M#y Z a ä"},
		{table.Query{Prefix: "A#"}, "A# A#1 A#10 A#2"},
		{table.Query{Prefix: "A#", Descending: true, Limit: 2}, "A#2 A#10"},
		{table.Query{Prefix: "M#x"}, "M#x M#x#0001"},
		{table.Query{Prefix: "nothing"}, ""},
		{table.Query{Until: "B"}, "A A# A#1 A#10 A#2"},
		{table.Query{Until: "B", Descending: true, Limit: 1}, "A#2"},
		{table.Query{Until: "A"}, ""},
	} {
		c.q.PK = pk
		if got := strings.Join(sks(t, s, c.q), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	if got := sks(t, s, table.Query{PK: pk + "#none"}); got != nil {
		t.Errorf("empty partition: %v", got)
	}
	n := 0
	for _, err := range s.Query(t.Context(), table.Query{PK: pk}) {
		must(t, err)
		if n++; n == 2 {
			break // a reader may stop at any item
		}
	}
}

func indexed(t *testing.T, s table.Table, pk string) {
	index := pk + "#X"
	item := func(sk, at string) table.Op {
		return table.Put(table.Item{Key: table.Key{PK: pk + "#" + sk, SK: "META"}, IndexPK: index, IndexSK: at, Attr: map[string]any{"sk": sk}})
	}
	must(t, s.Batch(t.Context(), item("c", "3"), item("a", "1"), item("b", "2"), item("d", "10"),
		table.Put(table.Item{Key: table.Key{PK: pk, SK: "not indexed"}})))
	for _, c := range []struct {
		q    table.Query
		want string
	}{
		{table.Query{}, "a d b c"},
		{table.Query{Descending: true, Limit: 2}, "c b"},
		{table.Query{Until: "2"}, "a d"},
		{table.Query{Prefix: "1"}, "a d"},
	} {
		c.q.PK, c.q.Index = index, true
		items, err := table.All(t.Context(), s, c.q)
		must(t, err)
		var got []string
		for _, i := range items {
			got = append(got, i.String("sk"))
			if i.PK != pk+"#"+i.String("sk") || i.SK != "META" || i.IndexPK != index {
				t.Errorf("keys of %v", i)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.q, got, c.want)
		}
	}
	apply(t, s, table.Update(table.Key{PK: pk + "#a", SK: "META"}, table.Change{Index: &[2]string{index, "9"}}))
	apply(t, s, table.Delete(table.Key{PK: pk + "#b", SK: "META"}))
	items, err := table.All(t.Context(), s, table.Query{PK: index, Index: true})
	must(t, err)
	if len(items) != 3 || items[2].String("sk") != "a" {
		t.Errorf("after a move and a delete: %d items", len(items))
	}
}

// pages reads more than the megabyte that one answer of DynamoDB holds.
func pages(t *testing.T, s table.Table, pk string) {
	var ops []table.Op
	for i := range 60 {
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)}, Attr: map[string]any{"text": strings.Repeat("x", 30_000)}}))
	}
	must(t, s.Batch(t.Context(), ops...))
	for _, q := range []table.Query{{}, {Descending: true}, {Limit: 50}} {
		q.PK = pk
		want := 60
		if q.Limit > 0 {
			want = q.Limit
		}
		got := sks(t, s, q)
		ordered := slices.IsSorted(got)
		if q.Descending {
			ordered = slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) })
		}
		if len(got) != want || !ordered || len(slices.Compact(slices.Clone(got))) != want {
			t.Errorf("%+v: %d items, ordered %v", q, len(got), ordered)
		}
	}
}

// noise is a value that does not compress.
func noise(size int) table.Blob {
	b := make(table.Blob, size)
	r := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	r.Read(b)
	return b
}

func blobs(t *testing.T, s table.Table, pk string) {
	for _, size := range []int{0, 1, 1000, 32 << 10, 32<<10 + 1, 300 << 10, 400 << 10, 1 << 20, 6 << 20} {
		key := table.Key{PK: pk, SK: fmt.Sprintf("%08d", size)}
		want := table.Item{Key: key, Attr: map[string]any{"b": noise(size), "n": int64(size)}}
		same(t, "put", apply(t, s, table.Put(want)), want)
		got, _ := read(t, s, key)
		same(t, "read", got, want)
		want.Attr["c"], want.Attr["n"] = table.Blob(strings.Repeat("compress", size/8)), int64(1)
		same(t, "update", apply(t, s, table.Update(key, table.Change{Set: map[string]any{"c": want.Attr["c"], "n": int64(1)}})), want)
		got, _ = read(t, s, key)
		same(t, "read after update", got, want)
		// Replaced by a small one and removed: what was there does not come back.
		delete(want.Attr, "c")
		want.Attr["b"] = table.Blob("small")
		same(t, "replace", apply(t, s, table.Update(key, table.Change{Set: map[string]any{"b": table.Blob("small")}, Remove: []string{"c"}})), want)
		want.Attr["b"] = noise(size)
		must(t, s.Transact(t.Context(), table.Put(want)))
	}
	items, err := table.All(t.Context(), s, table.Query{PK: pk})
	must(t, err)
	for _, i := range items {
		if b, _ := i.Attr["b"].(table.Blob); fmt.Sprintf("%08d", len(b)) != i.SK || string(b) != string(noise(len(b))) {
			t.Errorf("query: %s holds a Blob of %d bytes", i.SK, len(b))
		}
	}
	if items, err = table.All(t.Context(), s, table.Query{PK: pk, Lazy: true}); err != nil || len(items) != 9 {
		t.Fatalf("lazy: %d items, %v", len(items), err)
	}
	for _, i := range items {
		b, ok := i.Attr["b"].(table.Blob)
		if large := i.Int("n") > 0 && i.SK > fmt.Sprintf("%08d", 32<<10); !ok || (b == nil) != large && i.SK != "00000000" {
			t.Errorf("lazy: %s holds %v, %d bytes", i.SK, ok, len(b))
		}
	}
}

// manyBlobs writes an item of many values each small enough to stay, together too large for one item.
func manyBlobs(t *testing.T, s table.Table, pk string) {
	want := table.Item{Key: table.Key{PK: pk, SK: "I"}, Attr: map[string]any{}}
	for i := range 40 {
		want.Attr[fmt.Sprintf("b%d", i)] = noise(20_000 + i)
	}
	same(t, "put", apply(t, s, table.Put(want)), want)
	got, _ := read(t, s, want.Key)
	same(t, "read", got, want)
	found, err := table.All(t.Context(), s, table.Query{PK: pk})
	must(t, err)
	same(t, "query", found[0], want)
}

// growingItem adds values one by one, alone and in transactions, until they are too large for one item together.
func growingItem(t *testing.T, s table.Table, pk string) {
	want := table.Item{Key: table.Key{PK: pk, SK: "I"}, Attr: map[string]any{}}
	apply(t, s, table.Put(want))
	for i := range 30 {
		name, b := fmt.Sprintf("b%d", i), noise(30_000+i)
		want.Attr[name] = b
		op := table.Update(want.Key, table.Change{Set: map[string]any{name: b}})
		if i%2 == 0 {
			apply(t, s, op)
		} else {
			must(t, s.Transact(t.Context(), op, table.Put(table.Item{Key: table.Key{PK: pk, SK: "J"}})))
		}
	}
	got, _ := read(t, s, want.Key)
	same(t, "read", got, want)
}

// bigTransaction writes more at once than DynamoDB takes in one transaction.
func bigTransaction(t *testing.T, s table.Table, pk string) {
	var ops []table.Op
	for i := range 100 {
		item := table.Item{Key: table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)}, Attr: map[string]any{"a": noise(30_000), "b": noise(30_001)}}
		ops = append(ops, table.Put(item))
	}
	must(t, s.Transact(t.Context(), ops...))
	items, err := table.All(t.Context(), s, table.Query{PK: pk})
	must(t, err)
	if len(items) != 100 {
		t.Fatalf("%d items, want 100", len(items))
	}
	for i, item := range items {
		same(t, item.SK, item, ops[i].Item)
	}
}

// copies checks that neither the writer's nor a reader's later changes reach what is stored.
func copies(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	b, c := table.Blob("first"), table.Blob("second")
	attr := map[string]any{"b": b}
	apply(t, s, table.Put(table.Item{Key: key, Attr: attr}))
	apply(t, s, table.Update(key, table.Change{Set: map[string]any{"c": c}}))
	attr["x"], b[0], c[0] = "y", '!', '!'
	got, _ := read(t, s, key)
	got.Attr["c"].(table.Blob)[1] = '!'
	got, _ = read(t, s, key)
	same(t, "read", got, table.Item{Key: key, Attr: map[string]any{"b": table.Blob("first"), "c": table.Blob("second")}})
}

// names uses attribute names that are reserved words, placeholders or the adapter's own.
func names(t *testing.T, s table.Table, pk string) {
	want := table.Item{Key: table.Key{PK: pk, SK: "I"}, Attr: map[string]any{}}
	change := table.Change{Set: map[string]any{}}
	for _, n := range []string{"pk", "sk", "gsi1pk", "gsi1sk", "exp", "@", "@pk", "name", "status", "size", "a.b", "a-b", "a b", "#n0", ":v0", "ä", "s3", "len"} {
		want.Attr[n] = "1"
		change.Set[n] = "2"
	}
	same(t, "put", apply(t, s, table.Put(want)), want)
	conds := []table.Cond{table.Is("pk", "1"), table.Is("a.b", "1"), table.Not("exp", "2")}
	got := apply(t, s, table.Update(want.Key, change, conds...))
	for n := range want.Attr {
		want.Attr[n] = "2"
	}
	same(t, "update", got, want)
	got = apply(t, s, table.Update(want.Key, table.Change{Remove: []string{"pk", "@pk", "exp"}}))
	for _, n := range []string{"pk", "@pk", "exp"} {
		delete(want.Attr, n)
	}
	same(t, "remove", got, want)
}
