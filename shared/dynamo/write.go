package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"toolrounds/shared/table"
)

// Apply implements table.Table. Conflicts with a transaction on the same item and throttling are repeated for about 3 s.
func (t *Table) Apply(ctx context.Context, op table.Op) (table.Item, error) {
	item, err := t.apply(ctx, op, inlineBlob)
	if tooLarge(err) {
		if err = t.slim(ctx, op.Key); err == nil {
			item, err = t.apply(ctx, op, smallBlob)
		}
	}
	if err != nil {
		return table.Item{}, fmt.Errorf("write %s/%s: %w", op.Key.PK, op.Key.SK, err)
	}
	return item, nil
}

func (t *Table) apply(ctx context.Context, op table.Op, inline int) (table.Item, error) {
	writes, err := plan([]table.Op{op}, inline)
	if err != nil {
		return table.Item{}, err
	}
	if err := t.store(ctx, writes); err != nil {
		return table.Item{}, err
	}
	wait := newBackoff()
	for {
		item, err := t.send(ctx, writes[0])
		var failed *types.ConditionalCheckFailedException
		switch {
		case err == nil:
			return item, nil
		case errors.As(err, &failed):
			return table.Item{}, &table.ConditionError{Failed: []table.Key{op.Key}}
		case !passing(err):
			return table.Item{}, err
		}
		if err := wait.sleep(ctx, err); err != nil {
			return table.Item{}, err
		}
	}
}

// send makes one attempt at a single write.
func (t *Table) send(ctx context.Context, w *write) (table.Item, error) {
	var e expression
	cond := e.conditions(w.op.Conds)
	switch w.op.Kind {
	case table.KindPut:
		raw, err := image(w.op.Item, w.large)
		if err != nil || e.err != nil {
			return table.Item{}, errors.Join(err, e.err)
		}
		_, err = t.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &t.name, Item: raw,
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
		return copyOf(w.op.Item), err
	case table.KindUpdate:
		update := e.update(w.op.Change, w.large)
		if e.err != nil {
			return table.Item{}, e.err
		}
		out, err := t.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &t.name, Key: keyOf(w.op.Key), UpdateExpression: update, ReturnValues: types.ReturnValueAllNew,
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
		if err != nil {
			return table.Item{}, err
		}
		return t.updated(ctx, w, out.Attributes)
	case table.KindDelete:
		if e.err != nil {
			return table.Item{}, e.err
		}
		_, err := t.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &t.name, Key: keyOf(w.op.Key),
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		})
		return table.Item{}, err
	case table.KindCheck:
		return t.check(ctx, w.op)
	}
	return table.Item{}, fmt.Errorf("unknown kind of write %d", w.op.Kind)
}

// check is a condition alone. DynamoDB has it only in transactions.
func (t *Table) check(ctx context.Context, op table.Op) (table.Item, error) {
	if err := t.Transact(ctx, op); err != nil {
		return table.Item{}, err
	}
	item, _, err := table.One(ctx, t, op.Key)
	return item, err
}

// updated is the item after an update; the values that the update itself brought are not fetched back.
func (t *Table) updated(ctx context.Context, w *write, raw map[string]types.AttributeValue) (table.Item, error) {
	s, err := decode(raw)
	if err != nil {
		return table.Item{}, err
	}
	s.large = slices.DeleteFunc(s.large, func(l largeValue) bool {
		p, ok := w.large[l.attr]
		if ok = ok && p == l.pointer; ok {
			s.item.Attr[l.attr] = slices.Clone(w.op.Change.Set[l.attr].(table.Blob))
		}
		return ok
	})
	all := []stored{s}
	if err := t.load(ctx, all); err != nil {
		return table.Item{}, fmt.Errorf("written, but reading it back failed: %w", err)
	}
	return all[0].item, nil
}

