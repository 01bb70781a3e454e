package live

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/table"
)

// Protocol is what a connection speaks.
type Protocol string

// The protocols.
const (
	SocketIO Protocol = "socketio"
	Plain    Protocol = "plain"
	HTTP     Protocol = "http" // a request that follows a chat; nothing is pushed to it, it reads the numbered log
)

// Connection is one open connection of a user.
type Connection struct {
	ID       string
	User     string
	Name     string // the user's
	Session  string // the session id that completions name
	Protocol Protocol
	Chats    []string // Socket.IO: the chats whose room it has joined. Plain: those it listens to; none: all.
	Since    int64    // Unix milliseconds
	Seen     int64    // HTTP: when the request was last known to be served
}

// How long a connection's record outlives it: API Gateway ends a connection after two hours.
const (
	connectionTTL = 2*time.Hour + 10*time.Minute
	followerTTL   = time.Minute
)

// SessionOf is the session id of a connection. It is made of the connection's id, so that a stranger's costs no record; it does
// not tell the connection's id.
func SessionOf(connection string) string {
	sum := sha256.Sum256([]byte("session:" + connection))
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// numbered tells whether the connection follows by numbers.
func (c Connection) numbered() bool { return c.Protocol != SocketIO }

// hears tells whether events of a chat are for the connection.
func (c Connection) hears(chat string) bool {
	return c.Protocol == SocketIO || len(c.Chats) == 0 || slices.Contains(c.Chats, chat)
}

func (c Connection) attrs() map[string]any {
	return map[string]any{
		"connection": c.ID, "user": c.User, "name": c.Name, "session": c.Session, "protocol": string(c.Protocol), "since": c.Since, "seen": c.Seen,
		"chats": table.MustJSON(c.Chats),
	}
}

func connectionOf(i table.Item) (Connection, error) {
	c := Connection{
		ID: i.String("connection"), User: i.String("user"), Name: i.String("name"), Session: i.String("session"), Protocol: Protocol(i.String("protocol")),
		Since: i.Int("since"), Seen: i.Int("seen"),
	}
	return c, i.JSON("chats", &c.Chats)
}

// Add records an open connection of its user.
func (s *Service) Add(ctx context.Context, c Connection) error {
	ttl := connectionTTL
	if c.Protocol == HTTP {
		ttl = followerTTL
	}
	expires := s.Now().Add(ttl).Unix()
	ops := []table.Op{table.Put(table.Item{Key: table.UserConnection(c.User, c.ID), Expires: expires, Attr: c.attrs()})}
	if c.Protocol != HTTP {
		ops = append(ops, table.Put(table.Item{
			Key: table.Connection(c.ID, c.User), Expires: expires, IndexPK: table.Connections(shard(c.ID)), IndexSK: c.ID, Attr: c.attrs(),
		}))
	}
	if err := s.Table.Transact(ctx, ops...); err != nil {
		return fmt.Errorf("record connection: %w", err)
	}
	return nil
}

// Remove forgets a connection: it has closed.
func (s *Service) Remove(ctx context.Context, connection string) error {
	pk := table.Connection(connection, "").PK
	ops := []table.Op{table.Delete(table.Usage(connection))}
	for item, err := range s.Table.Query(ctx, table.Query{PK: pk}) {
		if err != nil {
			return fmt.Errorf("read connection: %w", err)
		}
		ops = append(ops, table.Delete(item.Key))
		if user := item.String("user"); user != "" && item.Has("protocol") {
			ops = append(ops, table.Delete(table.UserConnection(user, connection)))
		}
	}
	if err := s.Table.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("forget connection: %w", err)
	}
	return nil
}

// Of lists a user's open connections, oldest first.
func (s *Service) Of(ctx context.Context, user string) ([]Connection, error) {
	var all []Connection
	now := s.Now()
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.User(user).PK, Prefix: table.ConnectionPrefix}) {
		if err != nil {
			return nil, fmt.Errorf("read connections: %w", err)
		}
		c, err := connectionOf(item)
		if err != nil {
			return nil, err
		}
		if item.Expires > 0 && item.Expires < now.Unix() || c.Protocol == HTTP && c.Seen < now.Add(-followerTTL).UnixMilli() {
			continue // it vanishes by itself
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Connection) int { return int(a.Since - b.Since) })
	return all, nil
}

// users are those a connection belongs to.
func (s *Service) users(ctx context.Context, connection string) ([]Connection, error) {
	var all []Connection
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.Connection(connection, "").PK, Prefix: "U#"}) {
		if err != nil {
			return nil, fmt.Errorf("read connection: %w", err)
		}
		c, err := connectionOf(item)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// change stores what a connection listens to.
func (s *Service) change(ctx context.Context, c Connection) error {
	set := table.Change{Set: map[string]any{"chats": table.MustJSON(c.Chats)}}
	err := s.Table.Transact(ctx, table.Update(table.UserConnection(c.User, c.ID), set), table.Update(table.Connection(c.ID, c.User), set))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("change connection: %w", err)
	}
	return nil
}

// admit tells whose a token is. Socket.IO clients show session tokens only.
func (s *Service) admit(ctx context.Context, token string, keys bool) (access.User, bool) {
	if token == "" || !keys && strings.HasPrefix(token, "sk-") {
		return access.User{}, false
	}
	c, err := s.Accounts.Authenticate(ctx, access.Bearer(token), "GET", "/ws/socket.io")
	if err != nil || !c.User.Active() {
		return access.User{}, false
	}
	return c.User, true
}

func shard(connection string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(connection))
	return int(h.Sum32() % table.Shards)
}
