package live

import (
	"encoding/json"
	"unicode/utf8"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
	"toolrounds/shared/socketio"
	"toolrounds/shared/table"
)

// payload is what clients get of an event, in every protocol (spec/socket.md section 1).
type payload struct {
	Chat    string      `json:"chat_id"`
	Message any         `json:"message_id"`
	Data    event.Event `json:"data"`
}

func payloadOf(chat, message string, e event.Event) payload {
	p := payload{Chat: chat, Data: e}
	if message != "" {
		p.Message = message
	}
	return p
}

// envelope is the Socket.IO frame of an event.
func envelope(chat, message string, e event.Event) []byte {
	return fitting(e, chat, func(e event.Event) []byte { return socketio.Emit(socketio.NoID, "events", payloadOf(chat, message, e)) })
}

// plainEvent is an event in the plain protocol.
type plainEvent struct {
	Type string `json:"type"` // event
	Seq  int64  `json:"seq,omitempty"`
	payload
	Call string `json:"call_id,omitempty"` // of a question: what the answer names
}

// frame is one event on its way. A piece of text can be made good by telling the message's output.
type frame struct {
	raw   []byte
	piece bool
}

// envelopes are the Socket.IO frames of events.
func envelopes(to run.Place, events []event.Event) []frame {
	frames := make([]frame, len(events))
	for i, e := range events {
		frames[i] = frame{envelope(to.Chat, to.Message, e), e.Kind() == event.Response}
	}
	return frames
}

// plainFrames are the plain protocol's frames of numbered events.
func plainFrames(to run.Place, events []Numbered) []frame {
	frames := make([]frame, len(events))
	for i, n := range events {
		frames[i] = frame{raw: plainFrame(to.Chat, to.Message, n)}
	}
	return frames
}

func plainFrame(chat, message string, n Numbered) []byte {
	return fitting(n.Event, chat, func(e event.Event) []byte {
		return mustEncode(plainEvent{Type: "event", Seq: n.Seq, payload: payloadOf(chat, message, e)})
	})
}

// fitting encodes an event in at most MaxFrame bytes. One that is larger goes as a copy whose long texts are cut, with a mark and the
// place where all of it is: {"truncated": true, "fetch": path}. The record has it whole.
func fitting(e event.Event, chat string, encode func(event.Event) []byte) []byte {
	frame := encode(e)
	for limit := 16 << 10; len(frame) > MaxFrame && limit >= 64; limit /= 4 {
		short := event.Event(shortened(map[string]any(e), limit).(map[string]any))
		mark := map[string]any{"truncated": true, "fetch": "/api/v1/chats/" + chat}
		if data, ok := short["data"].(map[string]any); ok {
			for k, v := range mark {
				data[k] = v
			}
		}
		frame = encode(short)
	}
	if len(frame) <= MaxFrame {
		return frame
	}
	// Too many values rather than too long ones: only its kind can be told.
	return encode(event.New(e.Kind(), map[string]any{"truncated": true, "fetch": "/api/v1/chats/" + chat, "done": e.Data()["done"]}))
}

// shortened is a copy of a JSON value whose texts have at most limit bytes each.
func shortened(v any, limit int) any {
	switch v := v.(type) {
	case string:
		return cut(v, limit)
	case event.Event:
		return shortened(map[string]any(v), limit)
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = shortened(e, limit)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = shortened(e, limit)
		}
		return c
	case json.Number, bool, nil, int, int64, float64:
		return v
	}
	// Values of Go types that the server made: as JSON has them.
	var plain any
	if table.Decode(table.MustJSON(v), &plain) != nil {
		return nil
	}
	return shortened(plain, limit)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

func mustEncode(v any) []byte { return table.MustJSON(v) }