// Transact implements table.Table. An attempt that was cancelled by conflict or throttling is repeated for about 3 s; only failed
// conditions make a *table.ConditionError.
func (t *Table) Transact(ctx context.Context, ops ...table.Op) error {
	if len(ops) == 0 {
		return nil
	}
	err := t.transact(ctx, ops, inlineBlob)
	if tooLarge(err) {
		for _, op := range ops {
			if op.Kind == table.KindUpdate {
				if err := t.slim(ctx, op.Key); err != nil {
					return fmt.Errorf("transaction of %d writes: %w", len(ops), err)
				}
			}
		}
		err = t.transact(ctx, ops, smallBlob)
	}
	if err != nil {
		return fmt.Errorf("transaction of %d writes: %w", len(ops), err)
	}
	return nil
}

func (t *Table) transact(ctx context.Context, ops []table.Op, inline int) error {
	writes, err := plan(ops, inline)
	if err != nil {
		return err
	}
	if err := t.store(ctx, writes); err != nil {
		return err
	}
	items := make([]types.TransactWriteItem, len(writes))
	for i, w := range writes {
		if items[i], err = t.transactItem(w); err != nil {
			return fmt.Errorf("%s/%s: %w", w.op.Key.PK, w.op.Key.SK, err)
		}
	}
	wait := newBackoff()
	token := rand.Text()
	for {
		_, err := t.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: items, ClientRequestToken: &token,
		})
		var cancelled *types.TransactionCanceledException
		switch {
		case err == nil:
			return nil
		case errors.As(err, &cancelled):
			if err := verdict(cancelled, ops); err != nil {
				return err
			}
			// Cancelled for certain, so the next attempt is another request.
			token = rand.Text()
		case !passing(err):
			return err
		}
		if err := wait.sleep(ctx, err); err != nil {
			return err
		}
	}
}

// verdict reads why a transaction was cancelled; nil means that it may be tried again.
func verdict(cancelled *types.TransactionCanceledException, ops []table.Op) error {
	var failed []table.Key
	again := false
	var other error
	for i, r := range cancelled.CancellationReasons {
		switch code := aws.ToString(r.Code); code {
		case "", "None":
		case "ConditionalCheckFailed":
			if i < len(ops) {
				failed = append(failed, ops[i].Key)
			}
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded":
			again = true
		default:
			other = &smithy.GenericAPIError{Code: code, Message: aws.ToString(r.Message)}
		}
	}
	switch {
	case failed != nil:
		return &table.ConditionError{Failed: failed}
	case other != nil:
		return other
	case again:
		return nil
	}
	return cancelled
}

func (t *Table) transactItem(w *write) (types.TransactWriteItem, error) {
	var e expression
	cond := e.conditions(w.op.Conds)
	kind := w.op.Kind
	var update *string
	if kind == table.KindUpdate {
		if update = e.update(w.op.Change, w.large); update == nil {
			kind = table.KindCheck // a transaction takes no update without a change
		}
	}
	if e.err != nil {
		return types.TransactWriteItem{}, e.err
	}
	switch kind {
	case table.KindPut:
		raw, err := image(w.op.Item, w.large)
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &t.name, Item: raw,
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}, err
	case table.KindUpdate:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: &t.name, Key: keyOf(w.op.Key), UpdateExpression: update,
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}, nil
	case table.KindDelete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &t.name, Key: keyOf(w.op.Key),
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}, nil
	case table.KindCheck:
		if cond == nil {
			return types.TransactWriteItem{}, errors.New("a check without a condition")
		}
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &t.name, Key: keyOf(w.op.Key),
			ConditionExpression: cond, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}, nil
	}
	return types.TransactWriteItem{}, fmt.Errorf("unknown kind of write %d", w.op.Kind)
}

// passing tells whether the error is one that goes away: another transaction on the item, or throttling beyond the SDK's own patience.
func passing(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "TransactionConflictException", "TransactionInProgressException", "ThrottlingException", "RequestLimitExceeded",
		"ProvisionedThroughputExceededException":
		return true
	}
	return false
}

// tooLarge tells whether DynamoDB refused an item for its size.
func tooLarge(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "exceeded the maximum allowed size")
}

func copyOf(item table.Item) table.Item {
	item.Attr = maps.Clone(item.Attr)
	for k, v := range item.Attr {
		switch v := v.(type) {
		case table.Blob:
			item.Attr[k] = slices.Clone(v)
		case int:
			item.Attr[k] = int64(v)
		}
	}
	return item
}
