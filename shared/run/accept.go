package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Accepted is the answer to an accepted request.
type Accepted struct {
	Chat string
	Runs []string // one for each model, in the order of the request
	// Models and Messages are what was asked, and where the answers go, for each of the runs.
	Models, Messages []string
	Async            bool // the caller does not wait
	Lone             bool // the chat is the run's own and nobody knows it: only who asked can have the answer
}

// textBadMessage is the refusal of a message that cannot be written (spec/http.md D1).
const textBadMessage = "Message already exists or has an invalid ID."

// maxModels is how many models one request may ask at once.
const maxModels = 20

// Accept checks a request on a chat, records it, and tells the machine to run it. Whatever is refused leaves nothing behind; once
// the record is written the run ends, even if this process dies before it has told the machine (Sweep tells it again).
//
// A request that repeats one whose run is still open gets that run, and one that comes with the Idempotency-Key of an earlier one gets
// that one's runs, whatever has become of them. Faults: Invalid (model), NotFound (chat), Conflict (message).
func (s *Service) Accept(ctx context.Context, u access.User, body map[string]any, baseURL string) (Accepted, error) {
	a := acceptance{Service: s, user: u, body: body, baseURL: baseURL, now: s.Now()}
	if first, found, err := a.again(ctx); err != nil || found {
		return first, err
	}
	if err := a.targets(ctx); err != nil {
		return Accepted{}, err
	}
	if err := a.place(ctx); err != nil {
		return Accepted{}, err
	}
	if err := a.record(ctx); table.FailedOn(err, a.repeat.key) { // the same request has come twice at once
		first, _, err := a.again(ctx)
		return first, err
	} else if err != nil {
		return Accepted{}, err
	}
	for _, r := range a.runs {
		if err := s.start(ctx, r); err != nil {
			// The record stands, so the run is accepted: the sweeper starts what could not be started now.
			logger(ctx, Step{Run: r.ID, Chat: r.Chat}).Error("start the machine", "error", err)
		}
	}
	return a.accepted(), nil
}

func (a *acceptance) accepted() Accepted {
	done := Accepted{Chat: a.chat, Async: text(a.body, "session_id") != "" && !Waits(a.body), Lone: a.lone}
	for _, t := range a.targetsOf {
		done.Runs, done.Models, done.Messages = append(done.Runs, t.run), append(done.Models, t.model), append(done.Messages, t.message)
	}
	return done
}

// target is one assistant message to be written by one model.
type target struct {
	model, message string
	index          any
	run            string
	existing       chat.Record
	known          bool // the message is in the chat already
	open           bool // a run is writing it
}

type acceptance struct {
	*Service
	user      access.User
	body      map[string]any
	baseURL   string
	now       interface{ UnixMilli() int64 }
	chat      string
	saved     bool
	lone      bool       // the chat is made up: nothing is stored of it
	create    *chat.Chat // a chat that this request makes
	targetsOf []target
	runs      []Run
	repeat    repeat
}

func (a *acceptance) targets(ctx context.Context) error {
	for _, v := range list(a.body, "message_ids") {
		m, _ := v.(map[string]any)
		if m == nil || text(m, "message_id") == "" {
			return fault.New(fault.Conflict, textBadMessage)
		}
		a.targetsOf = append(a.targetsOf, target{model: text(m, "model_id"), message: text(m, "message_id"), index: m["modelIdx"]})
	}
	if len(a.targetsOf) == 0 {
		a.targetsOf = []target{{model: text(a.body, "model"), message: text(a.body, "id")}}
	}
	if len(a.targetsOf) > maxModels {
		return fault.New(fault.Invalid, fmt.Sprintf("At most %d models can answer one message.", maxModels))
	}
	for _, t := range a.targetsOf {
		if _, err := a.Models.Resolve(ctx, a.user, t.model); err != nil {
			return err
		}
	}
	return nil
}

