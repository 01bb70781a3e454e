// Package chat keeps conversations: a chat record and a tree of messages, each message an item of its own, put together when read.
//
// A message is a JSON object that mostly belongs to the client: fields that the server does not know are kept as they came. While
// a run writes a message, the message's item names the run; when the run ends, what it made lies in the same item beside the
// client's part, and reading merges the two. So a client that saves the whole chat in the middle of a run overwrites nothing.
package chat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"toolrounds/shared/table"
)

// Message is one message as clients know it.
type Message map[string]any

// Text returns a text field, "" when absent or of another type.
func (m Message) Text(name string) string { s, _ := m[name].(string); return s }

// Done tells whether the message is finished.
func (m Message) Done() bool { done, _ := m["done"].(bool); return done }

// Chat is a chat without its messages. Times are Unix seconds.
type Chat struct {
	ID, UserID, Title    string
	Current              string         // the current message, "" for none
	Doc                  map[string]any // the client's "chat" object without history.messages and history.currentId
	Meta                 map[string]any // tags
	Archived, Pinned     bool
	Created, Updated     int64
	Read                 int64  // when the owner last read it
	UpdatedMillis        int64  // orders the owner's list
	Folder               string // the folder it is in, "" for none
	Variables            map[string]any
	Tasks, Summary, More any
}

// NewTitle is the title of a chat that was given none.
const NewTitle = "New Chat"

// Record is one stored message with what the server knows of it.
type Record struct {
	Message Message // as clients see it, without what a run that is still open has made
	Run     string  // the run that writes or wrote it, "" if none did
	Done    bool
}

// Tree is a whole chat.
type Tree struct {
	Chat     Chat
	Messages map[string]Record
	Runs     []table.Item // the runs that are not closed
}

// Store keeps chats in the table.
type Store struct {
	Table table.Table
	Now   func() time.Time
}

// Attributes of a chat's items. Done and Run are also conditions of the runs' writes.
const (
	AttrDoc   = "doc"
	AttrFinal = "final" // what the run made of the message
	AttrAfter = "after" // what was added once it was done: follow-ups
	AttrDone  = "done"
	AttrRun   = "run"
	attrRole  = "role"
)

func (c Chat) item() table.Item {
	return table.Item{
		Key: table.Chat(c.ID), IndexPK: table.UserChats(c.UserID), IndexSK: order(c.UpdatedMillis, c.ID),
		Attr: map[string]any{
			"id": c.ID, "user": c.UserID, "title": c.Title, "current": c.Current, "created": c.Created, "updated": c.Updated,
			"read": c.Read, "millis": c.UpdatedMillis, "archived": c.Archived, "pinned": c.Pinned, "folder": c.Folder,
			AttrDoc: table.MustJSON(body{c.Doc, c.Meta, c.Variables, c.Tasks, c.Summary}),
		},
	}
}

// body is the structured part of a chat's item.
type body struct {
	Doc       map[string]any `json:"doc"`
	Meta      map[string]any `json:"meta"`
	Variables map[string]any `json:"variables"`
	Tasks     any            `json:"tasks"`
	Summary   any            `json:"summary"`
}

func chatOf(i table.Item) (Chat, error) {
	var b body
	if err := i.JSON(AttrDoc, &b); err != nil {
		return Chat{}, err
	}
	return Chat{
		ID: i.String("id"), UserID: i.String("user"), Title: i.String("title"), Current: i.String("current"), Created: i.Int("created"),
		Updated: i.Int("updated"), Read: i.Int("read"), UpdatedMillis: i.Int("millis"), Archived: i.Bool("archived"),
		Pinned: i.Bool("pinned"), Folder: i.String("folder"), Doc: b.Doc, Meta: b.Meta, Variables: b.Variables, Tasks: b.Tasks,
		Summary: b.Summary,
	}, nil
}

// order sorts a user's chats by the time of their last change.
func order(millis int64, id string) string { return fmt.Sprintf("%013d#%s", millis, id) }

// Touch is the write that marks the owner's chat as changed now; other fields of the chat's item may be set with it.
func Touch(chatID, owner string, now time.Time, set map[string]any) table.Op {
	fields := map[string]any{"updated": now.Unix(), "millis": now.UnixMilli()}
	maps.Copy(fields, set)
	index := &[2]string{table.UserChats(owner), order(now.UnixMilli(), chatID)}
	return table.Update(table.Chat(chatID), table.Change{Set: fields, Index: index})
}

// Item is the message's item as it is stored when a client writes it.
func (m Message) Item(chatID, id string) table.Item {
	return table.Item{Key: table.Message(chatID, id), Attr: map[string]any{
		"id": id, attrRole: m.Text("role"), AttrDone: m.Done(), AttrDoc: table.MustJSON(m),
	}}
}

