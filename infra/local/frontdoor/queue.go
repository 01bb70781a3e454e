package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// queue is the Runtime API: it hands invocations to whichever of the bootstrap's pollers asks next and takes their answers.
type queue struct {
	arn     string
	waiting chan *invocation

	mu      sync.Mutex
	running map[string]*invocation
	// ended is closed when the process has ended that polls now.
	ended chan struct{}
}

// invocation is one event on its way through the function. Its answer arrives as parts: a prelude, chunks, an end.
type invocation struct {
	id       string
	payload  []byte
	deadline time.Time
	parts    chan part
	// left is closed when nobody reads the parts any more; the function writes on into the void.
	left chan struct{}
}

type part struct {
	prelude *prelude
	chunk   []byte
	end     bool
	err     error
}

// prelude is the head of a streamed answer, which stands before eight NUL bytes.
type prelude struct {
	StatusCode        int                 `json:"statusCode"`
	Headers           map[string]string   `json:"headers"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`
	Cookies           []string            `json:"cookies"`
}

const (
	streamedType = "application/vnd.awslambda.http-integration-response"
	preludeLimit = 1 << 20
	preludeEnd   = "\x00\x00\x00\x00\x00\x00\x00\x00"
)

var errProcessEnded = errors.New("the function's process has ended")

func newQueue(arn string) *queue {
	return &queue{arn: arn, waiting: make(chan *invocation, 1024), running: map[string]*invocation{}, ended: make(chan struct{})}
}

// invoke puts an event into the queue. The caller reads parts until an end, and calls release.
func (q *queue) invoke(id string, payload []byte, timeout time.Duration) *invocation {
	i := &invocation{
		id: id, payload: payload, deadline: time.Now().Add(timeout), parts: make(chan part), left: make(chan struct{}),
	}
	q.waiting <- i
	return i
}

func (i *invocation) release() { close(i.left) }

// send offers a part to whoever reads the answer, if somebody still does.
func (i *invocation) send(p part) {
	select {
	case i.parts <- p:
	case <-i.left:
	}
}

// fail ends everything that the process had taken when it died. What still waits is left to the next process.
func (q *queue) fail() {
	q.mu.Lock()
	lost := q.running
	q.running = map[string]*invocation{}
	close(q.ended)
	q.ended = make(chan struct{})
	q.mu.Unlock()
	for _, i := range lost {
		go i.send(part{end: true, err: errProcessEnded})
	}
}

func (q *queue) take(id string) *invocation {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.running[id]
	delete(q.running, id)
	return i
}

// ServeHTTP serves the Runtime API to the bootstrap.
func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/2018-06-01/runtime/")
	id, action := "", path
	if rest, ok := strings.CutPrefix(path, "invocation/"); ok && rest != "next" {
		id, action, _ = strings.Cut(rest, "/")
	}
	switch {
	case r.Method == http.MethodGet && action == "invocation/next":
		q.next(w, r)
	case r.Method == http.MethodPost && action == "init/error":
		text, _ := io.ReadAll(io.LimitReader(r.Body, payloadLimit))
		log.Printf("the function failed to start: %s", text)
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodPost && action == "response":
		q.finish(w, r, id, q.relay)
	case r.Method == http.MethodPost && action == "error":
		q.finish(w, r, id, func(i *invocation, r *http.Request) error {
			text, _ := io.ReadAll(io.LimitReader(r.Body, payloadLimit))
			return fmt.Errorf("the function failed: %s", text)
		})
	default:
		http.NotFound(w, r)
	}
}

func (q *queue) next(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	ended := q.ended
	q.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-ended: // its connection may not show it yet
	case i := <-q.waiting:
		q.mu.Lock()
		dead := r.Context().Err() != nil || ended != q.ended
		if !dead {
			q.running[i.id] = i
		}
		q.mu.Unlock()
		if dead { // while both were ready: the event has not been seen, the next process takes it
			q.waiting <- i
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", i.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", q.arn)
		if _, err := w.Write(i.payload); err != nil && q.take(i.id) != nil {
			go i.send(part{end: true, err: err})
		}
	}
}

// finish takes the answer of an invocation and acknowledges it when all of it has arrived.
func (q *queue) finish(w http.ResponseWriter, r *http.Request, id string, read func(*invocation, *http.Request) error) {
	q.mu.Lock()
	i := q.running[id]
	q.mu.Unlock()
	if i == nil {
		http.Error(w, "unknown invocation", http.StatusBadRequest)
		return
	}
	err := read(i, r)
	if q.take(id) != nil {
		i.send(part{end: true, err: err})
	}
	w.WriteHeader(http.StatusAccepted)
}

// relay passes a streamed answer on, chunk by chunk.
func (q *queue) relay(i *invocation, r *http.Request) error {
	if kind := r.Header.Get("Content-Type"); kind != streamedType {
		return fmt.Errorf("the answer is %q, which API Gateway does not take for a stream", kind)
	}
	body := bufio.NewReaderSize(r.Body, 64<<10)
	head, err := readPrelude(body)
	if err != nil {
		return err
	}
	i.send(part{prelude: head})
	for {
		chunk := make([]byte, 32<<10)
		n, err := body.Read(chunk)
		if n > 0 {
			i.send(part{chunk: chunk[:n]})
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	// An error in mid-stream comes as a trailer.
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" {
		text, _ := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body"))
		return fmt.Errorf("the function failed in mid-stream: %s: %s", kind, text)
	}
	return nil
}

func readPrelude(body io.ByteReader) (*prelude, error) {
	var head bytes.Buffer
	for !bytes.HasSuffix(head.Bytes(), []byte(preludeEnd)) {
		b, err := body.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("the answer ended within its prelude: %w", err)
		}
		if head.WriteByte(b); head.Len() > preludeLimit {
			return nil, errors.New("the answer has no prelude")
		}
	}
	var p prelude
	if err := json.Unmarshal(bytes.TrimSuffix(head.Bytes(), []byte(preludeEnd)), &p); err != nil {
		return nil, fmt.Errorf("decode prelude: %w", err)
	}
	return &p, nil
}

// write sends the head to a client. Where a header is given both ways, its list of values counts.
func (p *prelude) write(w http.ResponseWriter) {
	for name, value := range p.Headers {
		w.Header().Set(name, value)
	}
	for name, values := range p.MultiValueHeaders {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	for _, cookie := range p.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	status := p.StatusCode
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
}

// newID makes a random id in the shape of Lambda's request ids.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	s := hex.EncodeToString(b[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}
