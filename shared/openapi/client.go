package openapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is a server of tools as a connection describes it, for one user.
type Server struct {
	URL      string      // below which the operations lie
	Document string      // address of the document
	Inline   string      // the document itself; then Document is not fetched
	Header   http.Header // sent with everything: the key, the connection's own headers
}

// Client reads documents and calls operations. It is safe for concurrent use.
type Client struct {
	HTTP  *http.Client // decides which addresses may be reached, and bounds sizes, redirects and time
	Fresh time.Duration
	Now   func() time.Time

	mu   sync.Mutex
	kept map[[32]byte]*kept
}

// kept is a document that was read before.
type kept struct {
	document *Document
	etag     string
	modified string
	asked    time.Time // when the server last said that it is the present one
}

const (
	maxKept   = 64
	freshFor  = 10 * time.Second
	fetchTime = 15 * time.Second
)

// New makes a client.
func New(c *http.Client) *Client {
	return &Client{HTTP: c, Fresh: freshFor, Now: time.Now, kept: map[[32]byte]*kept{}}
}

// Document reads a server's document. One that was read a moment ago is used again; later the server is asked whether it has changed,
// which costs no body where it knows ETags or dates.
func (c *Client) Document(ctx context.Context, s Server) (*Document, error) {
	key := s.key()
	c.mu.Lock()
	had := c.kept[key]
	c.mu.Unlock()
	if had != nil && (s.Inline != "" || c.Now().Sub(had.asked) < c.Fresh) {
		return had.document, nil
	}
	got, err := c.fetch(ctx, s, had)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxKept && c.kept[key] == nil {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.kept)), func(a, b [32]byte) int { return c.kept[a].asked.Compare(c.kept[b].asked) })
		delete(c.kept, oldest)
	}
	c.kept[key] = got
	return got.document, nil
}

// key tells documents apart: the same address may answer others differently.
func (s Server) key() [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", s.Document, s.Inline)
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		fmt.Fprintf(h, " %q=%q", name, s.Header[name])
	}
	return [32]byte(h.Sum(nil))
}

func (c *Client) fetch(ctx context.Context, s Server, had *kept) (*kept, error) {
	if s.Inline != "" {
		d, err := Parse([]byte(s.Inline))
		if err != nil {
			return nil, err
		}
		return &kept{document: d, asked: c.Now()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Document, nil)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	maps.Copy(r.Header, s.Header)
	r.Header.Set("Accept", "application/json, application/yaml;q=0.9, */*;q=0.8")
	if had != nil && had.etag != "" {
		r.Header.Set("If-None-Match", had.etag)
	}
	if had != nil && had.modified != "" {
		r.Header.Set("If-Modified-Since", had.modified)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && had != nil {
		again := *had
		again.asked = c.Now()
		return &again, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the OpenAPI document: HTTP status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	d, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	return &kept{document: d, etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified"), asked: c.Now()}, nil
}

// Request is one call.
type Request struct {
	Function  string          // as Specs names it
	Name      string          // as the model called it, for texts; empty: the same
	Arguments json.RawMessage // an object
}

// Call calls a function. Whatever goes wrong at the other side, or on the way to it, is a result that says so; the error is only the
// context's.
func (c *Client) Call(ctx context.Context, s Server, request Request) (Result, error) {
	if request.Name == "" {
		request.Name = request.Function
	}
	result, err := c.call(ctx, s, request)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if err != nil {
		return Failure(err.Error()), nil
	}
	return result, nil
}

func (c *Client) call(ctx context.Context, s Server, request Request) (Result, error) {
	d, err := c.Document(ctx, s)
	if err != nil {
		return Result{}, &toldError{"The tool server is not available: " + reason(err)}
	}
	op := d.operation(request.Function)
	if op == nil {
		return Result{}, &toldError{fmt.Sprintf("The tool server has no function %q any more.", request.Name)}
	}
	given, err := readArguments(request.Arguments)
	if err != nil {
		return Result{}, err
	}
	base, err := d.base(op, s.URL, s.Document)
	if err != nil {
		return Result{}, err
	}
	r, err := op.request(ctx, base, s.Header, given)
	if err != nil {
		return Result{}, err
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return Result{}, &toldError{"The tool server did not answer: " + reason(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Result{}, &toldError{"The tool server's answer cannot be read: " + reason(err)}
	}
	return resultOf(request.Name, resp.StatusCode, resp.Header, body), nil
}

// reason is an error in the words of its cause, without the address, which may hold what only administrators know.
func reason(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "it took too long."
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			break
		}
		err = next
	}
	text := err.Error()
	if strings.TrimSpace(text) == "" {
		text = "unknown error"
	}
	return text
}
