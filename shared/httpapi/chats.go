package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/fault"
	"toolrounds/shared/folder"
	"toolrounds/shared/run"
	"toolrounds/shared/table"
)

// Chats is what the chat routes work with.
type Chats struct {
	Store *chat.Store
	Runs  *run.Service
	Purge chat.Purger
	// BaseURL is where the service is reached, as callers see it.
	BaseURL func(r *http.Request) string
}

func (s *server) chatRoutes() []Route {
	return []Route{
		// Chats (spec/http.md D2).
		{"POST", "/api/v1/chats/new", User, s.newChat},
		{"GET", "/api/v1/chats", User, s.listChats},
		{"GET", "/api/v1/chats/list", User, s.listChats},
		{"GET", "/api/v1/chats/pinned", User, s.pinnedChats},
		{"GET", "/api/v1/chats/all/tags", User, empty},
		{"GET", "/api/v1/chats/{id}", User, s.readChat},
		{"POST", "/api/v1/chats/{id}", User, s.updateChat},
		{"DELETE", "/api/v1/chats/{id}", User, s.deleteChat},
		{"GET", "/api/v1/chats/{id}/{part}", User, s.chatPart},
		{"POST", "/api/v1/chats/{id}/messages/{message}", User, s.editMessage},

		// Files that tools made.
		{"GET", "/api/v1/files/{id}/content", User, s.fileContent},

		// Completions and their tasks (spec/http.md D1, D6, F).
		{"POST", "/api/chat/completions", User, s.complete},
		{"POST", "/api/v1/chat/completions", User, s.complete},
		{"GET", "/api/tasks", Admin, s.allTasks},
		{"GET", "/api/tasks/chat/{chat}", User, s.chatTasks},
		{"POST", "/api/tasks/chat/{chat}/stop", User, s.stopChat},
		{"POST", "/api/tasks/stop/{id}", Admin, s.stopTask},
	}
}

var errNoChat = fault.New(fault.Unauthorized, fault.TextNotFound)

// chatForm reads the client's chat object, and the folder that the chat is to be in, "" for none.
func (s *server) chatForm(r *http.Request) (doc map[string]any, folder string, err error) {
	var raw map[string]any
	if err := s.decode(r, &raw); err != nil {
		return nil, "", err
	}
	c, ok := raw["chat"]
	if !ok {
		return nil, "", fault.Fields(fault.MissingField(raw, "body", "chat"))
	}
	if doc, ok = c.(map[string]any); !ok {
		return nil, "", fault.Fields(fault.Field{Type: "dict_type", Loc: []any{"body", "chat"}, Msg: "Input should be a valid dictionary", Input: c})
	}
	folder, _ = raw["folder_id"].(string)
	return doc, folder, nil
}

// split takes the messages and the current message out of a client's chat object. Messages is nil when the object has no history.
func split(doc map[string]any) (rest map[string]any, messages map[string]chat.Message, current string, err error) {
	rest = maps.Clone(doc)
	v, has := doc["history"]
	if !has || v == nil {
		return rest, nil, "", nil
	}
	history, ok := v.(map[string]any)
	if !ok {
		return nil, nil, "", wrongType("dict", v, "history")
	}
	others := map[string]any{}
	for k, v := range history {
		if k != "messages" && k != "currentId" {
			others[k] = v
		}
	}
	rest["history"] = others
	current, _ = history["currentId"].(string)
	messages = map[string]chat.Message{}
	given, ok := history["messages"].(map[string]any)
	if !ok && history["messages"] != nil {
		return nil, nil, "", wrongType("dict", history["messages"], "history", "messages")
	}
	for id, v := range given {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, nil, "", wrongType("dict", v, "history", "messages", id)
		}
		if id == "" || len(id) > table.MaxID {
			return nil, nil, "", fault.New(fault.Invalid, "A message id must have 1 to 256 bytes.")
		}
		messages[id] = m
	}
	return rest, messages, current, nil
}

func wrongType(kind string, input any, path ...any) error {
	return fault.Fields(fault.Field{Type: kind + "_type", Loc: append([]any{"body", "chat"}, path...), Msg: "Input should be a valid dictionary", Input: input})
}

