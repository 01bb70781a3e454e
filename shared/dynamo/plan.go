package dynamo

import (
	"fmt"

	"toolrounds/shared/table"
)

// write is an operation with the decision which of its Blobs lie elsewhere.
type write struct {
	op     table.Op
	large  map[string]pointer
	stored map[string]bool
}

// blobs returns the attributes that the operation writes.
func (w *write) blobs() map[string]any {
	switch w.op.Kind {
	case table.KindPut:
		return w.op.Item.Attr
	case table.KindUpdate:
		return w.op.Change.Set
	}
	return nil
}

// plan decides which Blobs go elsewhere: all above inline bytes, then the largest until no item has over itemSize bytes and all
// together have at most requestSize.
func plan(ops []table.Op, inline int) ([]*write, error) {
	writes := make([]*write, len(ops))
	sizes, total := make([]int, len(ops)), 0
	for i, op := range ops {
		w := &write{op: op, large: map[string]pointer{}, stored: map[string]bool{}}
		for attr, v := range w.blobs() {
			if b, ok := v.(table.Blob); ok && len(b) > inline {
				w.large[attr] = pointerTo(op.Key, attr, b)
			}
		}
		for sizes[i] = w.size(); sizes[i] > itemSize; sizes[i] = w.size() {
			if !w.shrink() {
				break // strings alone: DynamoDB tells whether it takes them
			}
		}
		writes[i] = w
		total += sizes[i]
	}
	for total > requestSize {
		largest := 0
		for i := range sizes {
			if sizes[i] > sizes[largest] {
				largest = i
			}
		}
		if !writes[largest].shrink() {
			return nil, fmt.Errorf("writes of %d bytes together, without a Blob to store elsewhere", total)
		}
		total -= sizes[largest]
		sizes[largest] = writes[largest].size()
		total += sizes[largest]
	}
	return writes, nil
}

// shrink sends the largest Blob that is still inline elsewhere. It returns false when none is worth it.
func (w *write) shrink() bool {
	name, size := "", smallBlob/4 // below, the pointer is as large as the value
	for attr, v := range w.blobs() {
		if b, ok := v.(table.Blob); ok && len(b) > size {
			if _, elsewhere := w.large[attr]; !elsewhere {
				name, size = attr, len(b)
			}
		}
	}
	if name == "" {
		return false
	}
	w.large[name] = pointerTo(w.op.Key, name, w.blobs()[name].(table.Blob))
	return true
}

// size is about what DynamoDB counts for what is written.
func (w *write) size() int {
	n := len(w.op.Key.PK) + len(w.op.Key.SK) + len(w.op.Item.IndexPK) + len(w.op.Item.IndexSK) + 64
	for attr, v := range w.blobs() {
		n += len(attr) + 1
		switch v := v.(type) {
		case string:
			n += len(v)
		case table.Blob:
			if p, ok := w.large[attr]; ok {
				n += len(p.key) + 32
			} else {
				n += len(v)
			}
		default:
			n += 21
		}
	}
	return n
}
