package openai

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

// counter is an id source that can be foreseen.
func counter() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("call_%024x", n) }
}

func generated(n int) string { return fmt.Sprintf("call_%024x", n) }

// screen shows deltas as a client would: what it holds after the last one must be the Round.
type screen struct {
	blocks []Block
	calls  []Call
	usage  map[string]any
	kinds  []Kind
}

func (s *screen) show(d Delta) error {
	s.kinds = append(s.kinds, d.Kind)
	switch d.Kind {
	case Text, Reasoning:
		if d.Text == "" {
			return fmt.Errorf("empty delta")
		}
		if d.Block == len(s.blocks) {
			b := Block{}
			if d.Kind == Reasoning {
				b = Block{Reasoning: true, StartTag: "<think>", EndTag: "</think>", Attributes: map[string]string{"type": "reasoning_content"}}
			}
			s.blocks = append(s.blocks, b)
		}
		if s.blocks[d.Block].Reasoning != (d.Kind == Reasoning) {
			return fmt.Errorf("delta of kind %d for block %d of the other kind", d.Kind, d.Block)
		}
		s.blocks[d.Block].Text += d.Text
	case CallStarted:
		for len(s.calls) <= d.Call {
			s.calls = append(s.calls, Call{Index: len(s.calls)})
		}
		if s.calls[d.Call].ID != "" {
			return fmt.Errorf("call %d starts twice", d.Call)
		}
		if d.ID == "" {
			return fmt.Errorf("call %d starts without an id", d.Call)
		}
		s.calls[d.Call] = Call{ID: d.ID, Name: d.Name, Index: d.Call}
	case CallArguments:
		if d.Text == "" || s.calls[d.Call].ID == "" {
			return fmt.Errorf("arguments %q of call %d, which has id %q", d.Text, d.Call, s.calls[d.Call].ID)
		}
		s.calls[d.Call].Arguments += d.Text
	case Snapshot:
		s.blocks, s.calls = d.Blocks, d.Calls
	case UsageReport:
		s.usage = d.Usage
	}
	return nil
}

// same compares the screen with a Round, apart from Closed, of which no delta tells.
func (s *screen) same(t *testing.T, r *Round) {
	t.Helper()
	blocks := append([]Block{}, r.Blocks...)
	for i := range blocks {
		blocks[i].Closed = false
	}
	shown := append([]Block{}, s.blocks...)
	for i := range shown {
		shown[i].Closed = false
	}
	if !reflect.DeepEqual(shown, blocks) {
		t.Errorf("blocks shown %+v\nin the round %+v", shown, blocks)
	}
	if len(s.calls)+len(r.Calls) > 0 && !reflect.DeepEqual(s.calls, r.Calls) {
		t.Errorf("calls shown %+v\nin the round %+v", s.calls, r.Calls)
	}
	if !reflect.DeepEqual(s.usage, r.Usage) {
		t.Errorf("usage shown %v\nin the round %v", s.usage, r.Usage)
	}
}

// read assembles a body that comes in pieces, without HTTP, and checks that the deltas tell the same.
func read(t *testing.T, opts StreamOptions, body io.Reader) (*Round, *screen) {
	t.Helper()
	if opts.NewID == nil {
		opts.NewID = counter()
	}
	s := &screen{}
	a := newAssembler(opts, s.show)
	done, err := readFrames(body, a.frame)
	if err != nil && !isTyped(err) {
		err = &TransportError{Doing: "read the stream", Err: err}
	}
	r := a.finish(done, err, "")
	s.same(t, r)
	return r, s
}

// cut gives a body in pieces of at most n bytes.
type cut struct {
	s string
	n int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.s == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.s)
	c.s = c.s[n:]
	return n, nil
}

// sse makes a stream whose frames have these deltas, and that ends with a finish_reason and [DONE].
func sse(finish string, deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d)
	}
	fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", finish)
	return b.String()
}

// calling makes a delta with these elements of tool_calls.
func calling(pieces ...string) string { return `{"tool_calls":[` + strings.Join(pieces, ",") + `]}` }

// saying makes a delta with this content.
func saying(text string) string { return fmt.Sprintf(`{"content":%q}`, text) }
