package run

import (
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/openai"
)

// narrator tells one round of a model in the envelopes of a streamed answer (spec/socket.md section 2). It keeps what it has told, so
// that it can tell it again as a whole to somebody who comes in the middle.
type narrator struct {
	service *Service
	step    Step
	rec     *record
	before  []any // the output of the rounds before
	clock   *clock
	blocks  []openai.Block
	calls   []openai.Call
}

// pieceBytes is the most text that goes into one delta event.
const pieceBytes = 16 << 10

func (s *Service) narrator(step Step, rec *record) *narrator {
	return &narrator{service: s, step: step, rec: rec, before: rec.output(), clock: newClock()}
}

// tell takes what the model streamed since the last time.
func (n *narrator) tell(deltas []openai.Delta, now time.Time) []event.Event {
	var events []event.Event
	for _, d := range deltas {
		n.clock.see(d, now)
		switch d.Kind {
		case openai.Text, openai.Reasoning:
			events = append(events, n.text(d)...)
		case openai.CallStarted:
			for len(n.calls) <= d.Call {
				n.calls = append(n.calls, openai.Call{Index: len(n.calls)})
			}
			events = append(events, n.closeReasoning(len(n.blocks))...)
			n.calls[d.Call].ID, n.calls[d.Call].Name = d.ID, d.Name
			events = append(events, event.ItemAdded(n.callIndex(d.Call), n.call(n.calls[d.Call], inProgress, "")))
		case openai.CallArguments:
			if d.Call >= len(n.calls) {
				continue
			}
			n.calls[d.Call].Arguments += d.Text
			for _, piece := range pieces(d.Text) {
				events = append(events, event.ArgumentsDelta(n.callIndex(d.Call), n.calls[d.Call].ID, piece))
			}
		case openai.Snapshot:
			n.blocks, n.calls = d.Blocks, d.Calls
			events = append(events, event.Output(n.output()))
		}
	}
	return events
}

func (n *narrator) text(d openai.Delta) []event.Event {
	var events []event.Event
	reasoning := d.Kind == openai.Reasoning
	if d.Block >= len(n.blocks) {
		events = n.closeReasoning(len(n.blocks))
		for len(n.blocks) <= d.Block {
			b := openai.Block{Reasoning: reasoning}
			if reasoning {
				b.StartTag, b.EndTag, b.Attributes = "<think>", "</think>", map[string]string{"type": "reasoning_content"}
			}
			n.blocks = append(n.blocks, b)
		}
		if len(n.calls) > 0 { // a block after calls moves them
			n.blocks[d.Block].Text += d.Text
			return append(events, event.Output(n.output()))
		}
		if reasoning {
			events = append(events, event.ItemAdded(n.index(d.Block), n.item(d.Block, inProgress)))
		}
	}
	n.blocks[d.Block].Text += d.Text
	for _, piece := range pieces(d.Text) {
		if reasoning {
			events = append(events, event.ReasoningDelta(n.index(d.Block), n.id(d.Block), piece))
		} else {
			events = append(events, event.TextDelta(n.index(d.Block), n.id(d.Block), piece))
		}
	}
	return events
}

// closeReasoning tells that the reasoning right before a block is whole.
func (n *narrator) closeReasoning(block int) []event.Event {
	last := block - 1
	if last < 0 || !n.blocks[last].Reasoning || n.blocks[last].Closed {
		return nil
	}
	n.blocks[last].Closed = true
	n.clock.end(last, n.service.Now())
	return []event.Event{event.ItemDone(n.index(last), n.item(last, Completed))}
}

// end tells what the round has come to, once it is recorded.
func (n *narrator) end(made round) []event.Event {
	var events []event.Event
	first := len(n.before)
	for i, item := range made.Items {
		if text(item, "type") == "reasoning" && (i >= len(n.blocks) || !n.blocks[i].Closed) {
			events = append(events, event.ItemDone(first+i, item))
		}
	}
	first += len(made.Items)
	for i, c := range made.calls {
		events = append(events, event.ArgumentsDone(first+i, c.ID, c.Arguments), event.ItemDone(first+i, callItem(c, Completed)))
	}
	if made.Usage != nil {
		all := record{rounds: append(n.rec.rounds[:len(n.rec.rounds):len(n.rec.rounds)], made)}
		events = append(events, event.Usage(all.usage()))
	}
	return events
}

// whole is everything told so far.
func (n *narrator) whole() []event.Event { return n.rec.told(n.output()) }

// output is the message's output as far as it is told.
func (n *narrator) output() []any {
	out := shown(n.before)
	for i, b := range n.blocks {
		if b.Text == "" && !b.Reasoning {
			continue
		}
		status := Completed
		if i == len(n.blocks)-1 && len(n.calls) == 0 {
			status = inProgress
		}
		out = append(out, n.item(i, status))
	}
	for _, c := range n.calls {
		out = append(out, n.call(c, inProgress, c.Arguments))
	}
	return out
}

func (n *narrator) call(c openai.Call, status, arguments string) map[string]any {
	return callItem(callRecord{callDoc: callDoc{ID: c.ID, Name: c.Name, Arguments: arguments}}, status)
}

func (n *narrator) item(block int, status string) map[string]any {
	items := n.service.items(n.step.Run, n.step.Round, n.blocks, n.clock, status, status == inProgress)
	if at := n.index(block) - len(n.before); at < len(items) {
		items[at]["status"] = status
		return items[at]
	}
	return map[string]any{}
}

func (n *narrator) id(block int) string {
	if n.blocks[block].Reasoning {
		return blockID("r", n.step.Run, n.step.Round, block)
	}
	return blockID("msg", n.step.Run, n.step.Round, block)
}

// index is the place of a block in the whole output: empty texts before it make no item.
func (n *narrator) index(block int) int {
	at := len(n.before)
	for _, b := range n.blocks[:block] {
		if b.Reasoning || b.Text != "" {
			at++
		}
	}
	return at
}

func (n *narrator) callIndex(call int) int { return n.index(len(n.blocks)) + call }

// pieces cuts a text into what fits one event each.
func pieces(s string) []string {
	var out []string
	for len(s) > pieceBytes {
		at := pieceBytes
		for at > 0 && s[at]&0xC0 == 0x80 { // not within a character
			at--
		}
		out, s = append(out, s[:at]), s[at:]
	}
	return append(out, s)
}
