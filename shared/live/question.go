package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/event"
	"toolrounds/shared/fault"
	"toolrounds/shared/run"
	"toolrounds/shared/socketio"
	"toolrounds/shared/table"
)

// What a tool gets that asked in vain (spec/socket.md section 4).
const (
	textDisconnected = "Client session disconnected."
	textTimedOut     = "Event call timed out. The browser tab may be inactive or closed."
)

// State is how far a question is.
type State string

// The states of a question. All but pending are final.
const (
	Pending  State = "pending"
	Answered State = "answered"
	Failed   State = "failed"
)

// Question is what a tool asks its user.
type Question struct {
	ID       string      `json:"id"` // within its run: round.call.number
	Run      string      `json:"run"`
	Chat     string      `json:"chat_id"`
	Message  string      `json:"message_id"`
	User     string      `json:"user"`
	Event    event.Event `json:"event"` // as the client is sent it
	Deadline int64       `json:"deadline"`
	Dialog   string      `json:"interaction_id,omitempty"`
	Wait     bool        `json:"wait,omitempty"` // may be answered over HTTP, and needs no socket

	State      State           `json:"-"`
	Value      json.RawMessage `json:"-"`
	Problem    string          `json:"-"`
	Connection string          `json:"-"` // who was asked, "" for nobody
	Lost       int64           `json:"-"` // since when nobody is there to ask, 0: somebody is
}

const (
	attrState      = "state"
	attrValue      = "value"
	attrProblem    = "problem"
	attrConnection = "asked"
	attrLost       = "lost"
)

// maxQuestions is how many questions one call may ask: each leaves a record.
const maxQuestions = 10_000

// questionTTL is how long a question's record is kept.
const questionTTL = 2 * time.Hour

func questionOf(item table.Item) (Question, error) {
	var q Question
	if err := item.JSON(attrDoc, &q); err != nil {
		return q, err
	}
	q.State, q.Problem = State(item.String(attrState)), item.String(attrProblem)
	q.Connection, q.Lost = item.String(attrConnection), item.Int(attrLost)
	if v, ok := item.Attr[attrValue].(table.Blob); ok {
		q.Value = json.RawMessage(v)
	}
	return q, nil
}

// keyOf is a question's key, from the run and its id within it.
func keyOf(run, id string) (table.Key, bool) {
	var round, index, n int
	if c, err := fmt.Sscanf(id, "%d.%d.%d", &round, &index, &n); c != 3 || err != nil || round < 0 || index < 0 || n < 0 ||
		fmt.Sprintf("%d.%d.%d", round, index, n) != id {
		return table.Key{}, false
	}
	return table.Question(run, round, index, n), true
}

// Ask puts a tool's question to the session that the run was asked for by, and returns the question's id. Asking again with the same
// number is the same question.
func (s *Service) Ask(ctx context.Context, t run.Ticket, n int, e event.Event, limit time.Duration) (string, error) {
	id := fmt.Sprintf("%d.%d.%d", t.Round, t.Index, n)
	key, ok := keyOf(t.Run, id)
	if !ok {
		return "", fault.New(fault.Invalid, "The number of a question is not valid.")
	}
	if n >= maxQuestions {
		return "", fault.New(fault.Invalid, fmt.Sprintf("A call may ask %d questions at most.", maxQuestions))
	}
	q := Question{
		ID: id, Run: t.Run, Chat: t.Chat, Message: t.Message, User: t.User, Event: e, Wait: t.Wait,
		Deadline: s.Now().Add(min(limit, s.Patience)).UnixMilli(),
	}
	if event.Interactive(e.Kind()) {
		q.Dialog = access.NewID()
		q.Event = marked(e, q.Dialog)
	}
	var target *Connection
	conns, err := s.Of(ctx, t.User)
	if err != nil {
		return "", err
	}
	for _, c := range conns {
		if t.Session != "" && c.Session == t.Session && c.Protocol != HTTP {
			target = &c
		}
	}
	attrs := map[string]any{attrDoc: table.MustJSON(q), attrState: string(Pending), attrConnection: "", attrLost: int64(0)}
	switch {
	case target != nil:
		attrs[attrConnection] = target.ID
	case !q.Wait:
		attrs[attrState], attrs[attrProblem] = string(Failed), textDisconnected
	}
	_, err = s.Table.Apply(ctx, table.Put(table.Item{Key: key, Expires: s.Now().Add(questionTTL).Unix(), Attr: attrs}, table.New()))
	if errors.Is(err, table.ErrCondition) {
		return id, nil
	}
	if err != nil {
		return "", fmt.Errorf("store question: %w", err)
	}
	switch {
	case target != nil:
		s.put(ctx, q, *target)
	case q.Wait: // whoever follows by numbers learns of it
		s.announce(ctx, q)
	}
	return id, nil
}

// marked is the event with the id of its dialog.
func marked(e event.Event, dialog string) event.Event {
	data := map[string]any{}
	for k, v := range e.Data() {
		data[k] = v
	}
	data["interaction_id"] = dialog
	c := event.Event{}
	for k, v := range e {
		c[k] = v
	}
	c["data"] = data
	return c
}

