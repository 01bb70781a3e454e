package openai

import "fmt"

func (a *assembler) takeCall(p piece) error {
	if err := a.segments(a.tags.flush()); err != nil { // "<thi" before a call is text
		return err
	}
	c, isNew, added := a.calls.add(p, a.frames)
	if isNew {
		for i, earlier := range a.calls.open[:len(a.calls.open)-1] {
			if err := a.start(i, earlier, true); err != nil {
				return err
			}
		}
	}
	i := 0
	for a.calls.open[i] != c {
		i++
	}
	return a.progress(i, c, added)
}

// progress tells what a piece added to a call.
func (a *assembler) progress(i int, c *openCall, added string) error {
	if !c.started {
		return a.start(i, c, false)
	}
	if c.shown != c.name {
		c.shown = c.name
		return a.snapshot()
	}
	if added == "" {
		return nil
	}
	return a.send(Delta{Kind: CallArguments, Call: i, Text: added})
}

// start announces a call once its name is complete, as far as one can know: arguments have begun, or it is a known tool, or must
// is set because no more of it is expected.
func (a *assembler) start(i int, c *openCall, must bool) error {
	ready := c.name != "" && (!c.shape.empty() || a.calls.known[c.name] || must)
	if c.started || !ready {
		return nil
	}
	c.id, c.shown, c.started = a.unique(c.wireID), c.name, true
	if err := a.send(Delta{Kind: CallStarted, Call: i, ID: c.id, Name: c.name}); err != nil {
		return err
	}
	if text := c.arguments.String(); text != "" {
		return a.send(Delta{Kind: CallArguments, Call: i, Text: text})
	}
	return nil
}

// unique gives the id if nobody has it yet, else a new one.
func (a *assembler) unique(id string) string {
	for try := 0; id == "" || a.used[id]; try++ {
		id = a.newID()
		if try > 100 { // an id source that repeats itself
			id = fmt.Sprintf("%s_%d", id, try)
		}
	}
	a.used[id] = true
	return id
}

// snapshot sends everything so far. It counts as the start of every call that has a name.
func (a *assembler) snapshot() error {
	for _, c := range a.calls.open {
		if !c.started && c.name != "" {
			c.id, c.started = a.unique(c.wireID), true
		}
		c.shown = c.name
	}
	if a.sink == nil {
		return nil
	}
	return a.send(Delta{Kind: Snapshot, Blocks: a.copyBlocks(), Calls: a.copyCalls()})
}

func (a *assembler) send(d Delta) error {
	if a.sink == nil || a.sinkErr != nil {
		return a.sinkErr
	}
	if err := a.sink(d); err != nil {
		a.sinkErr = &sinkError{err}
	}
	return a.sinkErr
}

func (a *assembler) copyBlocks() []Block {
	blocks := make([]Block, len(a.blocks))
	for i, b := range a.blocks {
		blocks[i] = b.Block
		blocks[i].Text = b.text.String()
	}
	return blocks
}

func (a *assembler) copyCalls() []Call {
	var calls []Call
	for _, c := range a.calls.open {
		calls = append(calls, Call{ID: c.id, Name: c.name, Arguments: c.arguments.String(), Index: len(calls)})
	}
	return calls
}
