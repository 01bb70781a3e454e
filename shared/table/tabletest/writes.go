package tabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"toolrounds/shared/table"
)

func get(t *testing.T, s table.Table, pk string) {
	found, err := s.Get(t.Context(), table.Key{PK: pk, SK: "none"})
	must(t, err)
	if found == nil || len(found) != 0 {
		t.Errorf("nothing there: %v, want an empty map", found)
	}
	if found, err = s.Get(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("no keys: %v, %v", found, err)
	}
	var ops []table.Op
	var keys []table.Key
	for i := range 130 {
		k := table.Key{PK: pk, SK: fmt.Sprintf("I#%03d", i)}
		keys = append(keys, k, k) // a key may come twice
		if i%2 == 0 {
			ops = append(ops, table.Put(table.Item{Key: k, Attr: map[string]any{"n": int64(i)}}))
		}
	}
	must(t, s.Batch(t.Context(), ops...))
	found, err = s.Get(t.Context(), keys...)
	must(t, err)
	if len(found) != 65 {
		t.Errorf("%d items, want 65", len(found))
	}
	for k, item := range found {
		if item.Key != k || fmt.Sprintf("I#%03d", item.Int("n")) != k.SK {
			t.Errorf("under %v: %v", k, short(item))
		}
	}
}

// conditions tries every test on an absent item, an absent attribute, an equal value, another one and one of another type.
func conditions(t *testing.T, s table.Table, pk string) {
	there, absent := table.Key{PK: pk, SK: "there"}, table.Key{PK: pk, SK: "absent"}
	apply(t, s, table.Put(table.Item{Key: there, Attr: map[string]any{
		"text": "a", "number": int64(5), "flag": false, "blob": table.Blob("x"), "empty": "",
	}}))
	for _, c := range []struct {
		cond       table.Cond
		on, onNone bool // whether it holds on the item, and on no item
	}{
		{table.Must(), true, false},
		{table.New(), false, true},
		{table.Is("text", "a"), true, false},
		{table.Is("text", "b"), false, false},
		{table.Is("text", int64(1)), false, false},
		{table.Is("number", int64(5)), true, false},
		{table.Is("number", 5), true, false},
		{table.Is("number", int64(6)), false, false},
		{table.Is("number", "5"), false, false},
		{table.Is("flag", false), true, false},
		{table.Is("flag", true), false, false},
		{table.Is("empty", ""), true, false},
		{table.Is("none", ""), false, false},
		{table.Is("none", false), false, false},
		{table.Not("text", "a"), false, true},
		{table.Not("text", "b"), true, true},
		{table.Not("text", true), true, true},
		{table.Not("number", int64(5)), false, true},
		{table.Not("number", 4), true, true},
		{table.Not("flag", true), true, true},
		{table.Not("none", "a"), true, true},
		{table.Less("number", 6), true, false},
		{table.Less("number", 5), false, false},
		{table.Less("number", -1), false, false},
		{table.Less("text", 5), false, false},
		{table.Less("none", 5), false, false},
		{table.No("none"), true, true},
		{table.No("text"), false, true},
		{table.No("blob"), false, true},
		{table.No("empty"), false, true},
	} {
		for key, holds := range map[table.Key]bool{there: c.on, absent: c.onNone} {
			name := fmt.Sprintf("%+v on %s", c.cond, key.SK)
			// Alone, and in a transaction whose other write must not happen unless this holds.
			witness := table.Key{PK: pk, SK: "witness"}
			apply(t, s, table.Delete(witness))
			_, err := s.Apply(t.Context(), table.Check(key, c.cond))
			both := s.Transact(t.Context(), table.Put(table.Item{Key: witness}), table.Check(key, c.cond))
			_, written := read(t, s, witness)
			if holds {
				if err != nil || both != nil || !written {
					t.Errorf("%s does not hold: %v, %v", name, err, both)
				}
				continue
			}
			if !table.FailedOn(err, key) || !table.FailedOn(both, key) || table.FailedOn(both, witness) || written {
				t.Errorf("%s holds: %v, %v, written %v", name, err, both, written)
			}
		}
	}
	all := []table.Cond{table.Must(), table.Is("text", "a"), table.Less("number", 6), table.No("none")}
	apply(t, s, table.Update(there, table.Change{Set: map[string]any{"ok": true}}, all...))
	_, err := s.Apply(t.Context(), table.Update(there, table.Change{Set: map[string]any{"bad": true}}, append(all, table.No("ok"))...))
	failed(t, err, there)
	if item, _ := read(t, s, there); item.Has("bad") {
		t.Error("written although one of the conditions failed")
	}
}