// recordOf reads a message's item: the client's part, and over it what the run made.
func recordOf(i table.Item) (string, Record, error) {
	r := Record{Message: Message{}, Run: i.String(AttrRun), Done: i.Bool(AttrDone)}
	if err := i.JSON(AttrDoc, &r.Message); err != nil {
		return "", Record{}, err
	}
	if err := i.JSON(AttrFinal, &r.Message); err != nil { // decodes into the same map: the run's fields win
		return "", Record{}, err
	}
	if err := i.JSON(AttrAfter, &r.Message); err != nil {
		return "", Record{}, err
	}
	return i.String("id"), r, nil
}

// Create stores a new chat with its messages. The chat record is written last, so no half-written chat is ever seen.
func (s *Store) Create(ctx context.Context, c Chat, messages map[string]Message) error {
	ops := make([]table.Op, 0, len(messages)+1)
	for _, id := range slices.Sorted(maps.Keys(messages)) {
		ops = append(ops, table.Put(messages[id].Item(c.ID, id)))
	}
	if len(ops) < maxTransaction {
		return s.Table.Transact(ctx, append(ops, table.Put(c.item(), table.New()))...)
	}
	if err := s.Table.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	_, err := s.Table.Apply(ctx, table.Put(c.item(), table.New()))
	return err
}

const maxTransaction = 50

// Head returns the chat record alone.
func (s *Store) Head(ctx context.Context, id string) (c Chat, ok bool, err error) {
	item, ok, err := table.One(ctx, s.Table, table.Chat(id))
	if err != nil || !ok {
		return Chat{}, false, err
	}
	c, err = chatOf(item)
	return c, true, err
}

// Message returns one message.
func (s *Store) Message(ctx context.Context, chatID, id string) (r Record, ok bool, err error) {
	item, ok, err := table.One(ctx, s.Table, table.Message(chatID, id))
	if err != nil || !ok {
		return Record{}, false, err
	}
	_, r, err = recordOf(item)
	return r, true, err
}

// Tree returns a whole chat, nil when it does not exist.
func (s *Store) Tree(ctx context.Context, id string) (*Tree, error) {
	tree := &Tree{Messages: map[string]Record{}}
	found := false
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.Chat(id).PK}) {
		if err != nil {
			return nil, fmt.Errorf("read chat: %w", err)
		}
		switch {
		case item.Key == table.Chat(id):
			if tree.Chat, err = chatOf(item); err != nil {
				return nil, err
			}
			found = true
		case hasPrefix(item.SK, table.MessagePrefix):
			mid, r, err := recordOf(item)
			if err != nil {
				return nil, err
			}
			tree.Messages[mid] = r
		case hasPrefix(item.SK, table.RunPrefix) && item.IndexPK != "":
			tree.Runs = append(tree.Runs, item)
		}
	}
	if !found {
		return nil, nil
	}
	tree.link()
	return tree, nil
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// link makes every message that names a parent one of the parent's children: whoever added it may not have told the parent.
func (t *Tree) link() {
	ids := slices.Collect(maps.Keys(t.Messages))
	slices.SortFunc(ids, func(a, b string) int {
		if d := number(t.Messages[a].Message["timestamp"]) - number(t.Messages[b].Message["timestamp"]); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	for _, id := range ids {
		parent, ok := t.Messages[t.Messages[id].Message.Text("parentId")]
		if !ok {
			continue
		}
		children, _ := parent.Message["childrenIds"].([]any)
		if !slices.Contains(children, any(id)) {
			parent.Message["childrenIds"] = append(slices.Clone(children), id)
		}
	}
}

func number(v any) int {
	n, ok := v.(interface{ Int64() (int64, error) })
	if !ok {
		return 0
	}
	i, _ := n.Int64()
	return int(i)
}

// Page is a part of a list.
type Page struct {
	Number int // from 1; 0: the whole list
	Size   int // chats on it; 0: PageSize
}

// List returns those of a user's chats that are to be kept, newest first, without their structured parts. It may miss what changed a
// moment ago.
func (s *Store) List(ctx context.Context, userID string, page Page, keep func(Chat) bool) ([]Chat, error) {
	size := page.Size
	if size == 0 {
		size = PageSize
	}
	q := table.Query{PK: table.UserChats(userID), Index: true, Descending: true, Lazy: true}
	var chats []Chat
	skip := max(0, (page.Number-1)*size)
	for item, err := range s.Table.Query(ctx, q) {
		if err != nil {
			return nil, fmt.Errorf("list chats: %w", err)
		}
		delete(item.Attr, AttrDoc)
		c, err := chatOf(item)
		if err != nil {
			return nil, err
		}
		if !keep(c) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if chats = append(chats, c); page.Number > 0 && len(chats) == size {
			break
		}
	}
	return chats, nil
}

// PageSize is how many chats a page holds that says nothing else.
const PageSize = 60

// Put is the write that creates the chat record.
func (c Chat) Put() table.Op { return table.Put(c.item(), table.New()) }
