package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Told is a piece of an answer as somebody hears it who follows its run from outside. Empty: nothing new since the last look.
type Told struct {
	Text, Reasoning string
	Item            map[string]any // a call that was made, or its result, as in the message's output
}

// How often a follower looks at the run: soon after something came, seldom while nothing comes.
const (
	followSoon = 30 * time.Millisecond
	followLate = 200 * time.Millisecond
	ahead      = 4 // how many batches of the log one look asks for
)

// Follow tells what a run makes of its answer, while it makes it, until it has ended: then it returns the run as it is. Done is false
// when the context ends first. The texts told are those of the message's content in order; when a model step died in the middle and was
// repeated, what it had streamed stays told, and the new text follows it from where it differs.
func (s *Service) Follow(ctx context.Context, chatID, run string, tell func(Told) error) (ended Run, done bool, err error) {
	f := &follower{Service: s, chat: chatID, run: run, tell: tell}
	for pause := followSoon; ; pause = min(pause*3/2, followLate) {
		found, over, err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
			return Run{}, false, nil
		case err != nil:
			return Run{}, false, err
		case over:
			return f.now, true, nil
		case found:
			pause = followSoon
			continue
		}
		if err := tell(Told{}); err != nil {
			return Run{}, false, err
		}
		select {
		case <-ctx.Done():
			return Run{}, false, nil
		case <-time.After(pause):
		}
	}
}

type follower struct {
	*Service
	chat, run string
	tell      func(Told) error

	now     Run
	round   int   // the one that is awaited
	attempt int64 // whose log is read
	batch   int   // the next of its log
	deltas  []openai.Delta
	said    [2]string    // the round's text and reasoning as told
	before  bool         // earlier rounds have told text
	waiting []callRecord // calls of the round before without a result, in order
	from    int          // the index of the first of them
}

// look reads what is new with one request, and tells it.
func (f *follower) look(ctx context.Context) (found, over bool, err error) {
	runKey, roundKey := table.Run(f.chat, f.run), table.Round(f.run, f.round)
	keys := []table.Key{runKey, roundKey}
	for i := range ahead {
		keys = append(keys, table.Log(f.run, f.round, f.attempt, f.batch+i))
	}
	for i := range min(len(f.waiting), ahead) {
		keys = append(keys, table.Call(f.run, f.round-1, f.from+i))
	}
	items, err := f.Table.Get(ctx, keys...)
	if err != nil {
		return false, false, fmt.Errorf("follow run: %w", err)
	}
	item, ok := items[runKey]
	if !ok {
		return false, true, errGone
	}
	if f.now, err = runOf(item); err != nil {
		return false, false, err
	}
	if found, err = f.results(items); err != nil {
		return false, false, err
	}
	if item, ok := items[roundKey]; ok {
		return true, false, f.recorded(ctx, item)
	}
	if f.now.Attempt != f.attempt {
		f.attempt, f.batch, f.deltas = f.now.Attempt, 0, nil
		return true, false, nil
	}
	for i := range ahead {
		item, ok := items[keys[2+i]]
		if !ok {
			break
		}
		var e logEntry
		raw, _ := item.Attr[attrDoc].(table.Blob)
		if err := json.Unmarshal(raw, &e); err != nil {
			return false, false, fmt.Errorf("decode log: %w", err)
		}
		f.batch++
		found = true
		if err := f.streamed(e.Deltas); err != nil {
			return false, false, err
		}
	}
	return found, !found && f.now.Phase != turn.Open, nil
}

