// Package dynamo keeps the project's table (package table) in one DynamoDB table, with an S3 bucket behind it for large values.
//
// The DynamoDB table has the string keys pk and sk, the index gsi1 (gsi1pk, gsi1sk, all attributes projected) and exp as its TTL
// attribute. Attributes lie at the top level under their own names; a name that would hide one of those five, or that starts with
// "@", is stored with "@" in front. A string is an S, an int64 an N, a bool a BOOL and a Blob a B.
//
// A Blob over 32 KB is stored, gzip-compressed, as an object of its own before the item is written, and the item keeps a map
// {s3: key, len: bytes} in its place; smaller ones follow, largest first, when an item would pass 300 KB or a transaction 3 MB. So
// no value is too large, and nobody above notices. Objects are named by partition and content:
//
//	large/<first part of pk>/<hash of pk>/<hash of sk, attribute and content>
//
// A new value is a new object, hence a reader that holds an item of a moment ago still finds what it points to, and nothing has to
// be deleted on overwrite. What is left behind goes with Purge of the partition, or, for the partitions whose items expire
// (large/R/, large/L/), by a lifecycle rule of the bucket.
//
// The promises of table.Table hold, with one thing to know: the SDK sends a write again when its answer was lost. Transact carries a
// token, so a repetition does nothing; a repeated Apply may meet its own first attempt (a condition then fails, an Add adds twice).
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"toolrounds/shared/table"
)

// Large stores big values. Get of what is not there returns an error that wraps fs.ErrNotExist; Put of a key that exists
// overwrites it (with the same content: keys hold a content hash).
type Large interface {
	Put(ctx context.Context, key string, body []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	DeletePrefix(ctx context.Context, prefix string) error
}

// Table is a table.Table on DynamoDB. It is safe for concurrent use.
type Table struct {
	client *dynamodb.Client
	name   string
	large  Large
}

var _ table.Table = (*Table)(nil)

// New returns the table of that name; large takes the values that do not fit into items.
func New(client *dynamodb.Client, tableName string, large Large) *Table {
	return &Table{client: client, name: tableName, large: large}
}

// index is the name of the sparse index.
const index = "gsi1"

// Get implements table.Table: strongly consistent, one request for each 100 keys.
func (t *Table) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	raws, err := t.read(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("get %d items: %w", len(keys), err)
	}
	found := make(map[table.Key]table.Item, len(raws))
	for item, err := range t.resolve(ctx, raws, false) {
		if err != nil {
			return nil, fmt.Errorf("get %d items: %w", len(keys), err)
		}
		found[item.Key] = item
	}
	return found, nil
}

// read returns the items as stored.
func (t *Table) read(ctx context.Context, keys []table.Key) ([]stored, error) {
	if len(keys) == 1 {
		out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &t.name, Key: keyOf(keys[0]), ConsistentRead: aws.Bool(true),
		})
		if err != nil || out.Item == nil {
			return nil, err
		}
		return decodeAll([]map[string]types.AttributeValue{out.Item})
	}
	keys = distinct(keys) // DynamoDB refuses a key that comes twice
	var found []stored
	for len(keys) > 0 {
		n := min(len(keys), 100)
		chunk := make([]map[string]types.AttributeValue, n)
		for i, k := range keys[:n] {
			chunk[i] = keyOf(k)
		}
		items, err := t.readChunk(ctx, chunk)
		if err != nil {
			return nil, err
		}
		found, keys = append(found, items...), keys[n:]
	}
	return found, nil
}

func (t *Table) readChunk(ctx context.Context, keys []map[string]types.AttributeValue) ([]stored, error) {
	var found []stored
	wait := newBackoff()
	for {
		out, err := t.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{t.name: {Keys: keys, ConsistentRead: aws.Bool(true)}},
		})
		if err != nil {
			return nil, err
		}
		items, err := decodeAll(out.Responses[t.name])
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
		rest := out.UnprocessedKeys[t.name].Keys
		if len(rest) == 0 {
			return found, nil
		}
		// 16 MB an answer is the ordinary reason for a rest, so only an answer that brought nothing counts against the patience.
		if len(rest) < len(keys) {
			wait = newBackoff()
		} else if err := wait.sleep(ctx, errUnprocessed); err != nil {
			return nil, err
		}
		keys = rest
	}
}

var errUnprocessed = errors.New("the table is too busy: keys left unprocessed")

