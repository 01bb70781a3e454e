package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"toolrounds/shared/table"
)

// Batch implements table.Table: 25 writes a request; of two on the same key the later one counts. Updates, checks and conditions
// are refused. On error some of the writes may have been done; the caller repeats them all.
func (t *Table) Batch(ctx context.Context, ops ...table.Op) error {
	last := make(map[table.Key]int, len(ops))
	for i, op := range ops {
		if (op.Kind != table.KindPut && op.Kind != table.KindDelete) || len(op.Conds) > 0 {
			return fmt.Errorf("batch: write %d on %s/%s is no unconditional put or delete", i, op.Key.PK, op.Key.SK)
		}
		last[op.Key] = i
	}
	var chunk []table.Op
	flush := func() error {
		defer func() { chunk = chunk[:0] }()
		return t.batch(ctx, chunk)
	}
	for i, op := range ops {
		if last[op.Key] != i {
			continue
		}
		if chunk = append(chunk, op); len(chunk) == 25 {
			if err := flush(); err != nil {
				return fmt.Errorf("batch of %d writes: %w", len(ops), err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("batch of %d writes: %w", len(ops), err)
	}
	return nil
}

func (t *Table) batch(ctx context.Context, ops []table.Op) error {
	if len(ops) == 0 {
		return nil
	}
	writes, err := plan(ops, inlineBlob)
	if err != nil {
		return err
	}
	if err := t.store(ctx, writes); err != nil {
		return err
	}
	requests := make([]types.WriteRequest, len(writes))
	for i, w := range writes {
		if w.op.Kind == table.KindDelete {
			requests[i].DeleteRequest = &types.DeleteRequest{Key: keyOf(w.op.Key)}
			continue
		}
		raw, err := image(w.op.Item, w.large)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", w.op.Key.PK, w.op.Key.SK, err)
		}
		requests[i].PutRequest = &types.PutRequest{Item: raw}
	}
	return t.writeAll(ctx, requests)
}

func (t *Table) writeAll(ctx context.Context, requests []types.WriteRequest) error {
	wait := newBackoff()
	for {
		out, err := t.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{t.name: requests},
		})
		switch {
		case err == nil:
			requests = out.UnprocessedItems[t.name]
			if len(requests) == 0 {
				return nil
			}
			err = errUnprocessed
		case !passing(err):
			return err
		}
		if err := wait.sleep(ctx, err); err != nil {
			return err
		}
	}
}

// Purge deletes all items of a partition and then all its large values, those included that no item points to any more. It may be
// repeated; a writer that comes after it must be fenced by a condition (its large value may stay behind until the next Purge).
func (t *Table) Purge(ctx context.Context, pk string) error {
	for { // a write that was under way may land behind the reader; once an item it depends on is gone, none does
		n, err := t.sweepOnce(ctx, pk)
		if err != nil {
			return fmt.Errorf("purge %s: %w", pk, err)
		}
		if n == 0 {
			break
		}
	}
	if err := t.large.DeletePrefix(ctx, prefixOf(pk)); err != nil {
		return fmt.Errorf("purge %s: %w", pk, err)
	}
	return nil
}

// sweepOnce deletes the items of a partition that one reading finds, and returns how many.
func (t *Table) sweepOnce(ctx context.Context, pk string) (found int, err error) {
	in := t.queryInput(table.Query{PK: pk})
	in.ProjectionExpression = aws.String("#p, #k")
	in.ExpressionAttributeNames["#k"] = attrSK
	for {
		out, err := t.client.Query(ctx, in)
		if err != nil {
			return found, err
		}
		found += len(out.Items)
		for rest := out.Items; len(rest) > 0; {
			n := min(len(rest), 25)
			requests := make([]types.WriteRequest, n)
			for i, key := range rest[:n] {
				requests[i].DeleteRequest = &types.DeleteRequest{Key: key}
			}
			if err := t.writeAll(ctx, requests); err != nil {
				return found, err
			}
			rest = rest[n:]
		}
		if len(out.LastEvaluatedKey) == 0 {
			return found, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// slim sends the Blobs of a stored item elsewhere, so that an update finds room. Each goes by a condition that it has not changed
// meanwhile, so nothing of a concurrent writer is lost.
func (t *Table) slim(ctx context.Context, key table.Key) error {
	raws, err := t.read(ctx, []table.Key{key})
	if err != nil || len(raws) == 0 {
		return err
	}
	for attr, v := range raws[0].item.Attr {
		b, ok := v.(table.Blob)
		if !ok || len(b) <= smallBlob {
			continue
		}
		change := table.Change{Set: map[string]any{attr: b}}
		w := &write{op: table.Update(key, change), large: map[string]pointer{attr: pointerTo(key, attr, b)}, stored: map[string]bool{}}
		if err := t.store(ctx, []*write{w}); err != nil {
			return err
		}
		var e expression
		update := e.update(change, w.large)
		cond := e.name(outer(attr)) + " = " + e.value(b)
		_, err := t.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &t.name, Key: keyOf(key), UpdateExpression: update, ConditionExpression: &cond,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
		var failed *types.ConditionalCheckFailedException
		if err != nil && !errors.As(err, &failed) {
			return fmt.Errorf("make room in %s/%s: %w", key.PK, key.SK, err)
		}
	}
	return nil
}
