package run_test

import (
	"context"
	"iter"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/fault"
	"toolrounds/shared/model"
	"toolrounds/shared/table"
	"toolrounds/shared/tool"
)

// edgeTable is the table as a process reaches it.
type edgeTable struct{ p *process }

func (e *edgeTable) Get(ctx context.Context, keys ...table.Key) (found map[table.Key]table.Item, err error) {
	err = e.p.edge("get", func() (err error) { found, err = e.p.disk.Get(ctx, keys...); return err })
	if err != nil {
		found = nil
	}
	return found, err
}

func (e *edgeTable) Apply(ctx context.Context, op table.Op) (item table.Item, err error) {
	err = e.p.edge("write "+short(op.Key), func() (err error) {
		return e.p.watched([]table.Op{op}, func() error { item, err = e.p.disk.Apply(ctx, op); return err })
	})
	if err != nil {
		item = table.Item{}
	}
	return item, err
}

func (e *edgeTable) Transact(ctx context.Context, ops ...table.Op) error {
	return e.p.edge("transact "+short(ops[0].Key), func() error {
		return e.p.watched(ops, func() error { return e.p.disk.Transact(ctx, ops...) })
	})
}

// Batch may break off in the middle: each of its writes is an edge.
func (e *edgeTable) Batch(ctx context.Context, ops ...table.Op) error {
	for _, op := range ops {
		err := e.p.edge("batch "+short(op.Key), func() error {
			return e.p.watched([]table.Op{op}, func() error { return e.p.disk.Batch(ctx, op) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *edgeTable) Query(ctx context.Context, q table.Query) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		if err := e.p.edge("query", func() error { return nil }); err != nil {
			yield(table.Item{}, err)
			return
		}
		e.p.disk.Query(ctx, q)(yield)
	}
}

// short is a key without its ids.
func short(k table.Key) string { return k.PK[:1] + "/" + k.SK[:1] }

// watched does writes and holds them against two promises: a message which has its end is not written again, but for what is added to
// it later (P2), and a call's result is recorded once (P5).
func (w *world) watched(ops []table.Op, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := map[table.Key]bool{}
	for _, op := range ops {
		item, ok, err := table.One(context.Background(), &w.disk, op.Key)
		ended[op.Key] = err == nil && ok && item.Bool(chat.AttrDone) && item.String(chat.AttrRun) != ""
	}
	err := do()
	if err != nil {
		return err
	}
	for _, op := range ops {
		_, final := op.Change.Set[chat.AttrFinal]
		_, after := op.Change.Set[chat.AttrAfter]
		if _, result := op.Change.Set["result"]; result {
			w.results[op.Key]++
			if w.results[op.Key] > 1 {
				w.t.Errorf("P5: the result of %s is recorded again", op.Key.SK)
			}
		}
		if final {
			w.finals[op.Key]++
		}
		if ended[op.Key] && op.Kind != table.KindDelete && !(after && len(op.Change.Set) == 1) {
			w.t.Errorf("P2: message %s is written after its end: %+v", op.Key.SK, op.Change.Set)
		}
	}
	return nil
}

// machine starts and stops executions.
type machine struct{ p *process }

func (m *machine) Start(_ context.Context, name string, input any) error {
	return m.p.edge("start", func() error { m.p.start(name, input); return nil })
}

func (m *machine) Stop(_ context.Context, name, _ string) error {
	return m.p.edge("stop", func() error {
		m.p.world.mu.Lock()
		e := m.p.executions[name]
		m.p.world.mu.Unlock()
		if e != nil {
			e.cancel()
		}
		return nil
	})
}

// purger deletes partitions of the table itself.
type purger struct{ w *world }

func (p purger) Purge(ctx context.Context, pk string) error {
	for { // as on the real table: until nothing is found any more
		items, err := table.All(ctx, &p.w.disk, table.Query{PK: pk})
		if err != nil || len(items) == 0 {
			return err
		}
		for _, item := range items {
			if _, err := p.w.disk.Apply(ctx, table.Delete(item.Key)); err != nil {
				return err
			}
		}
	}
}

type accounts struct{}

func (accounts) User(_ context.Context, id string) (access.User, error) {
	if id != owner {
		return access.User{}, fault.New(fault.NotFound, "no such user")
	}
	return user, nil
}

type models struct{}

func (models) Task(context.Context) string { return "task-model" }

func (models) Resolve(_ context.Context, _ access.User, id string) (model.Resolved, error) {
	if id != "model" {
		return model.Resolved{}, fault.New(fault.Invalid, "Model not found")
	}
	return model.Resolved{ID: id, Upstream: "upstream-model", Listed: map[string]any{"id": id}, Params: map[string]any{},
		Meta: map[string]any{"toolIds": []any{"kit"}}}, nil
}

type toolkits struct{}

var kit = tool.Toolkit{ID: "kit", Offered: []tool.Spec{
	{Name: "add", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`)}, {Name: "slow", Parameters: []byte(`{"type":"object"}`)},
	{Name: "big", Parameters: []byte(`{"type":"object"}`)}, {Name: "broken", Parameters: []byte(`{"type":"object"}`)},
}}

func (toolkits) Readable(_ context.Context, _ access.User, ids []string) ([]tool.Toolkit, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return []tool.Toolkit{kit}, nil
}

func (toolkits) Load(context.Context, access.User, string) (tool.Loaded, error) {
	return tool.Loaded{Toolkit: kit}, nil
}

type files struct{}

func (files) Save(_ context.Context, _, _ string) (string, error) {
	return "/api/v1/files/image/content", nil
}
