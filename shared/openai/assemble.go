package openai

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// assembler turns frames into a Round, and tells a sink what changes. It has no clock and does no I/O.
type assembler struct {
	sink  func(Delta) error
	newID func() string
	tags  tagScanner
	calls callSet
	used  map[string]bool // ids that a new call must not have

	blocks    []*openBlock
	text      joiner
	reasoning joiner
	usage     map[string]any
	reason    string
	choice    int // the index of the choice that is followed; -1: not known yet
	frames    int
	known     bool   // a frame that belongs to a completion was there
	strange   []byte // how a frame begins that does not, for the error
	sinkErr   error
}

// openBlock is a Block whose text still grows.
type openBlock struct {
	Block
	text strings.Builder
}

func newAssembler(opts StreamOptions, sink func(Delta) error) *assembler {
	a := &assembler{sink: sink, newID: opts.NewID, choice: -1, used: map[string]bool{}}
	if a.newID == nil {
		a.newID = newCallID
	}
	a.tags.tags = opts.ReasoningTags
	if opts.ReasoningTags == nil {
		a.tags.tags = DefaultReasoningTags()
	}
	a.calls.known = map[string]bool{}
	for _, name := range opts.KnownTools {
		a.calls.known[name] = true
	}
	for _, id := range opts.PriorCallIDs {
		a.used[id] = true
	}
	return a
}

func newCallID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "call_" + hex.EncodeToString(b[:])
}

