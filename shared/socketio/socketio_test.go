package socketio

import (
	"errors"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	for frame, want := range map[string]Packet{
		"2":                        {Kind: Ping, ID: NoID},
		"3":                        {Kind: Pong, ID: NoID},
		"3probe":                   {Kind: Pong, ID: NoID, Data: []byte("probe")},
		"40":                       {Kind: Connect, ID: NoID},
		`40{"token":"t"}`:          {Kind: Connect, ID: NoID, Data: []byte(`{"token":"t"}`)},
		`40/admin,{"token":"t"}`:   {Kind: Connect, Namespace: "/admin", ID: NoID, Data: []byte(`{"token":"t"}`)},
		"40/other":                 {Kind: Connect, Namespace: "/other", ID: NoID},
		"41":                       {Kind: Disconnect, ID: NoID},
		`42["heartbeat",{}]`:       {Kind: Event, ID: NoID, Data: []byte(`["heartbeat",{}]`)},
		`427["user-join",{"a":1}]`: {Kind: Event, ID: 7, Data: []byte(`["user-join",{"a":1}]`)},
		`42/n,12["x"]`:             {Kind: Event, Namespace: "/n", ID: 12, Data: []byte(`["x"]`)},
		`43512[true]`:              {Kind: Ack, ID: 512, Data: []byte(`[true]`)},
		"430[]":                    {Kind: Ack, ID: 0, Data: []byte(`[]`)},
	} {
		got, err := Parse(frame)
		if len(got.Data) == 0 {
			got.Data = nil
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", frame, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, frame := range []string{"", "9", "4", "45[]", "49", "x", "42[", `42["a"]x`, "40{", "4299999999999999999999[]", "hello"} {
		if _, err := Parse(frame); !errors.Is(err, ErrFrame) {
			t.Errorf("Parse(%q) = %v, want ErrFrame", frame, err)
		}
	}
}

func TestFrames(t *testing.T) {
	for want, got := range map[string][]byte{
		`0{"sid":"s","upgrades":[],"pingTimeout":2,"pingInterval":1,"maxPayload":3}`: Opening(Handshake{SID: "s", PingInterval: 1, PingTimeout: 2, MaxPayload: 3}),
		`40{"sid":"s"}`:                Connected("s"),
		`44/other,"Unable to connect"`: Refused("/other", "Unable to connect"),
		`42["events",{"a":"<b>"}]`:     Emit(NoID, "events", map[string]string{"a": "<b>"}),
		`4217["events",null]`:          Emit(17, "events", nil),
		`435[]`:                        Acknowledge(5),
		`430[true]`:                    Acknowledge(0, true),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCallAndArgs(t *testing.T) {
	p, _ := Parse(`421["usage",{"model":"m"},2]`)
	if name, args, err := p.Call(); err != nil || name != "usage" || len(args) != 2 || string(args[0]) != `{"model":"m"}` {
		t.Errorf("Call = %s, %s, %v", name, args, err)
	}
	for _, frame := range []string{"42", "42[]", "42{}", "42[1]"} {
		p, _ := Parse(frame)
		if _, _, err := p.Call(); !errors.Is(err, ErrFrame) {
			t.Errorf("Call of %q: %v", frame, err)
		}
	}
	p, _ = Parse(`431[1,"b"]`)
	if args, err := p.Args(); err != nil || len(args) != 2 {
		t.Errorf("Args = %s, %v", args, err)
	}
}

// FuzzParse checks that no frame panics, and that what was understood survives being written and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "2", "40", `40{"token":"t"}`, "42/n,1[\"a\",{}]", "43[]", "44/x,\"no\"", "42", "4/,", "40/?,", "42-1[]", "42/a,b,[1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, frame string) {
		p, err := Parse(frame)
		if err != nil {
			return
		}
		_, _, _ = p.Call()
		_, _ = p.Args()
		again, err := Parse(string(p.Encode()))
		if err != nil {
			t.Fatalf("%q became %q: %v", frame, p.Encode(), err)
		}
		if again.Kind != p.Kind || again.Namespace != p.Namespace || again.ID != p.ID || string(again.Data) != string(p.Data) {
			t.Fatalf("%q: %+v, then %+v", frame, p, again)
		}
	})
}