func put(t *testing.T, s table.Table, pk string) {
	item := table.Item{
		Key: table.Key{PK: pk, SK: "I"}, IndexPK: pk + "#X", IndexSK: "1", Expires: 4102444800,
		Attr: map[string]any{"text": "ä <&> \x00", "number": int64(-9007199254740993), "flag": true, "off": false, "blob": table.Blob{0, 255}, "empty": "", "none": table.Blob{}},
	}
	same(t, "answer", apply(t, s, table.Put(item, table.New())), item)
	got, _ := read(t, s, item.Key)
	same(t, "read", got, item)
	_, err := s.Apply(t.Context(), table.Put(table.Item{Key: item.Key}, table.New()))
	failed(t, err, item.Key)
	// A put replaces: nothing of the former item stays.
	next := table.Item{Key: item.Key, Attr: map[string]any{"other": int64(1)}}
	same(t, "replaced", apply(t, s, table.Put(next)), next)
	got, _ = read(t, s, item.Key)
	same(t, "replaced, read", got, next)
	if left := sks(t, s, table.Query{PK: pk + "#X", Index: true}); left != nil {
		t.Errorf("still in the index: %v", left)
	}
	apply(t, s, table.Put(table.Item{Key: item.Key}, table.Must()))
	got, ok := read(t, s, item.Key)
	if !ok || len(got.Attr) != 0 {
		t.Errorf("item without attributes: %v, %v", got, ok)
	}
}

func update(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	_, err := s.Apply(t.Context(), table.Update(key, table.Change{Set: map[string]any{"a": "x"}}))
	failed(t, err, key)
	if _, ok := read(t, s, key); ok {
		t.Fatal("an update made an item")
	}
	apply(t, s, table.Put(table.Item{Key: key, Attr: map[string]any{"keep": "k", "drop": "d", "n": int64(5)}}))
	expires := int64(4102444800)
	got := apply(t, s, table.Update(key, table.Change{
		Set: map[string]any{"a": "x", "b": table.Blob("blob"), "i": 7}, Add: map[string]int64{"n": -7, "m": 2}, Remove: []string{"drop", "never"},
		Index: &[2]string{pk + "#X", "1"}, Expires: &expires,
	}))
	want := table.Item{Key: key, IndexPK: pk + "#X", IndexSK: "1", Expires: expires, Attr: map[string]any{
		"keep": "k", "n": int64(-2), "m": int64(2), "a": "x", "b": table.Blob("blob"), "i": int64(7),
	}}
	same(t, "answer", got, want)
	got, _ = read(t, s, key)
	same(t, "read", got, want)
	same(t, "no change", apply(t, s, table.Update(key, table.Change{})), want)
	if in := sks(t, s, table.Query{PK: pk + "#X", Index: true}); len(in) != 1 {
		t.Errorf("in the index: %v", in)
	}
	never := int64(0)
	got = apply(t, s, table.Update(key, table.Change{Index: &[2]string{}, Expires: &never}))
	want.IndexPK, want.IndexSK, want.Expires = "", "", 0
	same(t, "out of the index", got, want)
	if in := sks(t, s, table.Query{PK: pk + "#X", Index: true}); in != nil {
		t.Errorf("still in the index: %v", in)
	}
}

