package run

import (
	"strings"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// Request is what a caller asked for, with the place where the answer goes. It is stored when the request is accepted.
type Request struct {
	Run      string         `json:"run"`
	Chat     string         `json:"chat"`
	Message  string         `json:"message"`
	User     string         `json:"user"`
	Model    string         `json:"model"`
	Index    int            `json:"index"` // the model's place when several answer at once
	Body     map[string]any `json:"body"`
	BaseURL  string         `json:"base_url"`
	Saved    bool           `json:"saved"`
	Browser  bool           `json:"browser"` // user_message was sent: messages are rebuilt from the stored branch
	Accepted int64          `json:"accepted"`
}

// Session is the caller's socket session, "" for none: it makes a request asynchronous.
func (r Request) Session() string { return text(r.Body, "session_id") }

// waits tells whether questions of tools wait for an answer over HTTP where no socket can be asked.
func (r Request) waits() bool { return text(r.Body, "questions") == "wait" }

// serverFields are the keys of a request that are meant for the server and never travel to the provider (spec/http.md D3.1).
var serverFields = []string{
	"chat_id", "id", "session_id", "tool_ids", "tool_servers", "terminal_id", "features", "files", "variables", "chat_variables",
	"params", "metadata", "background_tasks", "user_message", "parent_id", "message_ids", "model_item", "filter_ids", "skill_ids",
	"folder_id", "chat", "parent_message", "wait", "idempotency_key", "questions",
}

func text(m map[string]any, key string) string { s, _ := m[key].(string); return s }

func object(m map[string]any, key string) map[string]any {
	o, _ := m[key].(map[string]any)
	return o
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

func flag(m map[string]any, key string) bool { b, _ := m[key].(bool); return b }

func strs(values []any) []string {
	var out []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// shapes are the types of the request's keys; a key of another type is refused before anything is written.
var shapes = []struct {
	key, kind string
}{
	{"model", "string"}, {"messages", "list"}, {"chat_id", "string"}, {"id", "string"}, {"session_id", "string"},
	{"parent_id", "string"}, {"tool_ids", "list"}, {"terminal_id", "string"}, {"features", "dict"}, {"files", "list"},
	{"variables", "dict"}, {"params", "dict"}, {"background_tasks", "dict"}, {"user_message", "dict"}, {"message_ids", "list"},
	{"stream", "bool"}, {"tools", "list"}, {"wait", "bool"}, {"idempotency_key", "string"},
}

// Check refuses a body whose keys have the wrong types; null counts as absent. The fault is the 422 list, or Invalid
// for a mode of approval that would not be kept.
func Check(body map[string]any) error {
	var wrong []fault.Field
	for _, s := range shapes {
		v, ok := body[s.key]
		if !ok || v == nil {
			continue
		}
		good, article := false, ""
		switch s.kind {
		case "string":
			_, good = v.(string)
			article = "string"
		case "list":
			_, good = v.([]any)
			article = "list"
		case "dict":
			_, good = v.(map[string]any)
			article = "dictionary"
		case "bool":
			_, good = v.(bool)
			article = "boolean"
		}
		if !good {
			wrong = append(wrong, fault.Field{Type: s.kind + "_type", Loc: []any{"body", s.key}, Msg: "Input should be a valid " + article, Input: v})
		}
	}
	for i, m := range list(body, "messages") {
		if _, ok := m.(map[string]any); !ok {
			wrong = append(wrong, fault.Field{Type: "dict_type", Loc: []any{"body", "messages", i}, Msg: "Input should be a valid dictionary", Input: m})
		}
	}
	for _, key := range []string{"chat_id", "id", "model"} {
		if id := text(body, key); len(id) > table.MaxID {
			wrong = append(wrong, fault.Field{Type: "string_too_long", Loc: []any{"body", key}, Msg: "String should have at most 256 characters", Input: id})
		}
	}
	if wrong != nil {
		return fault.Fields(wrong...)
	}
	return checkApproval(object(body, "params")["tool_approval_mode"])
}

// checkApproval refuses to run tools for somebody who wants to be asked first: nobody would ask. Absent, null, "" and "auto" mean that
// nobody wants to be; what is not known might mean the contrary.
func checkApproval(mode any) error {
	switch mode {
	case nil, "", "auto":
		return nil
	case "ask":
		return fault.New(fault.Invalid, `params.tool_approval_mode "ask" is not supported: tools would run without your approval.`)
	}
	return fault.New(fault.Invalid, `params.tool_approval_mode is not known; leave it out to have tools run without approval.`)
}

// Waits tells whether a request wants the whole loop and its answer in the body ("wait": true).
func Waits(body map[string]any) bool { return flag(body, "wait") }

// OnChat tells whether a request belongs to a chat: it names one, or brings the first message of a new one, or waits for an answer
// that the server's tools help to make.
func OnChat(body map[string]any) bool {
	if text(body, "chat_id") != "" {
		return true
	}
	if Waits(body) && len(list(body, "tools")) == 0 {
		return true // of its own, which is not stored
	}
	_, placed := body["parent_id"]
	return placed && object(body, "user_message") != nil
}

// contentText is the text of a message's content: a string, or the text parts of a list.
func contentText(content any) string {
	switch c := content.(type) {
	case string:
		return c
	case []any:
		var parts []string
		for _, p := range c {
			if m, ok := p.(map[string]any); ok && text(m, "text") != "" {
				parts = append(parts, text(m, "text"))
			}
		}
		return strings.Join(parts, "\n")
	}
	return ""
}