func (s *server) newChat(w http.ResponseWriter, r *http.Request) error {
	doc, into, err := s.chatForm(r)
	if err != nil {
		return err
	}
	rest, messages, current, err := split(doc)
	if err != nil {
		return err
	}
	u := s.caller(r).User
	if into != "" {
		if _, err := s.Folders.Get(r.Context(), u.ID, into); err != nil {
			return err
		}
	}
	for _, m := range messages {
		if m["user_id"] == nil {
			m["user_id"] = u.ID
		}
		if m.Text("role") == "user" && m["user"] == nil {
			m["user"] = map[string]any{"id": u.ID, "name": u.Name}
		}
	}
	title, _ := doc["title"].(string)
	if title == "" {
		title = chat.NewTitle
	}
	now := s.Now()
	c := chat.Chat{
		ID: access.NewID(), UserID: u.ID, Title: title, Current: current, Doc: rest, Meta: map[string]any{}, Variables: map[string]any{}, Folder: into,
		Created: now.Unix(), Updated: now.Unix(), UpdatedMillis: now.UnixMilli(), Read: now.Unix(),
	}
	if err := s.Chats.Store.Create(r.Context(), c, messages); err != nil {
		return err
	}
	tree := &chat.Tree{Chat: c, Messages: map[string]chat.Record{}}
	for id, m := range messages {
		tree.Messages[id] = chat.Record{Message: m}
	}
	return s.answer(w, http.StatusOK, chatRecord(tree, false))
}

// chatRecord is a chat as clients see it.
func chatRecord(tree *chat.Tree, shared bool) map[string]any {
	c := tree.Chat
	doc := maps.Clone(c.Doc)
	if doc == nil {
		doc = map[string]any{}
	}
	if history, ok := doc["history"].(map[string]any); ok || len(tree.Messages) > 0 {
		history = maps.Clone(history)
		if history == nil {
			history = map[string]any{}
		}
		messages := map[string]chat.Message{}
		for id, m := range tree.Messages {
			messages[id] = m.Message
		}
		history["messages"], history["currentId"] = messages, orNull(c.Current)
		doc["history"] = history
	}
	if shared {
		doc["share_mode"] = "continue"
	}
	return map[string]any{
		"id": c.ID, "user_id": c.UserID, "title": c.Title, "chat": doc, "updated_at": c.Updated, "created_at": c.Created, "share_id": nil,
		"archived": c.Archived, "pinned": c.Pinned, "meta": orObject(c.Meta), "variables": orObject(c.Variables), "folder_id": orNull(c.Folder),
		"tasks": c.Tasks, "summary": c.Summary, "current_message_id": orNull(c.Current), "context_usage": nil,
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func orObject(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func (s *server) listChats(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	if on, err := strconv.ParseBool(r.URL.Query().Get("include_folders")); err == nil && on {
		return s.chatList(w, r, chat.Page{Number: page}, func(c chat.Chat) bool { return !c.Archived })
	}
	folders, err := s.Folders.List(r.Context(), s.caller(r).User.ID)
	if err != nil {
		return err
	}
	// A chat whose folder is gone is listed here: it would be out of reach.
	return s.chatList(w, r, chat.Page{Number: page}, func(c chat.Chat) bool {
		return !c.Archived && !slices.ContainsFunc(folders, func(f folder.Folder) bool { return f.ID == c.Folder })
	})
}

// pageOf is the page that is asked for, counted from 1; 0 when none is.
func pageOf(r *http.Request) (int, error) {
	page := 0
	if p := r.URL.Query().Get("page"); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 100_000 {
			return 0, fault.Fields(fault.Field{Type: "int_parsing", Loc: []any{"query", "page"}, Msg: "Input should be a valid integer, unable to parse string as an integer", Input: p})
		}
		page = n
	}
	return page, nil
}

func (s *server) pinnedChats(w http.ResponseWriter, r *http.Request) error {
	return s.chatList(w, r, chat.Page{}, func(c chat.Chat) bool { return c.Pinned })
}

func (s *server) chatList(w http.ResponseWriter, r *http.Request, page chat.Page, keep func(chat.Chat) bool) error {
	chats, err := s.Chats.Store.List(r.Context(), s.caller(r).User.ID, page, keep)
	if err != nil {
		return err
	}
	entries := []map[string]any{}
	for _, c := range chats {
		entries = append(entries, map[string]any{
			"id": c.ID, "title": c.Title, "updated_at": c.Updated, "created_at": c.Created, "last_read_at": c.Read, "snippet": nil,
			"active": false, "archived": c.Archived,
		})
	}
	return s.answer(w, http.StatusOK, entries)
}

// ownTree reads a chat that the caller may see: his own, or any for administrators.
func (s *server) ownTree(ctx context.Context, u access.User, id string) (*chat.Tree, error) {
	if run.Temporary(id) || len(id) > table.MaxID {
		return nil, errNoChat
	}
	tree, err := s.Chats.Store.Tree(ctx, id)
	if err != nil {
		return nil, err
	}
	if tree == nil || tree.Chat.UserID != u.ID && !u.Admin() {
		return nil, errNoChat
	}
	return tree, nil
}

func (s *server) readChat(w http.ResponseWriter, r *http.Request) error {
	tree, err := s.ownTree(r.Context(), s.caller(r).User, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.Chats.Runs.Overlay(r.Context(), tree); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, chatRecord(tree, true))
}

func (s *server) chatTags(w http.ResponseWriter, r *http.Request) error {
	tree, err := s.ownTree(r.Context(), s.caller(r).User, r.PathValue("id"))
	if err != nil {
		return err
	}
	tags := []map[string]any{}
	ids, _ := tree.Chat.Meta["tags"].([]any)
	for _, id := range ids {
		tags = append(tags, map[string]any{"id": id, "name": id, "user_id": tree.Chat.UserID, "meta": nil})
	}
	return s.answer(w, http.StatusOK, tags)
}

// updateChat merges the top-level keys of the client's chat object. Messages that a run is writing are left alone.
func (s *server) updateChat(w http.ResponseWriter, r *http.Request) error {
	doc, _, err := s.chatForm(r)
	if err != nil {
		return err
	}
	tree, err := s.ownTree(r.Context(), s.caller(r).User, r.PathValue("id"))
	if err != nil || tree.Chat.UserID != s.caller(r).User.ID {
		if err != nil && fault.CodeOf(err) == fault.Internal {
			return err
		}
		return fault.New(fault.Unauthorized, fault.TextProhibited)
	}
	rest, messages, current, err := split(doc)
	if err != nil {
		return err
	}
	c := tree.Chat
	c.Doc = maps.Clone(orObject(c.Doc))
	maps.Copy(c.Doc, rest)
	if title, ok := doc["title"].(string); ok && title != "" {
		c.Title = title
	}
	if messages != nil {
		c.Current = current
	}
	if err := s.Chats.Store.Save(r.Context(), tree, c, messages); err != nil {
		if errors.Is(err, table.ErrCondition) {
			return fault.New(fault.Unauthorized, fault.TextProhibited) // deleted in between
		}
		return err
	}
	if tree, err = s.ownTree(r.Context(), s.caller(r).User, c.ID); err != nil {
		return err
	}
	if err := s.Chats.Runs.Overlay(r.Context(), tree); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, chatRecord(tree, false))
}

func (s *server) deleteChat(w http.ResponseWriter, r *http.Request) error {
	tree, err := s.ownTree(r.Context(), s.caller(r).User, r.PathValue("id"))
	if fault.CodeOf(err) == fault.Unauthorized && err != nil {
		return fault.New(fault.NotFound, fault.TextNotFound)
	}
	if err != nil {
		return err
	}
	if err := s.dropChat(r.Context(), tree.Chat.ID); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, true)
}

