package openai

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"toolrounds/shared/tool"
)

// finish ends the answer. done says that the provider marked its end, err why it is not complete; errors of the connection must
// have their type already.
func (a *assembler) finish(done bool, err error, contentType string) *Round {
	if err == nil {
		err = a.missing(done)
	}
	for _, step := range []func() error{a.flushText, a.flushArguments, a.settleCalls} {
		if stepErr := step(); err == nil { // the sink's error, which matters less than the provider's
			err = stepErr
		}
	}
	var format *FormatError
	if errors.As(err, &format) && format.ContentType == "" {
		format.ContentType = contentType
	}
	r := &Round{Blocks: a.copyBlocks(), Calls: a.copyCalls(), Usage: a.usage, Reason: a.reason, Err: err}
	r.Finish = finishOf(err, len(r.Calls), a.reason)
	return r
}

// finishOf decides what an answer ends with. Providers say stop, or nothing, with calls, and tool_calls without any: whether
// there are calls is a fact, and the reason only breaks the tie between an answer that is whole and one that was cut.
func finishOf(err error, calls int, reason string) string {
	switch {
	case err != nil:
		return FinishError
	case calls > 0:
		return FinishToolCalls
	case slices.Contains([]string{"length", "max_tokens", "model_length", "MAX_TOKENS"}, reason):
		return FinishLength
	}
	return FinishStop
}

// missing is the error of a body that ended well and was no answer, or not all of one.
func (a *assembler) missing(done bool) error {
	if a.frames > 0 && !a.known {
		if text := errorMessage(a.strange); text != "" {
			return &FrameError{Object: a.strange, Message: text}
		}
		return &FormatError{Problem: "it is no chat completion", Excerpt: excerpt(a.strange)}
	}
	if done || a.reason != "" {
		return nil
	}
	for _, c := range a.calls.open {
		if c.shape.unfinished() {
			return &TransportError{Doing: "read the stream", Err: fmt.Errorf("it ended within the arguments of a call: %w", io.ErrUnexpectedEOF)}
		}
	}
	return nil
}

func (a *assembler) flushText() error {
	if last := a.last(); last != nil && last.Reasoning && !last.Closed && a.reasoning.half != "" {
		if err := a.takeReasoning(a.reasoning.flush()); err != nil {
			return err
		}
	}
	if err := a.segments(a.tags.feed(a.text.flush())); err != nil {
		return err
	}
	if err := a.segments(a.tags.flush()); err != nil {
		return err
	}
	if a.dropEmpty() {
		return a.snapshot()
	}
	return nil
}

func (a *assembler) flushArguments() error {
	for i, c := range a.calls.open {
		half := c.join.flush()
		if half == "" {
			continue
		}
		c.arguments.WriteString(half)
		c.shape.feed(half)
		if err := a.progress(i, c, half); err != nil {
			return err
		}
	}
	return nil
}

// settleCalls makes the calls final: empty ones are dropped, glued ones split, and all have an id.
func (a *assembler) settleCalls() error {
	var settled []*openCall
	for _, c := range a.calls.open {
		if c.name == "" && c.shape.empty() {
			continue
		}
		settled = append(settled, c)
		parts := gluedParts(c.arguments.String())
		if len(parts) == 1 && parts[0] == c.arguments.String() {
			continue
		}
		c.arguments.Reset()
		c.arguments.WriteString(parts[0])
		for _, part := range parts[1:] {
			more := &openCall{name: c.name}
			more.arguments.WriteString(part)
			more.shape.feed(part)
			settled = append(settled, more)
		}
		c.shown = "" // differs from what was sent
	}
	changed := len(settled) != len(a.calls.open)
	for _, c := range settled {
		changed = changed || c.started && c.shown != c.name
	}
	a.calls.open = settled
	var err error
	for i, c := range settled {
		if !c.started && !changed && err == nil {
			err = a.start(i, c, true)
		}
		if !c.started { // nameless, or to be told by the snapshot
			c.id, c.started = a.unique(c.wireID), true
			changed = true
		}
	}
	if changed && err == nil {
		err = a.snapshot()
	}
	return err
}

// gluedParts splits glued arguments. Empty objects in front of others are the empty input that some proxies of Anthropic's API
// put before the real one, not calls.
func gluedParts(text string) []string {
	parts := tool.SplitGlued(text)
	if len(parts) < 2 {
		return parts
	}
	full := slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return strings.TrimSpace(part[1:len(part)-1]) == "" })
	if len(full) == 0 {
		return parts[:1]
	}
	return full
}
