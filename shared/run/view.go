package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// partial is the round that a model step is streaming or was streaming when it died: the blocks and calls of its newest attempt, nil
// when nothing was streamed.
func (s *Service) partial(ctx context.Context, r Run, number int, status string) (*round, error) {
	var deltas []openai.Delta
	attempt := ""
	pk, prefix := table.Log(r.ID, number, 0, 0).PK, fmt.Sprintf("%04d#", number)
	for item, err := range s.Table.Query(ctx, table.Query{PK: pk, Prefix: prefix}) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		if this := strings.Split(item.SK, "#")[1]; this != attempt {
			attempt, deltas = this, nil
		}
		var e logEntry
		raw, _ := item.Attr[attrDoc].(table.Blob)
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("decode log: %w", err)
		}
		deltas = append(deltas, e.Deltas...)
	}
	blocks, calls := replayed(deltas)
	if len(blocks) == 0 && len(calls) == 0 {
		return nil, nil
	}
	made := &round{roundDoc: roundDoc{Items: s.items(r.ID, number, blocks, newClock(), status, len(calls) > 0), Calls: len(calls)}}
	for _, c := range calls {
		made.calls = append(made.calls, callRecord{callDoc: callDoc{ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
	return made, nil
}

// replayed is what a watcher of the deltas sees at their end.
func replayed(deltas []openai.Delta) (blocks []openai.Block, calls []openai.Call) {
	for _, d := range deltas {
		switch d.Kind {
		case openai.Text, openai.Reasoning:
			for len(blocks) <= d.Block {
				b := openai.Block{Reasoning: d.Kind == openai.Reasoning}
				if b.Reasoning {
					b.StartTag, b.EndTag, b.Attributes = "<think>", "</think>", map[string]string{"type": "reasoning_content"}
				}
				blocks = append(blocks, b)
			}
			blocks[d.Block].Text += d.Text
		case openai.CallStarted, openai.CallArguments:
			for len(calls) <= d.Call {
				calls = append(calls, openai.Call{Index: len(calls)})
			}
			if d.Kind == openai.CallStarted {
				calls[d.Call].ID, calls[d.Call].Name = d.ID, d.Name
			}
			calls[d.Call].Arguments += d.Text
		case openai.Snapshot:
			blocks, calls = d.Blocks, d.Calls
		}
	}
	return blocks, calls
}

// Overlay lays what open runs have made so far over the messages of a chat that was just read.
func (s *Service) Overlay(ctx context.Context, tree *chat.Tree) error {
	for _, item := range tree.Runs {
		r, err := runOf(item)
		if err != nil {
			return err
		}
		m, ok := tree.Messages[r.Message]
		if r.Phase != turn.Open || !ok || m.Run != r.ID || m.Done {
			continue
		}
		rec, err := s.gather(ctx, r.ID, true)
		if err != nil {
			return err
		}
		partial, err := s.partial(ctx, r, len(rec.rounds), "in_progress")
		if err != nil {
			return err
		}
		if partial != nil {
			rec.rounds = append(rec.rounds, *partial)
		}
		now := chat.Message{}
		lasting(rec.events, now)
		rec.cite(now)
		if output := rec.output(); len(output) > 0 {
			for _, v := range output {
				if it := v.(map[string]any); text(it, "status") == Incomplete {
					it["status"] = "in_progress"
				}
			}
			now["output"], now["content"] = output, content(output)
		}
		maps.Copy(m.Message, now)
		m.Message["done"] = false
	}
	return nil
}

// Open lists the ids of a chat's runs that are not closed, oldest first, if the chat's runs are this user's.
func (s *Service) Open(ctx context.Context, user, chatID string) ([]string, error) {
	runs, err := s.open(ctx, user, chatID)
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	return ids, err
}

func (s *Service) open(ctx context.Context, user, chatID string) ([]Run, error) {
	return s.runs(ctx, user, chatID, func(r Run) bool { return r.Phase != turn.Closed })
}

// runs are a user's runs on a chat that are still on record, oldest first.
func (s *Service) runs(ctx context.Context, user, chatID string, keep func(Run) bool) ([]Run, error) {
	var runs []Run
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.Chat(chatID).PK, Prefix: table.RunPrefix, Lazy: true}) {
		if err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
		delete(item.Attr, attrReply)
		r, err := runOf(item)
		if err != nil {
			return nil, err
		}
		if r.User == user && keep(r) {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// AllOpen lists the ids of all runs that are not closed.
func (s *Service) AllOpen(ctx context.Context) ([]string, error) {
	ids := []string{}
	for shard := range table.Shards {
		for item, err := range s.Table.Query(ctx, table.Query{PK: table.OpenRuns(shard), Index: true, Lazy: true}) {
			if err != nil {
				return nil, fmt.Errorf("read open runs: %w", err)
			}
			ids = append(ids, item.String("run"))
		}
	}
	return ids, nil
}

// How often somebody who waits for a run looks at it: soon at first, then seldom.
const (
	lookFirst = 25 * time.Millisecond
	lookLast  = 250 * time.Millisecond
)

// Wait returns a run's answer for its caller once it is closed, or done false when the context ends first. A nil reply stands for null.
func (s *Service) Wait(ctx context.Context, chatID, run string) (reply *Reply, done bool, err error) {
	for pause := lookFirst; ; pause = min(pause*3/2, lookLast) {
		r, err := s.load(ctx, chatID, run)
		switch {
		case errors.Is(err, errGone): // the chat was deleted
			return nil, true, nil
		case err != nil && ctx.Err() != nil:
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case r.Phase == turn.Closed:
			return r.Reply, true, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, nil
		case <-time.After(pause):
		}
	}
}

// Recent lists a user's runs on a chat that are open or were closed within the last hour, oldest first.
func (s *Service) Recent(ctx context.Context, user, chatID string) ([]Run, error) {
	return s.runs(ctx, user, chatID, func(Run) bool { return true })
}

// Whole is everything that an open run has made of its message, as events.
func (s *Service) Whole(ctx context.Context, r Run) []event.Event { return s.sofar(r)(ctx) }
