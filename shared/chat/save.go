package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"toolrounds/shared/table"
)

// Save writes a changed chat record and, when messages is not nil, makes these the chat's messages: what is equal to the stored
// one is left alone, and so is a message that a run is writing. Messages that are not named any more are deleted.
func (s *Store) Save(ctx context.Context, old *Tree, c Chat, messages map[string]Message) error {
	now := s.Now()
	c.Updated, c.UpdatedMillis = now.Unix(), now.UnixMilli()
	if messages != nil {
		if err := s.saveMessages(ctx, old, messages); err != nil {
			return err
		}
	}
	_, err := s.Table.Apply(ctx, table.Put(c.item(), table.Must()))
	return err
}

func (s *Store) saveMessages(ctx context.Context, old *Tree, messages map[string]Message) error {
	open := map[string]bool{}
	for _, run := range old.Runs {
		open[run.String("message")] = true
	}
	for _, id := range slices.Sorted(maps.Keys(messages)) {
		stored, known := old.Messages[id]
		if open[id] || known && same(stored.Message, messages[id]) {
			continue
		}
		op := table.Put(messages[id].Item(old.Chat.ID, id), table.New())
		if known { // the condition keeps out a run that took the message since it was read
			op.Conds = unchanged(stored)
		}
		if _, err := s.Table.Apply(ctx, op); err != nil && !errors.Is(err, table.ErrCondition) {
			return fmt.Errorf("write message: %w", err)
		}
	}
	for id, stored := range old.Messages {
		if _, kept := messages[id]; kept || open[id] {
			continue
		}
		_, err := s.Table.Apply(ctx, table.Delete(table.Message(old.Chat.ID, id), unchanged(stored)...))
		if err != nil && !errors.Is(err, table.ErrCondition) {
			return fmt.Errorf("delete message: %w", err)
		}
	}
	return nil
}

func unchanged(r Record) []table.Cond {
	if r.Run == "" {
		return []table.Cond{table.Must(), table.No(AttrRun)}
	}
	return []table.Cond{table.Must(), table.Is(AttrRun, r.Run), table.Is(AttrDone, r.Done)}
}

// same compares two messages as JSON; Go sorts the keys.
func same(a, b Message) bool { return bytes.Equal(table.MustJSON(a), table.MustJSON(b)) }

// Edit sets fields of one message that no run is writing. ErrCondition: a run is writing it, or it is gone.
func (s *Store) Edit(ctx context.Context, chatID, owner, id string, stored Record, fields map[string]any) error {
	message := maps.Clone(stored.Message)
	maps.Copy(message, fields)
	item := message.Item(chatID, id)
	if stored.Run != "" {
		item.Attr[AttrRun] = stored.Run
	}
	err := s.Table.Transact(ctx, table.Put(item, unchanged(stored)...), Touch(chatID, owner, s.Now(), nil))
	return err
}

// MarkRead notes that the owner has read the chat. The chat keeps its place in the list.
func (s *Store) MarkRead(ctx context.Context, id string) error {
	_, err := s.Table.Apply(ctx, table.Update(table.Chat(id), table.Change{Set: map[string]any{"read": s.Now().Unix()}}))
	if errors.Is(err, table.ErrCondition) {
		return nil
	}
	return err
}

// Purger deletes a whole partition with everything that belongs to it.
type Purger interface {
	Purge(ctx context.Context, pk string) error
}

// Delete removes a chat: first its record, so that from then on it cannot be read and no run can end on it, then the rest.
func (s *Store) Delete(ctx context.Context, id string, purge Purger) error {
	if _, err := s.Table.Apply(ctx, table.Delete(table.Chat(id))); err != nil {
		return fmt.Errorf("delete chat: %w", err)
	}
	return purge.Purge(ctx, table.Chat(id).PK)
}

// Retitle changes a chat's title.
func (s *Store) Retitle(ctx context.Context, id, title string) error {
	return s.change(ctx, id, func(c *Chat) {
		c.Title = title
		if c.Doc == nil {
			c.Doc = map[string]any{}
		}
		c.Doc["title"] = title
	})
}

// Tag sets a chat's tags.
func (s *Store) Tag(ctx context.Context, id string, tags []string) error {
	return s.change(ctx, id, func(c *Chat) {
		if c.Meta == nil {
			c.Meta = map[string]any{}
		}
		c.Meta["tags"] = tags
	})
}

// Move puts a chat into a folder of its owner, or with "" into none. What is in a folder is not pinned.
func (s *Store) Move(ctx context.Context, id, folder string) error {
	return s.change(ctx, id, func(c *Chat) { c.Folder, c.Pinned = folder, false })
}

// change rewrites a chat's record as it is now; a write in between is seen and the change made again. A chat that is gone stays gone.
func (s *Store) change(ctx context.Context, id string, edit func(*Chat)) error {
	for range 10 {
		c, ok, err := s.Head(ctx, id)
		if err != nil || !ok {
			return err
		}
		seen := c.UpdatedMillis
		edit(&c)
		now := s.Now()
		c.Updated, c.UpdatedMillis = now.Unix(), max(now.UnixMilli(), seen+1) // every change shows in the condition of the next
		_, err = s.Table.Apply(ctx, table.Put(c.item(), table.Is("millis", seen)))
		if !errors.Is(err, table.ErrCondition) {
			return err
		}
	}
	return fmt.Errorf("change chat %s: %w", id, table.ErrCondition)
}

// Append adds fields to a message that a run has finished.
func (s *Store) Append(ctx context.Context, chatID, id, run string, fields map[string]any) error {
	_, err := s.Table.Apply(ctx, table.Update(table.Message(chatID, id), table.Change{
		Set: map[string]any{AttrAfter: table.MustJSON(fields)},
	}, table.Is(AttrRun, run), table.Is(AttrDone, true)))
	if errors.Is(err, table.ErrCondition) {
		return nil // deleted, or rewritten by its owner
	}
	return err
}
