package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// A caller that does not know whether its request arrived sends it again under the same Idempotency-Key, and gets the runs of the first
// one: while they are open, and after they have ended.

// repeatTTL is how long a key leads to its runs.
const repeatTTL = 24 * time.Hour

// keyOf is the body's key for a field that the HTTP header of that name fills.
const keyOf = "idempotency_key"

const (
	textOtherBody = "This Idempotency-Key was used for another request."
	attrPrint     = "print"
	attrUntil     = "until"
)

// repeat is a request's key, and what is known under it.
type repeat struct {
	key   table.Key // zero: the request has none
	print string    // of the request
	write table.Cond
}

func sum(raw []byte) string {
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// again finds the runs of an earlier request with the key of this one. Fault: Unprocessed (the earlier one asked for something else).
func (a *acceptance) again(ctx context.Context) (Accepted, bool, error) {
	key := text(a.body, keyOf)
	if key == "" {
		return Accepted{}, false, nil
	}
	rest := maps.Clone(a.body)
	delete(rest, keyOf)
	a.repeat = repeat{key: table.Repeat(a.user.ID, sum([]byte(key))), print: sum(table.MustJSON(rest)), write: table.New()}
	item, ok, err := table.One(ctx, a.Table, a.repeat.key)
	if err != nil {
		return Accepted{}, false, fmt.Errorf("read idempotency key: %w", err)
	}
	switch {
	case !ok:
		return Accepted{}, false, nil
	case item.Int(attrUntil) < a.Now().Unix(): // the table has not got round to drop it
		a.repeat.write = table.Is(attrUntil, item.Int(attrUntil))
		return Accepted{}, false, nil
	case item.String(attrPrint) != a.repeat.print:
		return Accepted{}, false, fault.New(fault.Unprocessed, textOtherBody)
	}
	var first Accepted
	return first, true, item.JSON(attrDoc, &first)
}

// remember is the write that keeps the key.
func (a *acceptance) remember(ops []table.Op) []table.Op {
	if a.repeat.key == (table.Key{}) {
		return ops
	}
	until := a.Now().Add(repeatTTL).Unix()
	return append(ops, table.Put(table.Item{Key: a.repeat.key, Expires: until, Attr: map[string]any{
		attrPrint: a.repeat.print, attrUntil: until, attrDoc: table.MustJSON(a.accepted()),
	}}, a.repeat.write))
}
