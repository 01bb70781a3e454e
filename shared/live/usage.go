package live

import (
	"context"
	"fmt"
	"time"

	"toolrounds/shared/table"
)

// usageTTL is how long a model counts as in use after a client has said so.
const usageTTL = 3 * time.Second

// use notes that a connection's user is looking at a model.
func (s *Service) use(ctx context.Context, connection, model string) error {
	item := table.Item{Key: table.Usage(connection), Expires: s.Now().Add(time.Minute).Unix(), Attr: map[string]any{
		"model": model, "at": s.Now().UnixMilli(),
	}}
	if _, err := s.Table.Apply(ctx, table.Put(item)); err != nil {
		return fmt.Errorf("note use: %w", err)
	}
	return nil
}

// InUse lists the models that somebody looks at, and how many users are connected.
func (s *Service) InUse(ctx context.Context) (models []string, users int, err error) {
	models = []string{}
	seen := map[string]bool{}
	since := s.Now().Add(-usageTTL).UnixMilli()
	for item, err := range s.Table.Query(ctx, table.Query{PK: table.Usage("").PK}) {
		if err != nil {
			return nil, 0, fmt.Errorf("read use: %w", err)
		}
		if m := item.String("model"); item.Int("at") >= since && !seen[m] {
			seen[m] = true
			models = append(models, m)
		}
	}
	connected := map[string]bool{}
	err = s.each(ctx, func(c Connection) { connected[c.User] = true })
	return models, len(connected), err
}

// each calls f with every open socket.
func (s *Service) each(ctx context.Context, f func(Connection)) error {
	for shard := range table.Shards {
		for item, err := range s.Table.Query(ctx, table.Query{PK: table.Connections(shard), Index: true}) {
			if err != nil {
				return fmt.Errorf("read connections: %w", err)
			}
			c, err := connectionOf(item)
			if err != nil {
				return err
			}
			f(c)
		}
	}
	return nil
}
