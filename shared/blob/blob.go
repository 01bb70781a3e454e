// Package blob keeps opaque values in one S3 bucket: the large values of the table (package dynamo), results that the tool
// container uploads itself, and files. Keys are the caller's; nothing here knows what lies behind them.
package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Bucket is one S3 bucket. It is safe for concurrent use.
type Bucket struct {
	client *s3.Client
	name   string
}

// New returns the bucket of that name.
func New(client *s3.Client, bucket string) *Bucket { return &Bucket{client: client, name: bucket} }

// Client returns an S3 client for the configuration. With an endpoint of one's own (AWS_ENDPOINT_URL, or BaseEndpoint in cfg) it
// puts the bucket into the path, because no DNS name leads to bucket.<endpoint>.
func Client(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = cfg.BaseEndpoint != nil || os.Getenv("AWS_ENDPOINT_URL") != "" || os.Getenv("AWS_ENDPOINT_URL_S3") != ""
		// Checksums are sent and checked only where S3 demands them: presigned URLs are used by clients that compute none.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
}

// Put stores the value, in place of an older one.
func (b *Bucket) Put(ctx context.Context, key string, body []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body)})
	if err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	return nil
}

// Get returns the value. The error wraps fs.ErrNotExist when there is none.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		var missing *types.NoSuchKey
		if errors.As(err, &missing) {
			return nil, fmt.Errorf("get object %s: %w", key, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("get object %s: %w", key, err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", key, err)
	}
	return body, nil
}

// Delete removes the value, if it is there.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if _, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}); err != nil {
		return fmt.Errorf("delete object %s: %w", key, err)
	}
	return nil
}

// DeletePrefix removes all values whose keys start with the prefix, which must not be empty. It may be repeated.
func (b *Bucket) DeletePrefix(ctx context.Context, prefix string) error {
	if prefix == "" {
		return errors.New("delete objects: no prefix")
	}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list objects %s: %w", prefix, err)
		}
		if len(page.Contents) == 0 {
			continue
		}
		objects := make([]types.ObjectIdentifier, len(page.Contents))
		for i, o := range page.Contents {
			objects[i].Key = o.Key
		}
		out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return fmt.Errorf("delete objects %s: %w", prefix, err)
		}
		if len(out.Errors) > 0 {
			e := out.Errors[0]
			return fmt.Errorf("delete objects %s: %d failed, the first: %s %s: %s", prefix, len(out.Errors),
				aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
		}
	}
	return nil
}

// PresignPut returns a URL to which anybody may PUT the value for ttl, and not longer than the credentials that signed it live
// (those of a Lambda role: some hours).
func (b *Bucket) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	r, err := s3.NewPresignClient(b.client).PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key}, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", fmt.Errorf("presign put of %s: %w", key, err)
	}
	return r.URL, nil
}

// PresignGet returns a URL from which anybody may GET the value for ttl, within the same bound as PresignPut.
func (b *Bucket) PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error) {
	r, err := s3.NewPresignClient(b.client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key}, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", fmt.Errorf("presign get of %s: %w", key, err)
	}
	return r.URL, nil
}