// Query implements table.Table. Pages are fetched as the items are taken; large values of a page in parallel, at most about 32 MB
// ahead of the reader.
func (t *Table) Query(ctx context.Context, q table.Query) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		fail := func(err error) { yield(table.Item{}, fmt.Errorf("query %s: %w", q.PK, err)) }
		in := t.queryInput(q)
		left := q.Limit
		for {
			if q.Limit > 0 {
				in.Limit = aws.Int32(int32(min(left, 1000)))
			}
			out, err := t.client.Query(ctx, in)
			if err != nil {
				fail(err)
				return
			}
			raws, err := decodeAll(out.Items)
			if err != nil {
				fail(err)
				return
			}
			for item, err := range t.resolve(ctx, raws, q.Lazy) {
				if err != nil {
					fail(err)
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			left -= len(raws)
			if len(out.LastEvaluatedKey) == 0 || (q.Limit > 0 && left <= 0) {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

func (t *Table) queryInput(q table.Query) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &t.name,
		ScanIndexForward:          aws.Bool(!q.Descending),
		ConsistentRead:            aws.Bool(!q.Index),
		KeyConditionExpression:    aws.String("#p = :p"),
		ExpressionAttributeNames:  map[string]string{"#p": attrPK},
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(q.PK)},
	}
	sk := attrSK
	if q.Index {
		in.IndexName, in.ExpressionAttributeNames["#p"], sk = aws.String(index), attrIndexPK, attrIndexSK
	}
	switch {
	case q.Prefix != "":
		in.KeyConditionExpression = aws.String("#p = :p AND begins_with(#s, :s)")
		in.ExpressionAttributeNames["#s"], in.ExpressionAttributeValues[":s"] = sk, text(q.Prefix)
	case q.Until != "":
		in.KeyConditionExpression = aws.String("#p = :p AND #s < :s")
		in.ExpressionAttributeNames["#s"], in.ExpressionAttributeValues[":s"] = sk, text(q.Until)
	}
	return in
}

// resolve turns stored items into items, in their order. An item whose large value has vanished meanwhile is read again: it was
// purged, and is left out then, or it was purged and written anew.
func (t *Table) resolve(ctx context.Context, raws []stored, lazy bool) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		for len(raws) > 0 {
			n := window(raws)
			if !lazy {
				if err := t.load(ctx, raws[:n]); err != nil {
					yield(table.Item{}, err)
					return
				}
			}
			for _, raw := range raws[:n] {
				if !raw.gone && !yield(raw.item, nil) {
					return
				}
			}
			raws = raws[n:]
		}
	}
}

// load fills in the large values.
func (t *Table) load(ctx context.Context, raws []stored) error {
	type fetch struct{ item, value int }
	var fetches []fetch
	for i, raw := range raws {
		for v := range raw.large {
			fetches = append(fetches, fetch{i, v})
		}
	}
	bodies := make([][]byte, len(fetches))
	lost := make([]bool, len(raws))
	missing := make([]bool, len(fetches))
	err := each(ctx, len(fetches), func(ctx context.Context, i int) error {
		body, err := t.fetch(ctx, raws[fetches[i].item].large[fetches[i].value].pointer)
		if errors.Is(err, fs.ErrNotExist) {
			missing[i] = true
			return nil
		}
		bodies[i] = body
		return err
	})
	if err != nil {
		return err
	}
	for i, f := range fetches {
		raws[f.item].item.Attr[raws[f.item].large[f.value].attr] = table.Blob(bodies[i])
		lost[f.item] = lost[f.item] || missing[i]
	}
	for i := range raws {
		if lost[i] {
			if err := t.reload(ctx, &raws[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table) reload(ctx context.Context, raw *stored) error {
	again, err := t.read(ctx, []table.Key{raw.item.Key})
	if err != nil {
		return err
	}
	if len(again) == 0 {
		raw.gone = true
		return nil
	}
	for _, l := range again[0].large {
		body, err := t.fetch(ctx, l.pointer)
		if err != nil {
			return fmt.Errorf("large value %s of %s/%s: %w", l.attr, raw.item.PK, raw.item.SK, err)
		}
		again[0].item.Attr[l.attr] = table.Blob(body)
	}
	*raw = again[0]
	return nil
}

func distinct(keys []table.Key) []table.Key {
	seen := make(map[table.Key]bool, len(keys))
	var out []table.Key
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}
