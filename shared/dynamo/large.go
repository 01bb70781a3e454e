package dynamo

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"toolrounds/shared/table"
)

// Sizes in bytes. DynamoDB's own limits are 400 KB an item and 4 MB a transaction; an update may meet attributes that it does not
// see, so there is room below both.
const (
	inlineBlob  = 32 << 10
	smallBlob   = 1 << 10
	itemSize    = 300 << 10
	requestSize = 3 << 20
)

// What may be under way at once for one call.
const (
	parallel      = 8
	windowValues  = 16
	windowSize    = 32 << 20
	largePrefix   = "large/"
	partitionHash = 16 // bytes
)

// pointer stands in an item for a value that lies elsewhere.
type pointer struct {
	key  string
	size int // of the value, uncompressed
}

// prefixOf is where the large values of a partition lie.
func prefixOf(pk string) string {
	kind, _, _ := strings.Cut(pk, "#")
	hash := sha256.Sum256([]byte(pk))
	return largePrefix + kind + "/" + hex.EncodeToString(hash[:partitionHash]) + "/"
}

func pointerTo(key table.Key, attr string, value table.Blob) pointer {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s", len(key.SK), key.SK, len(attr), attr)
	h.Write(value)
	return pointer{key: prefixOf(key.PK) + hex.EncodeToString(h.Sum(nil)), size: len(value)}
}

// fetch reads a large value.
func (t *Table) fetch(ctx context.Context, p pointer) ([]byte, error) {
	body, err := t.large.Get(ctx, p.key)
	if err != nil {
		return nil, fmt.Errorf("large value %s: %w", p.key, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("large value %s: %w", p.key, err)
	}
	value := make([]byte, p.size)
	if _, err := io.ReadFull(z, value); err != nil {
		return nil, fmt.Errorf("large value %s: %w", p.key, err)
	}
	if n, err := z.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) { // the checksum is verified at the end
		return nil, fmt.Errorf("large value %s is not of %d bytes (%v)", p.key, p.size, err)
	}
	return value, nil
}

func pack(value []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(value); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// store puts the large values of the writes where they are to lie, before any item points to them.
func (t *Table) store(ctx context.Context, writes []*write) error {
	type put struct {
		p     pointer
		value table.Blob
	}
	var puts []put
	for _, w := range writes {
		for attr, p := range w.large {
			if !w.stored[attr] {
				puts = append(puts, put{p, w.blobs()[attr].(table.Blob)})
			}
		}
	}
	err := each(ctx, len(puts), func(ctx context.Context, i int) error {
		body, err := pack(puts[i].value)
		if err != nil {
			return err
		}
		return t.large.Put(ctx, puts[i].p.key, body)
	})
	if err != nil {
		return fmt.Errorf("store large value: %w", err)
	}
	for _, w := range writes {
		for attr := range w.large {
			w.stored[attr] = true
		}
	}
	return nil
}

// window tells how many of the items to load at once: as many as have windowValues large values or windowSize bytes together.
func window(raws []stored) int {
	values, size := 0, 0
	for i, raw := range raws {
		for _, l := range raw.large {
			values++
			size += l.pointer.size
		}
		if i > 0 && (values > windowValues || size > windowSize) {
			return i
		}
	}
	return len(raws)
}

// each runs f for 0 to n-1, a few at once, and returns the first error, which cancels the others.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