// put sends a question to a connection.
func (s *Service) put(ctx context.Context, q Question, to Connection) {
	var frame []byte
	if to.Protocol == Plain {
		frame = fitting(q.Event, q.Chat, func(e event.Event) []byte {
			return mustEncode(plainEvent{Type: "event", payload: payloadOf(q.Chat, q.Message, e), Call: q.CallID()})
		})
	} else {
		id := randomID()
		_, err := s.Table.Apply(ctx, table.Put(table.Item{Key: table.Asked(to.ID, id), Expires: s.Now().Add(questionTTL).Unix(), Attr: map[string]any{
			"run": q.Run, "question": q.ID, "owner": q.User,
		}}))
		if err != nil {
			slog.Warn("note a question", "run", q.Run, "user", q.User, "error", err)
			return
		}
		frame = fitting(q.Event, q.Chat, func(e event.Event) []byte { return socketio.Emit(id, "events", payloadOf(q.Chat, q.Message, e)) })
	}
	if err := s.send(ctx, to.ID, frame); err != nil {
		slog.Info("ask", "run", q.Run, "user", q.User, "error", err) // who waits for the answer finds out
	}
}

// announce tells everybody who can answer over the plain protocol or HTTP that a question waits.
func (s *Service) announce(ctx context.Context, q Question) {
	s.publish(ctx, q, event.New("request:question", map[string]any{
		"call_id": q.CallID(), "event": map[string]any(q.Event), "deadline": q.Deadline / 1000,
	}))
}

func (s *Service) publish(ctx context.Context, q Question, e event.Event) {
	place := run.Place{Run: q.Run, User: q.User, Chat: q.Chat, Message: q.Message}
	s.Feed(place).Publish(ctx, run.Show{Events: []event.Event{e}})
}

// CallID names a question where its run is not known from elsewhere.
func (q Question) CallID() string { return q.Run + ":" + q.ID }

// AnswerCall answers a question of a chat by its CallID.
func (s *Service) AnswerCall(ctx context.Context, user, chat, call string, value json.RawMessage) (accepted bool, err error) {
	run, id, ok := splitCall(call)
	if !ok || len(run) > table.MaxID {
		return false, nil
	}
	q, ok, err := s.question(ctx, run, id)
	if err != nil || !ok || q.User != user || q.Chat != chat {
		return false, err
	}
	return s.settle(ctx, q, Answered, value, "")
}

// Answer answers a question, if it is still open and this user's. Accepted false: it is not.
func (s *Service) Answer(ctx context.Context, user, run, id string, value json.RawMessage) (accepted bool, err error) {
	q, ok, err := s.question(ctx, run, id)
	if err != nil || !ok || q.User != user {
		return false, err
	}
	return s.settle(ctx, q, Answered, value, "")
}

func (s *Service) question(ctx context.Context, run, id string) (Question, bool, error) {
	key, ok := keyOf(run, id)
	if !ok {
		return Question{}, false, nil
	}
	item, ok, err := table.One(ctx, s.Table, key)
	if err != nil || !ok {
		return Question{}, false, err
	}
	q, err := questionOf(item)
	return q, err == nil, err
}

// settle ends a question, once, and tells whoever was asked that its dialog is over.
func (s *Service) settle(ctx context.Context, q Question, state State, value json.RawMessage, problem string) (bool, error) {
	key, _ := keyOf(q.Run, q.ID)
	set := map[string]any{attrState: string(state), attrProblem: problem}
	if value != nil {
		set[attrValue] = table.Blob(value)
	}
	now, err := s.Table.Apply(ctx, table.Update(key, table.Change{Set: set}, table.Is(attrState, string(Pending))))
	if errors.Is(err, table.ErrCondition) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("settle question: %w", err)
	}
	if to := now.String(attrConnection); q.Dialog != "" && to != "" {
		done := event.New(event.Interaction, map[string]any{"interaction_id": q.Dialog})
		frame := envelope(q.Chat, q.Message, done)
		if to := s.protocol(ctx, q.User, to); to == Plain {
			frame = plainFrame(q.Chat, q.Message, Numbered{Event: done})
		}
		_ = s.send(ctx, to, frame) // a dialog that is gone needs no end
	}
	if q.Wait {
		s.publish(ctx, q, event.New("request:question:done", map[string]any{"call_id": q.CallID()}))
	}
	return true, nil
}

func (s *Service) protocol(ctx context.Context, user, connection string) Protocol {
	item, _, err := table.One(ctx, s.Table, table.UserConnection(user, connection))
	if err != nil {
		return SocketIO
	}
	return Protocol(item.String("protocol"))
}

// Drop implements run.Questions.
func (s *Service) Drop(ctx context.Context, run string) {
	for _, q := range s.pending(ctx, run) {
		if _, err := s.settle(ctx, q, Failed, nil, textDisconnected); err != nil {
			slog.Warn("drop question", "run", run, "error", err)
		}
	}
}

func (s *Service) pending(ctx context.Context, run string) []Question {
	var all []Question
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.Request(run).PK, Prefix: table.QuestionPrefix}) {
		if err != nil {
			slog.Warn("read questions", "run", run, "error", err)
			return all
		}
		if q, err := questionOf(item); err == nil && q.State == Pending {
			all = append(all, q)
		}
	}
	return all
}

// Pending lists the questions of runs that wait for an answer.
func (s *Service) Pending(ctx context.Context, user string, runs []string) []Question {
	all := []Question{}
	for _, r := range runs {
		for _, q := range s.pending(ctx, r) {
			if q.User == user && q.Deadline > s.Now().UnixMilli() {
				all = append(all, q)
			}
		}
	}
	return all
}

// splitCall takes a call id apart.
func splitCall(id string) (run, question string, ok bool) {
	i := strings.LastIndexByte(id, ':')
	if i < 0 {
		return "", "", false
	}
	return id[:i], id[i+1:], true
}

// joined tells whether a connection is in the room of a chat.
func (c Connection) joined(chat string) bool {
	return c.Protocol == SocketIO && slices.Contains(c.Chats, chat) || c.Protocol == Plain && c.hears(chat)
}
