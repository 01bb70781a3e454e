package dynamo_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"toolrounds/shared/blob"
	"toolrounds/shared/dynamo"
	"toolrounds/shared/table"
	"toolrounds/shared/table/tabletest"
)

// objects is a Large in memory.
type objects struct {
	mu     sync.Mutex
	bodies map[string][]byte
}

func (o *objects) Put(ctx context.Context, key string, body []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bodies == nil {
		o.bodies = map[string][]byte{}
	}
	o.bodies[key] = bytes.Clone(body)
	return ctx.Err()
}

func (o *objects) Get(_ context.Context, key string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	body, ok := o.bodies[key]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", key, fs.ErrNotExist)
	}
	return body, nil
}

func (o *objects) DeletePrefix(_ context.Context, prefix string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.bodies {
		if strings.HasPrefix(k, prefix) {
			delete(o.bodies, k)
		}
	}
	return nil
}

func (o *objects) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.bodies)
}

// newTable makes a table of its own at TEST_AWS_ENDPOINT, or skips.
func newTable(t testing.TB, large dynamo.Large) (*dynamo.Table, *dynamodb.Client, string) {
	endpoint := os.Getenv("TEST_AWS_ENDPOINT")
	if endpoint == "" {
		t.Skip("TEST_AWS_ENDPOINT is not set")
	}
	client := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	name := "t-" + rand.Text()
	s := func(n string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(n), AttributeType: types.ScalarAttributeTypeS}
	}
	schema := func(pk, sk string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
		}
	}
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{s("pk"), s("sk"), s("gsi1pk"), s("gsi1sk")}, KeySchema: schema("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("gsi1"), KeySchema: schema("gsi1pk", "gsi1sk"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = dynamodb.NewTableExistsWaiter(client).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
	})
	return dynamo.New(client, name, large), client, name
}

func TestTable(t *testing.T) {
	s, _, _ := newTable(t, new(objects))
	tabletest.Run(t, func(*testing.T) table.Table { return s })
}

// TestWithBucket runs the checks of large values on S3 itself.
func TestWithBucket(t *testing.T) {
	endpoint := os.Getenv("TEST_AWS_ENDPOINT")
	if endpoint == "" {
		t.Skip("TEST_AWS_ENDPOINT is not set")
	}
	client := blob.Client(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	name := "t-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	s, _, _ := newTable(t, blob.New(client, name))
	ctx, key := t.Context(), table.Key{PK: "C#a", SK: "META"}
	want := make(table.Blob, 6<<20)
	rand.Read(want)
	if _, err := s.Apply(ctx, table.Put(table.Item{Key: key, Attr: map[string]any{"b": want}})); err != nil {
		t.Fatal(err)
	}
	item, ok, err := table.One(ctx, s, key)
	if got, _ := item.Attr["b"].(table.Blob); !ok || err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %v, %d bytes", ok, err, len(got))
	}
	if err := s.Purge(ctx, "C#a"); err != nil {
		t.Fatal(err)
	}
	left, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &name})
	if err != nil || len(left.Contents) != 0 {
		t.Errorf("%d objects left, %v", len(left.Contents), err)
	}
}

func TestPurge(t *testing.T) {
	large := new(objects)
	s, _, _ := newTable(t, large)
	body := func(n int) table.Blob { return bytes.Repeat([]byte{byte(n)}, 40<<10) }
	var ops []table.Op
	for i := range 60 {
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: "C#a", SK: fmt.Sprintf("M#%03d", i)}, Attr: map[string]any{"b": body(i)}}))
	}
	other := table.Item{Key: table.Key{PK: "C#ab", SK: "META"}, Attr: map[string]any{"b": body(0)}}
	ops = append(ops, table.Put(other), ops[0])
	for _, op := range []func() error{
		func() error { return s.Batch(t.Context(), ops...) },
		func() error { // an overwritten value is purged as well
			_, err := s.Apply(t.Context(), table.Update(ops[0].Key, table.Change{Set: map[string]any{"b": body(99)}}))
			return err
		},
		func() error { return s.Purge(t.Context(), "C#a") },
		func() error { return s.Purge(t.Context(), "C#a") },
	} {
		if err := op(); err != nil {
			t.Fatal(err)
		}
	}
	if items, err := table.All(t.Context(), s, table.Query{PK: "C#a"}); err != nil || len(items) != 0 {
		t.Errorf("%d items left, %v", len(items), err)
	}
	if large.count() != 1 {
		t.Errorf("%d large values, want the one of the other partition", large.count())
	}
	if got, ok, err := table.One(t.Context(), s, other.Key); !ok || err != nil || len(got.Attr["b"].(table.Blob)) != 40<<10 {
		t.Errorf("the other partition: %v, %v", ok, err)
	}
}

// TestVanished reads an item whose large value is purged between the two reads.
func TestVanished(t *testing.T) {
	large := new(objects)
	s, _, _ := newTable(t, large)
	key := table.Key{PK: "C#a", SK: "META"}
	if _, err := s.Apply(t.Context(), table.Put(table.Item{Key: key, Attr: map[string]any{"b": make(table.Blob, 40<<10)}})); err != nil {
		t.Fatal(err)
	}
	if err := large.DeletePrefix(t.Context(), "large/C/"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the item is there, its value is not: %v", err)
	}
	if _, err := s.Apply(t.Context(), table.Delete(key)); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Get(t.Context(), key); err != nil || len(found) != 0 {
		t.Errorf("purged: %v, %v", found, err)
	}
}

// TestSlimKeepsWriters grows an item by many writers at once beyond what fits: none of the values is lost.
func TestSlimKeepsWriters(t *testing.T) {
	s, _, _ := newTable(t, new(objects))
	key := table.Key{PK: "C#a", SK: "META"}
	if _, err := s.Apply(t.Context(), table.Put(table.Item{Key: key})); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 24 {
		wait.Go(func() {
			_, err := s.Apply(t.Context(), table.Update(key, table.Change{Set: map[string]any{fmt.Sprint("b", i): make(table.Blob, 30_000+i)}}))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	item, _, err := table.One(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 24 {
		if b, _ := item.Attr[fmt.Sprint("b", i)].(table.Blob); len(b) != 30_000+i {
			t.Errorf("b%d has %d bytes", i, len(b))
		}
	}
}

func BenchmarkTable(b *testing.B) {
	s, _, _ := newTable(b, new(objects))
	ctx := b.Context()
	key := table.Key{PK: "C#a", SK: "META"}
	var ops []table.Op
	for i := range 10 {
		ops = append(ops, table.Put(table.Item{Key: table.Key{PK: "C#a", SK: fmt.Sprintf("M#%d", i)}, Attr: map[string]any{"n": int64(0), "b": make(table.Blob, 500)}}))
	}
	if err := s.Batch(ctx, append(ops, table.Put(table.Item{Key: key}))...); err != nil {
		b.Fatal(err)
	}
	change := table.Change{Add: map[string]int64{"n": 1}}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"Get", func() error { _, err := s.Get(ctx, key); return err }},
		{"Apply", func() error { _, err := s.Apply(ctx, table.Update(key, change)); return err }},
		{"Transact3", func() error {
			return s.Transact(ctx, table.Update(key, change), table.Update(ops[0].Key, change), table.Put(ops[1].Item))
		}},
		{"Query10", func() error { _, err := table.All(ctx, s, table.Query{PK: "C#a", Prefix: "M#"}); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