func remove(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	apply(t, s, table.Delete(key)) // nothing there: no error
	_, err := s.Apply(t.Context(), table.Delete(key, table.Must()))
	failed(t, err, key)
	apply(t, s, table.Put(table.Item{Key: key, Attr: map[string]any{"a": "x"}}))
	_, err = s.Apply(t.Context(), table.Delete(key, table.Is("a", "y")))
	failed(t, err, key)
	if after := apply(t, s, table.Delete(key, table.Is("a", "x"))); after.PK != "" || after.Attr != nil {
		t.Errorf("after a delete: %v", after)
	}
	if _, ok := read(t, s, key); ok {
		t.Error("still there")
	}
}

func check(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	want := table.Item{Key: key, Attr: map[string]any{"a": "x"}}
	apply(t, s, table.Put(want))
	same(t, "checked", apply(t, s, table.Check(key, table.Is("a", "x"))), want)
	_, err := s.Apply(t.Context(), table.Check(key, table.New()))
	failed(t, err, key)
}

func transact(t *testing.T, s table.Table, pk string) {
	k := func(n string) table.Key { return table.Key{PK: pk, SK: n} }
	must(t, s.Transact(t.Context()))
	must(t, s.Transact(t.Context(),
		table.Put(table.Item{Key: k("put"), Attr: map[string]any{"n": int64(1)}}, table.New()),
		table.Put(table.Item{Key: k("gone")}),
	))
	must(t, s.Transact(t.Context(),
		table.Update(k("put"), table.Change{Add: map[string]int64{"n": 1}}, table.Is("n", 1)),
		table.Update(k("gone"), table.Change{}), // no change is a check
		table.Put(table.Item{Key: table.Key{PK: pk + "#2", SK: "other"}}, table.New()),
		table.Check(k("none"), table.New()),
	))
	must(t, s.Transact(t.Context(), table.Delete(k("gone"), table.Must()), table.Check(k("put"), table.Is("n", 2))))
	if _, ok := read(t, s, k("gone")); ok {
		t.Error("the delete did not happen")
	}
	err := s.Transact(t.Context(),
		table.Put(table.Item{Key: k("new")}),
		table.Update(k("put"), table.Change{Add: map[string]int64{"n": 1}}, table.Is("n", 1)),
		table.Check(k("put2"), table.Must()),
		table.Delete(k("gone")),
		table.Update(k("gone2"), table.Change{Set: map[string]any{"a": "b"}}),
	)
	failed(t, err, k("put"), k("put2"), k("gone2"))
	if item, _ := read(t, s, k("put")); item.Int("n") != 2 {
		t.Errorf("n is %d, want 2", item.Int("n"))
	}
	if _, ok := read(t, s, k("new")); ok {
		t.Error("a part of a failed transaction was written")
	}
}

func transactLimits(t *testing.T, s table.Table, pk string) {
	var ops []table.Op
	for i := range 101 {
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)}}))
	}
	refused(t, "101 writes", s.Transact(t.Context(), ops...))
	refused(t, "two on a key", s.Transact(t.Context(), ops[0], table.Check(ops[0].Key, table.New())))
	must(t, s.Transact(t.Context(), ops[:100]...))
	if n := len(sks(t, s, table.Query{PK: pk})); n != 100 {
		t.Errorf("%d items, want 100", n)
	}
}

func batch(t *testing.T, s table.Table, pk string) {
	must(t, s.Batch(t.Context()))
	var ops []table.Op
	k := func(i int) table.Key { return table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)} }
	for i := range 60 {
		ops = append(ops, table.Put(table.Item{Key: k(i), Attr: map[string]any{"n": int64(i)}}))
	}
	ops = append(ops, table.Delete(k(3)), table.Put(table.Item{Key: k(4), Attr: map[string]any{"n": int64(44)}}), table.Delete(k(99)))
	must(t, s.Batch(t.Context(), ops...))
	if n := len(sks(t, s, table.Query{PK: pk})); n != 59 {
		t.Errorf("%d items, want 59", n)
	}
	if item, _ := read(t, s, k(4)); item.Int("n") != 44 {
		t.Errorf("the later of two writes does not count: %d", item.Int("n"))
	}
	refused(t, "conditional put", s.Batch(t.Context(), table.Put(table.Item{Key: k(5)}, table.New())))
	refused(t, "update", s.Batch(t.Context(), table.Update(k(5), table.Change{})))
}