// frame takes one JSON value of the body. Its errors are *FrameError and the sink's.
func (a *assembler) frame(event string, data []byte) error {
	a.frames++
	if data[0] == '[' {
		for _, item := range list(data) {
			if len(item) > 0 && item[0] != '[' {
				if err := a.frame(event, item); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var f rawFrame
	isObject := into(data, &f)
	if fault := frameError(event, data, f); fault != nil {
		return fault
	}
	if !isObject {
		return nil
	}
	if len(f.Choices) == 0 && !isSet(f.Usage) {
		if len(a.strange) == 0 {
			a.strange = append(a.strange, data[:min(len(data), maxErrors)]...)
		}
		return nil
	}
	a.known = true
	for _, raw := range list(f.Choices) {
		var c rawChoice
		if !into(raw, &c) {
			continue
		}
		if fault := frameError("", raw, rawFrame{Error: c.Error}); fault != nil {
			return fault
		}
		if err := a.takeChoice(c); err != nil {
			return err
		}
		if err := a.takeUsage(c.Usage, nil); err != nil {
			return err
		}
	}
	if err := a.takeUsage(f.Usage, f.Timings); err != nil {
		return err
	}
	if a.reason == "error" {
		return &FrameError{Object: json.RawMessage(`"finish_reason error"`), Message: "the answer ended with an error that the provider does not name"}
	}
	return nil
}

// frameError recognises the ways in which a frame says that something failed.
func frameError(event string, data []byte, f rawFrame) error {
	object := f.Error
	if !isSet(object) {
		if event != "error" && rawText(f.Object) != "error" {
			return nil
		}
		object = data
	}
	e := &FrameError{Object: append(json.RawMessage{}, object...), Message: errorMessage(object)}
	if e.Message == "" {
		e.Message = excerpt(object)
	}
	return e
}

func (a *assembler) takeChoice(c rawChoice) error {
	if index := max(rawIndex(c.Index), 0); a.choice < 0 {
		a.choice = index
	} else if a.choice != index {
		return nil // a second answer to the same question
	}
	var d rawDelta
	switch {
	case into(c.Delta, &d):
	case len(a.blocks) == 0 && len(a.calls.open) == 0: // a whole message; after deltas it would say everything twice
		into(c.Message, &d)
	}
	if err := a.takeDelta(d); err != nil {
		return err
	}
	if reason := rawText(c.Finish); reason != "" {
		a.reason = reason
	}
	return nil
}

func (a *assembler) takeDelta(d rawDelta) error {
	for _, raw := range []json.RawMessage{d.ReasoningContent, d.Reasoning, d.Thinking} {
		// Some servers fill two of the fields with the same text.
		if text := a.reasoning.text(raw); text != "" {
			if err := a.takeReasoning(text); err != nil {
				return err
			}
			break
		}
	}
	said, thought := content(d.Content, &a.text, &a.reasoning)
	if thought != "" {
		if err := a.takeReasoning(thought); err != nil {
			return err
		}
	}
	if said == "" {
		said = a.text.text(d.Refusal)
	}
	if said != "" {
		if err := a.segments(a.tags.feed(said)); err != nil {
			return err
		}
	}
	for _, raw := range list(d.ToolCalls) {
		if p, ok := readPiece(raw); ok {
			if err := a.takeCall(p); err != nil {
				return err
			}
		}
	}
	if p, ok := readPiece(d.FunctionCall); ok {
		return a.takeCall(p)
	}
	return nil
}

// takeReasoning takes reasoning that came in a field of its own.
func (a *assembler) takeReasoning(text string) error {
	if err := a.segments(a.tags.flush()); err != nil {
		return err
	}
	a.tags.leave()
	dropped := a.dropEmpty()
	last := a.last()
	if last == nil || !last.Reasoning || last.Closed || last.Attributes["type"] != "reasoning_content" {
		last = a.push(Block{Reasoning: true, StartTag: "<think>", EndTag: "</think>", Attributes: map[string]string{"type": "reasoning_content"}})
	}
	last.text.WriteString(text)
	if dropped {
		return a.snapshot()
	}
	return a.send(Delta{Kind: Reasoning, Block: len(a.blocks) - 1, Text: text})
}

func (a *assembler) last() *openBlock {
	if len(a.blocks) == 0 {
		return nil
	}
	return a.blocks[len(a.blocks)-1]
}

// push closes the last block and begins another.
func (a *assembler) push(b Block) *openBlock {
	if last := a.last(); last != nil {
		last.Closed = true
	}
	a.blocks = append(a.blocks, &openBlock{Block: b})
	return a.last()
}

// dropEmpty removes the last block if it is reasoning without a text: a tag that nothing followed.
func (a *assembler) dropEmpty() bool {
	last := a.last()
	if last == nil || !last.Reasoning || last.text.Len() > 0 {
		return false
	}
	a.blocks = a.blocks[:len(a.blocks)-1]
	if before := a.last(); before != nil && !before.Reasoning {
		before.Closed = false // nothing came between: the text goes on
	}
	return true
}

// segments takes what a piece of content turned out to be. If a tag is among it, one Snapshot stands for all of it.
func (a *assembler) segments(found []segment) error {
	var deltas []Delta
	structure := false
	for _, s := range found {
		switch s.kind {
		case plain, inside:
			last := a.last()
			if s.kind == plain && (last == nil || last.Reasoning) {
				last = a.push(Block{})
			}
			last.text.WriteString(s.text)
			kind := Text
			if s.kind == inside {
				kind = Reasoning
			}
			deltas = append(deltas, Delta{Kind: kind, Block: len(a.blocks) - 1, Text: s.text})
		case opened:
			structure = true
			if last := a.last(); last != nil && !last.Reasoning && strings.TrimSpace(last.text.String()) == "" {
				a.blocks = a.blocks[:len(a.blocks)-1]
			}
			a.push(Block{Reasoning: true, StartTag: s.tags[0], EndTag: s.tags[1], Attributes: s.attributes})
		case closed:
			structure = true
			last := a.last()
			text := strings.TrimRightFunc(last.text.String(), unicode.IsSpace)
			last.text.Reset()
			last.text.WriteString(text)
			last.Closed = true
			a.dropEmpty()
		}
	}
	if structure {
		return a.snapshot()
	}
	for _, d := range deltas {
		if err := a.send(d); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembler) takeUsage(reports ...json.RawMessage) error {
	news := false
	for _, raw := range reports {
		var report map[string]any
		if !isSet(raw) || decodeNumbers(raw, &report) != nil {
			continue
		}
		if a.usage == nil {
			a.usage = map[string]any{}
		}
		for key, value := range report {
			if old, there := a.usage[key]; value != nil || !there {
				news = news || !there || fmt.Sprint(old) != fmt.Sprint(value)
				a.usage[key] = value
			}
		}
	}
	if !news {
		return nil
	}
	return a.send(Delta{Kind: UsageReport, Usage: copyMap(a.usage)})
}

func copyMap(m map[string]any) map[string]any {
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}
