// Package socketio is the framing of Socket.IO 5 over Engine.IO 4 on a websocket: text frames in, packets out, and back. It keeps no
// state and knows nothing of what events mean; package live does. Binary attachments are not supported: the contract has none.
//
// A frame is an Engine.IO digit (0 open, 1 close, 2 ping, 3 pong, 4 message) and, after a 4, a Socket.IO digit (0 connect,
// 1 disconnect, 2 event, 3 acknowledgement, 4 connect error), then an optional namespace ("/name,"), an optional acknowledgement id,
// and JSON.
package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a frame is.
type Kind string

// The kinds of frames.
const (
	Open         Kind = "0"
	Close        Kind = "1"
	Ping         Kind = "2"
	Pong         Kind = "3"
	Upgrade      Kind = "5"
	Noop         Kind = "6"
	Connect      Kind = "40"
	Disconnect   Kind = "41"
	Event        Kind = "42"
	Ack          Kind = "43"
	ConnectError Kind = "44"
)

// NoID is the acknowledgement id of a packet that asks for none.
const NoID int64 = -1

// Packet is one frame, decoded.
type Packet struct {
	Kind      Kind
	Namespace string          // "" is the default one
	ID        int64           // of an event that wants an acknowledgement, or of the acknowledgement; else NoID
	Data      json.RawMessage // of connect: the auth object; of events and acknowledgements: an array; else what follows
}

// ErrFrame says that a frame is not of the protocol.
var ErrFrame = errors.New("not a Socket.IO frame")

// Parse decodes a frame. It never panics, whatever the frame is; errors wrap ErrFrame.
func Parse(frame string) (Packet, error) {
	p := Packet{ID: NoID}
	if frame == "" {
		return p, fmt.Errorf("%w: empty", ErrFrame)
	}
	p.Kind = Kind(frame[:1])
	rest := frame[1:]
	switch p.Kind {
	case Open, Close, Ping, Pong, Upgrade, Noop:
		p.Data = json.RawMessage(rest)
		return p, nil
	}
	if len(frame) < 2 || frame[0] != '4' || frame[1] < '0' || frame[1] > '4' {
		return p, fmt.Errorf("%w: kind %q", ErrFrame, head(frame))
	}
	p.Kind, rest = Kind(frame[:2]), frame[2:]
	if strings.HasPrefix(rest, "/") {
		name, after, found := strings.Cut(rest, ",")
		if !found {
			after = ""
		}
		name, _, _ = strings.Cut(name, "?") // a query belongs to no namespace
		p.Namespace, rest = strings.TrimRight(name, "/"), after
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if digits > 0 && (p.Kind == Event || p.Kind == Ack) {
		id, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return p, fmt.Errorf("%w: id %q", ErrFrame, head(rest))
		}
		p.ID, rest = id, rest[digits:]
	}
	if rest != "" && !json.Valid([]byte(rest)) {
		return p, fmt.Errorf("%w: data is not JSON", ErrFrame)
	}
	p.Data = json.RawMessage(rest)
	return p, nil
}

// Call takes an event's packet apart: its name and its arguments.
func (p Packet) Call() (name string, args []json.RawMessage, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(p.Data, &list); err != nil || len(list) == 0 {
		return "", nil, fmt.Errorf("%w: an event is an array with a name", ErrFrame)
	}
	if err := json.Unmarshal(list[0], &name); err != nil {
		return "", nil, fmt.Errorf("%w: the name of an event is text", ErrFrame)
	}
	return name, list[1:], nil
}

// Args are the values of an acknowledgement.
func (p Packet) Args() ([]json.RawMessage, error) {
	if len(p.Data) == 0 {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(p.Data, &list); err != nil {
		return nil, fmt.Errorf("%w: an acknowledgement is an array", ErrFrame)
	}
	return list, nil
}

// Encode is the frame of a packet.
func (p Packet) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(string(p.Kind))
	if p.Namespace != "" {
		b.WriteString(p.Namespace)
		b.WriteByte(',')
	}
	if p.ID != NoID && (p.Kind == Event || p.Kind == Ack) {
		b.WriteString(strconv.FormatInt(p.ID, 10))
	}
	b.Write(p.Data)
	return b.Bytes()
}

// Handshake is what the server says first.
type Handshake struct {
	SID          string   `json:"sid"`
	Upgrades     []string `json:"upgrades"`
	PingTimeout  int64    `json:"pingTimeout"`  // milliseconds
	PingInterval int64    `json:"pingInterval"` // milliseconds
	MaxPayload   int64    `json:"maxPayload"`   // bytes
}

// Opening is the frame that opens a connection.
func Opening(h Handshake) []byte {
	if h.Upgrades == nil {
		h.Upgrades = []string{}
	}
	return Packet{Kind: Open, ID: NoID, Data: encode(h)}.Encode()
}

// Connected is the frame that grants the default namespace.
func Connected(session string) []byte {
	return Packet{Kind: Connect, ID: NoID, Data: encode(map[string]string{"sid": session})}.Encode()
}

// Refused is the frame that refuses a namespace.
func Refused(namespace, why string) []byte {
	return Packet{Kind: ConnectError, Namespace: namespace, ID: NoID, Data: encode(why)}.Encode()
}

// Emit is the frame of an event with one argument; id is NoID when no acknowledgement is wanted.
func Emit(id int64, name string, arg any) []byte {
	return Packet{Kind: Event, ID: id, Data: encode([]any{name, arg})}.Encode()
}

// Acknowledge is the frame that answers an event.
func Acknowledge(id int64, args ...any) []byte {
	if args == nil {
		args = []any{}
	}
	return Packet{Kind: Ack, ID: id, Data: encode(args)}.Encode()
}

// encode is JSON without HTML escaping. What it is given was decoded from JSON or is made of plain values.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("socketio: encode %T: %v", v, err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func head(s string) string { return s[:min(len(s), 16)] }