// counter has many writers add at once: none is lost, and each sees a number of its own.
func counter(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	apply(t, s, table.Put(table.Item{Key: key}))
	const writers, each = 8, 5
	var mu sync.Mutex
	seen := map[int64]int{}
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for range each {
				item, err := s.Apply(t.Context(), table.Update(key, table.Change{Add: map[string]int64{"n": 1}}))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[item.Int("n")]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for n := int64(1); n <= writers*each; n++ {
		if seen[n] != 1 {
			t.Errorf("number %d was given %d times", n, seen[n])
		}
	}
}

// oneWinner has many writers try the same step, alone and in transactions: exactly one succeeds, the others fail by condition.
func oneWinner(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	for name, try := range map[string]func(i int) error{
		"apply": func(i int) error {
			_, err := s.Apply(t.Context(), table.Update(key, table.Change{Set: map[string]any{"owner": int64(i)}}, table.No("owner")))
			return err
		},
		"transact": func(i int) error {
			return s.Transact(t.Context(),
				table.Update(key, table.Change{Set: map[string]any{"owner": int64(i)}}, table.No("owner")),
				table.Put(table.Item{Key: table.Key{PK: pk, SK: fmt.Sprintf("T%d", i)}}, table.New()))
		},
	} {
		apply(t, s, table.Put(table.Item{Key: key}))
		var mu sync.Mutex
		var winners []int
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				err := try(i)
				if err != nil && !errors.Is(err, table.ErrCondition) {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil {
					mu.Lock()
					winners = append(winners, i)
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		item, _ := read(t, s, key)
		if len(winners) != 1 || item.Int("owner") != int64(winners[0]) {
			t.Errorf("%s: winners %v, owner %d", name, winners, item.Int("owner"))
		}
	}
	if n := len(sks(t, s, table.Query{PK: pk, Prefix: "T"})); n != 1 {
		t.Errorf("%d transactions wrote, want 1", n)
	}
}

func refusals(t *testing.T, s table.Table, pk string) {
	key := table.Key{PK: pk, SK: "I"}
	apply(t, s, table.Put(table.Item{Key: key}))
	for what, op := range map[string]table.Op{
		"[]byte":           table.Put(table.Item{Key: key, Attr: map[string]any{"a": []byte("x")}}),
		"float":            table.Update(key, table.Change{Set: map[string]any{"a": 1.5}}),
		"nil":              table.Put(table.Item{Key: key, Attr: map[string]any{"a": nil}}),
		"struct condition": table.Update(key, table.Change{}, table.Is("a", struct{}{})),
		"set and add":      table.Update(key, table.Change{Set: map[string]any{"a": "x"}, Add: map[string]int64{"a": 1}}),
		"set and remove":   table.Update(key, table.Change{Set: map[string]any{"a": "x"}, Remove: []string{"a"}}),
		"bare check":       table.Check(key),
		"empty key":        table.Put(table.Item{Key: table.Key{PK: pk}}),
		"half an index":    table.Put(table.Item{Key: key, IndexPK: "x"}),
	} {
		_, err := s.Apply(t.Context(), op)
		refused(t, what, err)
		refused(t, what+" in a transaction", s.Transact(t.Context(), op))
	}
}

func cancelled(t *testing.T, s table.Table, pk string) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := table.Key{PK: pk, SK: strings.Repeat("x", 10)}
	_, err := s.Get(ctx, key)
	_, err2 := s.Apply(ctx, table.Put(table.Item{Key: key}))
	err3 := s.Transact(ctx, table.Put(table.Item{Key: key}))
	_, err4 := table.All(ctx, s, table.Query{PK: pk})
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d of a cancelled context: %v", i, err)
		}
	}
	if _, ok := read(t, s, key); ok {
		t.Error("written under a cancelled context")
	}
}
