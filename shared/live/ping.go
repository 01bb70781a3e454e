package live

import (
	"context"
	"log/slog"
	"sync"

	"toolrounds/shared/socketio"
)

// pingEvery is the number of minutes from one ping of a connection to the next; pingAtOnce how many are sent side by side.
const (
	pingEvery  = 4
	pingAtOnce = 32
)

// Ping sends a ping to a quarter of the open sockets: called every minute it reaches each every four. It keeps silent connections from
// being closed, and finds out those that are gone.
func (s *Service) Ping(ctx context.Context) error {
	if s.Post == nil {
		return nil
	}
	turn := int(s.Now().Unix()/60) % pingEvery
	ping := socketio.Packet{Kind: socketio.Ping, ID: socketio.NoID}.Encode()
	var all sync.WaitGroup
	slots := make(chan struct{}, pingAtOnce)
	err := s.each(ctx, func(c Connection) {
		if len(c.ID) == 0 || int(c.ID[0])%pingEvery != turn {
			return
		}
		frame := ping
		if c.Protocol == Plain {
			frame = mustEncode(map[string]string{"type": "ping"})
		}
		slots <- struct{}{}
		all.Add(1)
		go func() {
			defer func() { <-slots; all.Done() }()
			if err := s.send(ctx, c.ID, frame); err != nil {
				slog.Debug("ping", "error", err)
			}
		}()
	})
	all.Wait()
	return err
}
