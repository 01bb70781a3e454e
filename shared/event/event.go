// Package event knows the events that clients are told of a message while it is made: their kinds, what each leaves in the record,
// and the envelopes of a streamed answer. An event is an object {"type": ..., "data": ...}, exactly as a tool emitted it or as
// Open WebUI sends it (spec/socket.md sections 2 and 3); nothing is added to it, changed in it or taken from it on its way.
//
// What a kind leaves behind is decided here and nowhere else. It is what Open WebUI stores, and what Open WebUI only shows while the
// run lasts and forgets on reload (follow-ups, files, embeds, an error, a title, tags): what a user has seen stays.
package event

import (
	"slices"
	"strings"
)

// Event is one event.
type Event map[string]any

// New makes an event.
func New(kind string, data any) Event { return Event{"type": kind, "data": data} }

// Kind is the event's type, "" when it has none.
func (e Event) Kind() string { return text(e, "type") }

// Data is the event's data when it is an object, else nil.
func (e Event) Data() map[string]any {
	data, _ := e["data"].(map[string]any)
	return data
}

// The kinds that the server itself sends, or that leave something in the record.
const (
	Status       = "status"
	Citation     = "citation"
	Source       = "source"
	Files        = "files"
	MessageFiles = "chat:message:files"
	Embeds       = "embeds"
	MessageEmbed = "chat:message:embeds"
	MessageError = "chat:message:error"
	FollowUps    = "chat:message:follow_ups"
	Title        = "chat:title"
	Tags         = "chat:tags"
	Active       = "chat:active"
	List         = "chat:list"
	Presence     = "chat:presence"
	Cancel       = "chat:tasks:cancel"
	Completion   = "chat:completion"
	Response     = "response:completion"
	Confirmation = "confirmation"
	Input        = "input"
	UserInput    = "request:user_input"
	Elicitation  = "request:elicitation"
	Interaction  = "request:interaction:done"
)

// Lasts tells whether events of that kind leave something in the record.
func Lasts(kind string) bool {
	switch kind {
	case Status, Citation, Source, Files, Embeds, Title, Tags:
		return true
	}
	return strings.HasPrefix(kind, "chat:message:") && kind != "chat:message:delta"
}

// Interactive tells whether a question of that kind is a dialog, which a client is told the end of.
func Interactive(kind string) bool {
	switch kind {
	case Confirmation, Input, UserInput, Elicitation:
		return true
	}
	return false
}

// Keep puts what the events leave behind on a message: statuses and sources in order, files and embeds newest first, the last
// follow-ups and the last error.
func Keep(events []Event, message map[string]any) {
	var statuses, sources, files, embeds []any
	for _, e := range events {
		data := e.Data()
		if data == nil {
			continue
		}
		switch e.Kind() {
		case Status:
			statuses = append(statuses, data)
		case Citation, Source:
			if text(data, "type") != "code_execution" {
				sources = append(sources, data)
			}
		case Files, MessageFiles:
			files = append(slices.Clone(list(data, "files")), files...)
		case Embeds, MessageEmbed:
			if replace, _ := data["replace"].(bool); replace {
				embeds = nil
			}
			embeds = append(slices.Clone(list(data, "embeds")), embeds...)
		case FollowUps:
			if f := list(data, "follow_ups"); f != nil {
				message["followUps"] = f
			}
		case MessageError:
			if v := errorOf(data); v != nil {
				message["error"] = v
			}
		}
	}
	for key, v := range map[string][]any{"statusHistory": statuses, "sources": sources, "files": files, "embeds": embeds} {
		if v != nil {
			message[key] = v
		}
	}
}

// errorOf is the error in an event's data: {"error": ...} as clients read it, or the older {"content": ...}.
func errorOf(data map[string]any) any {
	if v, ok := data["error"]; ok {
		return v
	}
	if v, ok := data["content"]; ok {
		return map[string]any{"content": v}
	}
	return nil
}

// TitleOf is the title that an event gives the chat, in either form that tools use; "" for none.
func (e Event) TitleOf() string {
	if s, ok := e["data"].(string); ok {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(text(e.Data(), "title"))
}

// TagsOf are the tags that an event gives the chat, in either form that tools use; nil for none.
func (e Event) TagsOf() []string {
	values, ok := e["data"].([]any)
	if !ok {
		values = list(e.Data(), "tags")
	}
	var tags []string
	for _, v := range values {
		if s, ok := v.(string); ok && strings.TrimSpace(s) != "" {
			tags = append(tags, strings.TrimSpace(s))
		}
	}
	return tags
}

func text(m map[string]any, key string) string { s, _ := m[key].(string); return s }

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}