// place finds the chat and the messages that are to be written.
func (a *acceptance) place(ctx context.Context) error {
	a.chat = text(a.body, "chat_id")
	if _, placed := a.body["parent_id"]; a.chat == "" && !placed && Waits(a.body) {
		a.lone, a.chat = true, "temporary:"+a.NewID()
		for i := range a.targetsOf {
			if t := &a.targetsOf[i]; t.message == "" {
				t.message = a.NewID()
			}
		}
	}
	a.saved = !Temporary(a.chat)
	if a.chat == "" {
		a.create = a.newChat()
		var err error
		if a.create.Folder, err = a.inFolder(ctx); err != nil {
			return err
		}
		a.chat = a.create.ID
	} else if a.saved {
		c, ok, err := a.Chats.Head(ctx, a.chat)
		if err != nil {
			return err
		}
		if !ok || c.UserID != a.user.ID {
			return fault.New(fault.NotFound, fault.TextNotFound)
		}
	}
	taken := map[string]bool{text(object(a.body, "user_message"), "id"): true}
	for i := range a.targetsOf {
		t := &a.targetsOf[i]
		if t.message == "" || len(t.message) > table.MaxID || taken[t.message] {
			return fault.New(fault.Conflict, textBadMessage)
		}
		taken[t.message] = true
		t.run = a.NewID()
		if !a.saved || a.create != nil {
			continue
		}
		if err := a.writable(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (a *acceptance) writable(ctx context.Context, t *target) (err error) {
	t.existing, t.known, err = a.Chats.Message(ctx, a.chat, t.message)
	if err != nil || !t.known {
		return err
	}
	if t.existing.Run != "" && !t.existing.Done {
		r, err := a.load(ctx, a.chat, t.existing.Run)
		if err == nil && r.Phase == turn.Open {
			t.open, t.run = true, r.ID
			return nil
		}
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	m := t.existing.Message
	if m.Text("role") != "assistant" || m.Done() || contentText(m["content"]) != "" {
		return fault.New(fault.Conflict, textBadMessage)
	}
	return nil
}

func (a *acceptance) newChat() *chat.Chat {
	now, id := a.Now(), a.NewID()
	return &chat.Chat{
		ID: id, UserID: a.user.ID, Title: chat.NewTitle, Created: now.Unix(), Updated: now.Unix(), Read: now.Unix(),
		UpdatedMillis: now.UnixMilli(), Meta: map[string]any{}, Variables: map[string]any{},
		Doc: map[string]any{"id": id, "title": chat.NewTitle, "models": a.models(), "history": map[string]any{}, "files": []any{}, "tags": []any{}, "timestamp": now.UnixMilli()},
	}
}

func (a *acceptance) models() []any {
	var ids []any
	for _, t := range a.targetsOf {
		ids = append(ids, t.model)
	}
	return ids
}

// record writes everything in one transaction: the runs, their requests, the messages and the chat.
func (a *acceptance) record(ctx context.Context) error {
	var ops []table.Op
	parent, user := a.userMessage()
	for i := range a.targetsOf {
		t := &a.targetsOf[i]
		if t.open {
			continue
		}
		r := Run{
			ID: t.run, Chat: a.chat, Message: t.message, User: a.user.ID, Phase: turn.Open, Starts: 1, Saved: a.saved,
			Deadline: a.Now().Add(startLimit).UnixMilli(),
		}
		a.runs = append(a.runs, r)
		ops = append(ops, table.Put(r.item(), table.New()), a.request(r, *t))
		if a.saved {
			ops = append(ops, a.message(*t, parent))
		}
	}
	if len(a.runs) == 0 {
		return nil
	}
	if a.saved {
		if user != nil {
			ops = append(ops, *user)
		}
		ops = append(ops, a.chatOp())
	}
	err := a.Table.Transact(ctx, a.remember(ops)...)
	switch {
	case err == nil:
		return nil
	case table.FailedOn(err, a.repeat.key):
		return err
	case table.FailedOn(err, table.Chat(a.chat)):
		return fault.New(fault.NotFound, fault.TextNotFound)
	case errors.Is(err, table.ErrCondition): // somebody took the message since it was read
		return fault.New(fault.Conflict, textBadMessage)
	}
	return fmt.Errorf("record run: %w", err)
}

// startLimit is the time within which the first step of the machine must have written, before Sweep starts it again.
const startLimit = 30_000_000_000 // 30 s

func (a *acceptance) request(r Run, t target) table.Op {
	index := slices.IndexFunc(a.targetsOf, func(o target) bool { return o.message == t.message })
	doc := Request{
		Run: r.ID, Chat: r.Chat, Message: r.Message, User: r.User, Model: t.model, Index: index, Body: a.body, BaseURL: a.baseURL,
		Saved: a.saved, Browser: object(a.body, "user_message") != nil, Accepted: a.now.UnixMilli(),
	}
	return table.Put(table.Item{Key: table.Request(r.ID), Expires: a.expires(), Attr: map[string]any{
		"chat": r.Chat, "message": r.Message, "user": r.User, "doc": table.MustJSON(doc),
	}})
}

// expires is when a run's working items vanish: long after any run has ended.
func (s *Service) expires() int64 { return s.Now().Add(workTTL).Unix() }

// message is the write that gives the assistant's message to the run.
func (a *acceptance) message(t target, parent any) table.Op {
	if t.known {
		conds := []table.Cond{table.Is(chat.AttrDone, false)}
		if t.existing.Run == "" {
			conds = append(conds, table.No(chat.AttrRun))
		} else {
			conds = append(conds, table.Is(chat.AttrRun, t.existing.Run))
		}
		return table.Update(table.Message(a.chat, t.message), table.Change{
			Set: map[string]any{chat.AttrRun: t.run}, Remove: []string{chat.AttrFinal},
		}, conds...)
	}
	m := chat.Message{
		"id": t.message, "parentId": parent, "childrenIds": []any{}, "role": "assistant", "content": "", "done": false,
		"model": t.model, "timestamp": a.Now().Unix(), "user_id": a.user.ID,
	}
	if t.index != nil {
		m["modelIdx"] = t.index
	}
	item := m.Item(a.chat, t.message)
	item.Attr[chat.AttrRun] = t.run
	return table.Put(item, table.New())
}

// userMessage returns the parent of the answers and, unless the message is stored already, the write of the user's message.
func (a *acceptance) userMessage() (parent any, op *table.Op) {
	given := object(a.body, "user_message")
	if given == nil {
		return a.body["parent_id"], nil
	}
	id := text(given, "id")
	if id == "" || len(id) > table.MaxID {
		return a.body["parent_id"], nil
	}
	if _, has := given["content"]; !has { // {"id": …} alone names a message that exists: regenerate
		return id, nil
	}
	m := chat.Message(maps.Clone(given))
	if _, ok := m["parentId"]; !ok {
		m["parentId"] = a.body["parent_id"]
	}
	if list(m, "childrenIds") == nil {
		m["childrenIds"] = []any{}
	}
	if m.Text("role") == "" {
		m["role"] = "user"
	}
	m["user_id"] = a.user.ID
	m["user"] = map[string]any{"id": a.user.ID, "name": a.user.Name}
	put := table.Put(m.Item(a.chat, id), table.No(chat.AttrRun)) // an answer is never taken for a question
	return id, &put
}

func (a *acceptance) chatOp() table.Op {
	current := a.targetsOf[0].message
	if a.create != nil {
		a.create.Current = current
		return a.create.Put()
	}
	return chat.Touch(a.chat, a.user.ID, a.Now(), map[string]any{"current": current})
}

// start tells the machine to run a generation of a run. Telling it twice is harmless: the execution's name is the run's.
func (s *Service) start(ctx context.Context, r Run) error {
	return s.Machine.Start(ctx, execution(r), Step{Run: r.ID, Chat: r.Chat, Generation: r.Generation})
}