// streamed tells what a batch of the log adds.
func (f *follower) streamed(deltas []openai.Delta) error {
	for _, d := range deltas {
		f.deltas = joined(f.deltas, d)
	}
	blocks, _ := replayed(f.deltas)
	var texts, thoughts []string
	for _, b := range blocks {
		if b.Reasoning {
			thoughts = append(thoughts, b.Text)
		} else if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return f.sync(strings.Join(texts, "\n"), strings.Join(thoughts, "\n"))
}

// sync tells what the round's text and reasoning have, as they are now, beyond what was told.
func (f *follower) sync(text, reasoning string) error {
	for i, whole := range []string{text, reasoning} {
		said := f.said[i]
		if strings.HasPrefix(said, whole) {
			continue
		}
		more, ok := strings.CutPrefix(whole, said)
		if !ok { // another try says it differently
			more = "\n\n" + whole
		} else if i == 0 && said == "" && f.before {
			more = "\n" + more
		}
		f.said[i] = whole
		told := Told{Text: more}
		if i == 1 {
			told = Told{Reasoning: more}
		}
		if err := f.tell(told); err != nil {
			return err
		}
	}
	return nil
}

// recorded tells what a recorded round has beyond its log, and its calls.
func (f *follower) recorded(ctx context.Context, item table.Item) error {
	var made round
	if err := item.JSON(attrDoc, &made.roundDoc); err != nil {
		return err
	}
	thoughts := []string{}
	for _, item := range made.Items {
		if text(item, "type") == "reasoning" {
			thoughts = append(thoughts, itemText(item))
		}
	}
	if err := f.sync(made.text(), strings.Join(thoughts, "\n")); err != nil {
		return err
	}
	f.before = f.before || f.said[0] != ""
	f.said, f.deltas, f.batch = [2]string{}, nil, 0
	number := f.round
	f.round++
	f.waiting, f.from = nil, 0
	if made.Calls == 0 || made.Choice {
		return nil
	}
	for item, err := range f.Table.Query(ctx, table.Query{PK: table.Work(f.run).PK, Prefix: table.Round(f.run, number).SK + "#"}) {
		if err != nil {
			return fmt.Errorf("follow run: %w", err)
		}
		c, err := callOf(item)
		if err != nil {
			return err
		}
		if len(f.waiting) == made.Calls {
			break
		}
		c.result = nil
		f.waiting = append(f.waiting, c)
		if err := f.tell(Told{Item: callItem(c, inProgress)}); err != nil {
			return err
		}
	}
	return nil
}

// results tells the results that have come, in the order of the calls.
func (f *follower) results(items map[table.Key]table.Item) (found bool, err error) {
	for len(f.waiting) > 0 {
		item, ok := items[table.Call(f.run, f.round-1, f.from)]
		if !ok || !item.Has(attrResult) {
			return found, nil
		}
		c, err := callOf(item)
		if err != nil {
			return found, err
		}
		f.waiting, f.from, found = f.waiting[1:], f.from+1, true
		if err := f.tell(Told{Item: wire(resultItem(c))}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// Answer is what a run that has ended gives its caller.
type Answer struct {
	Run                string
	Model, Chat        string // as they were asked for
	Message            string
	Created            int64 // Unix seconds
	Content, Reasoning string
	Output, Sources    []any
	Usage              map[string]any
	Finish             string // stop, or length when the provider cut the answer
	Stopped            bool
	Error              any    // nil: answered or stopped
	Limit              bool   // the error is that the limit of rounds was reached
	Reply              *Reply // the provider's own answer, if it refused
	Rounds             int
}

// Answer reads what an ended run gives its caller.
func (s *Service) Answer(ctx context.Context, r Run) (Answer, error) {
	rec, err := s.gather(ctx, r.ID, true)
	if err != nil {
		return Answer{}, err
	}
	m, _, err := s.made(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{
		Run: r.ID, Model: rec.req.Model, Chat: r.Chat, Message: r.Message, Created: rec.req.Accepted / 1000, Content: m.Text("content"),
		Output: orEmpty(list(m, "output")), Sources: list(m, "sources"), Usage: rec.usage(), Finish: openai.FinishStop,
		Stopped: r.Outcome == turn.Stopped, Reply: r.Reply, Rounds: len(rec.rounds),
	}
	var thoughts []string
	for _, v := range a.Output {
		if item, _ := v.(map[string]any); text(item, "type") == "reasoning" {
			thoughts = append(thoughts, itemText(item))
		}
	}
	a.Reasoning = strings.Join(thoughts, "\n")
	if n := len(rec.rounds); n > 0 {
		a.Limit = rec.rounds[n-1].Over
		if rec.rounds[n-1].Finish != "" {
			a.Finish = rec.rounds[n-1].Finish
		}
	}
	if r.Outcome == turn.Failed {
		a.Error = m["error"]
		if problem, ok := a.Error.(map[string]any); ok && problem["content"] != nil {
			a.Error = problem["content"]
		}
		if a.Error == nil {
			a.Error = "The run was interrupted."
		}
	}
	return a, nil
}

// Ended waits for the end of a run and returns it as it is then. Done is false when the context ends first.
func (s *Service) Ended(ctx context.Context, chatID, run string) (r Run, done bool, err error) {
	for pause := lookFirst; ; pause = min(pause*3/2, lookLast) {
		switch r, err := s.load(ctx, chatID, run); {
		case ctx.Err() != nil:
			return Run{}, false, nil
		case err != nil:
			return Run{}, false, err
		case r.Phase != turn.Open:
			return r, true, nil
		}
		select {
		case <-ctx.Done():
			return Run{}, false, nil
		case <-time.After(pause):
		}
	}
}

// Gone tells whether an error says that a run is not there any more: its chat was deleted.
func Gone(err error) bool { return errors.Is(err, errGone) }