func (s *server) editMessage(w http.ResponseWriter, r *http.Request) error {
	var form map[string]any
	if err := s.decode(r, &form); err != nil {
		return err
	}
	text, ok := form["content"].(string)
	if !ok {
		if form["content"] == nil {
			return fault.New(fault.Invalid, "No message changes supplied")
		}
		return fault.Fields(fault.Field{Type: "string_type", Loc: []any{"body", "content"}, Msg: "Input should be a valid string", Input: form["content"]})
	}
	u, id := s.caller(r).User, r.PathValue("message")
	tree, err := s.ownTree(r.Context(), u, r.PathValue("id"))
	if err != nil {
		return err
	}
	stored, ok := tree.Messages[id]
	if !ok {
		return errNoChat
	}
	fields := map[string]any{"content": text}
	if output, ok := stored.Message["output"].([]any); ok {
		fields["output"] = edited(output, text)
	}
	err = s.Chats.Store.Edit(r.Context(), tree.Chat.ID, tree.Chat.UserID, id, stored, fields)
	if errors.Is(err, table.ErrCondition) {
		return fault.New(fault.Conflict, "The message is being written.")
	}
	if err != nil {
		return err
	}
	if tree, err = s.ownTree(r.Context(), u, tree.Chat.ID); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, chatRecord(tree, true))
}

// edited is an answer's output with its text replaced: what the model is sent later is what the user sees.
func edited(output []any, text string) []any {
	kept := slices.DeleteFunc(slices.Clone(output), func(v any) bool {
		item, _ := v.(map[string]any)
		return item["type"] == "message"
	})
	return append(kept, map[string]any{
		"type": "message", "id": "msg_" + access.NewID(), "status": run.Completed, "role": "assistant",
		"content": []any{map[string]any{"type": "output_text", "text": text}},
	})
}
