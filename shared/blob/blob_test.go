package blob_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"toolrounds/shared/blob"
	"toolrounds/shared/dynamo"
)

var _ dynamo.Large = (*blob.Bucket)(nil)

func bucket(t *testing.T) *blob.Bucket {
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
	return blob.New(client, name)
}

func TestBucket(t *testing.T) {
	b := bucket(t)
	ctx := t.Context()
	if _, err := b.Get(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of nothing: %v", err)
	}
	for _, body := range [][]byte{{}, []byte("one"), bytes.Repeat([]byte{0, 255}, 3<<20)} {
		if err := b.Put(ctx, "a/b c#ä", body); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, "a/b c#ä"); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
		}
	}
	for range 2 {
		if err := b.Delete(ctx, "a/b c#ä"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Get(ctx, "a/b c#ä"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of a deleted one: %v", err)
	}
}

func TestDeletePrefix(t *testing.T) {
	b := bucket(t)
	ctx := t.Context()
	for i := range 1010 { // a listing holds 1,000
		if err := b.Put(ctx, fmt.Sprintf("p/%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(ctx, "q/0", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.DeletePrefix(ctx, "p/"); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 999, 1009} {
		if _, err := b.Get(ctx, fmt.Sprintf("p/%d", i)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("p/%d is left: %v", i, err)
		}
	}
	if _, err := b.Get(ctx, "q/0"); err != nil {
		t.Error(err)
	}
	if err := b.DeletePrefix(ctx, ""); err == nil {
		t.Error("the empty prefix empties the bucket")
	}
}

func TestPresign(t *testing.T) {
	b := bucket(t)
	put, err := b.PresignPut(t.Context(), "tmp/r", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, put, strings.NewReader(`{"content":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json") // whatever a client sends that knows nothing of S3
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()
	get, err := b.PresignGet(t.Context(), "tmp/r", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = http.Get(get)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != `{"content":"x"}` {
		t.Errorf("%q, %v", body, err)
	}
}

// TestPresignedShape checks what the uploader is bound to: nothing but the host.
func TestPresignedShape(t *testing.T) {
	endpoint := "http://127.0.0.1:1"
	b := blob.New(blob.Client(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), "bucket")
	put, err := b.PresignPut(t.Context(), "k", time.Minute)
	if err != nil || !strings.HasPrefix(put, endpoint+"/bucket/k?") || !strings.Contains(put, "X-Amz-SignedHeaders=host&") || strings.Contains(put, "checksum") {
		t.Errorf("%s, %v", put, err)
	}
}
