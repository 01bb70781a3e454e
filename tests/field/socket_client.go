package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// socketClient is one connection of the plain protocol (docs/websocket.md), and all that it has heard.
type socketClient struct {
	session string
	tcp     net.Conn

	mu      sync.Mutex
	events  []map[string]any
	largest int
	closed  bool
	left    bool // by the case itself
}

// upgradeError is a connection that was refused.
type upgradeError struct{ status int }

func (e upgradeError) Error() string { return fmt.Sprintf("the upgrade was answered %d", e.status) }

// dialSocket connects and waits until the server has said who is there.
func dialSocket(ctx context.Context, base, token string) (*socketClient, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	fmt.Fprintf(tcp, "GET /ws/?token=%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
		url.QueryEscape(token), u.Host, base64.StdEncoding.EncodeToString(key))
	r := bufio.NewReader(tcp)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		_ = tcp.Close()
		return nil, upgradeError{resp.StatusCode}
	}
	c := &socketClient{tcp: tcp}
	ready := make(chan struct{})
	go c.read(r, sync.OnceFunc(func() { close(ready) }))
	if err := c.send(map[string]any{"type": "subscribe"}); err != nil { // its answer tells the session
		return nil, err
	}
	select {
	case <-ready:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send writes one text frame, masked as a client's must be. The cases' messages are short.
func (c *socketClient) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil || len(text) > 125 {
		return errors.Join(err, errors.New("a message that this client cannot send"))
	}
	_, err = c.tcp.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)) // a mask of zeros changes nothing
	return err
}

func (c *socketClient) read(r *bufio.Reader, ready func()) {
	var message []byte
	for {
		opcode, last, payload, err := readFrame(r)
		c.mu.Lock()
		if err != nil || opcode == 8 {
			c.closed = !c.left
			c.mu.Unlock()
			return
		}
		if opcode <= 2 {
			message = append(message, payload...)
			if last {
				c.hear(message, ready)
				message = nil
			}
		}
		c.mu.Unlock()
	}
}

func readFrame(r *bufio.Reader) (opcode byte, last bool, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return
	}
	size := uint64(head[1] & 0x7f)
	switch size {
	case 126:
		var n uint16
		err = binary.Read(r, binary.BigEndian, &n)
		size = uint64(n)
	case 127:
		err = binary.Read(r, binary.BigEndian, &size)
	}
	if err != nil || size > 16<<20 {
		return 0, false, nil, errors.Join(err, errors.New("frame too large"))
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r, payload)
	return head[0] & 0x0f, head[0]&0x80 != 0, payload, err
}

// hear takes one message; the caller holds the lock.
func (c *socketClient) hear(raw []byte, ready func()) {
	c.largest = max(c.largest, len(raw))
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	if m["type"] == "subscribed" {
		c.session, _ = m["session_id"].(string)
		ready()
	}
	if m["type"] != "event" {
		return
	}
	c.events = append(c.events, m)
}

// leave closes the connection: with a close frame, or without a word.
func (c *socketClient) leave(silently bool) {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	if !silently {
		_, _ = c.tcp.Write([]byte{0x88, 0x80, 0, 0, 0, 0})
	}
	_ = c.tcp.Close()
}

// document is what the connection has heard, without what belongs to the chats of other cases: they are the same user's.
func (c *socketClient) document(others func(chat any) bool) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	statuses, frames := []any{}, []any{}
	done, marked := false, false
	for _, m := range c.events {
		if others(m["chat_id"]) {
			continue
		}
		frames = append(frames, m)
		e, _ := m["data"].(map[string]any)
		data, _ := e["data"].(map[string]any)
		if e["type"] == "status" {
			statuses = append(statuses, data["description"])
		}
		done = done || e["type"] == "chat:completion" && data["done"] == true
		content, _ := data["content"].(string)
		marked = marked || strings.Contains(content, "MARKER")
	}
	return map[string]any{
		"frames": frames, "status_descriptions": statuses, "closed": c.closed, "done": done, "max_frame_bytes": c.largest,
		"saw_marker": marked, "http_status": http.StatusSwitchingProtocols,
	}
}
