package live

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
)

// How long a feed goes by what it knows of the connections before it looks again.
const (
	lookWhenHeard = time.Second
	lookWhenDeaf  = 2 * time.Second
)

// Feed implements run.Live.
func (s *Service) Feed(to run.Place) run.Feed {
	return &feed{service: s, to: to, served: map[string]bool{}}
}

// feed pushes one step's events. Batches go out one after another, so every connection gets them in order.
type feed struct {
	service *Service
	to      run.Place

	mu     sync.Mutex
	looked time.Time
	conns  []Connection
	served map[string]bool // connections that have everything this feed has published
	begun  bool            // the feed has published something
	missed bool            // the numbered log has not been told something of this step
	recent []Numbered      // published since the last look: a connection that the next look finds has missed them
	gap    []Numbered      // published between the last two looks
	log    *numbers        // nil until the numbered log is known to be wanted
}

// Heard implements run.Feed.
func (f *feed) Heard(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(ctx)
	return len(f.conns) > 0 || f.numbered()
}

// numbered tells whether the run's numbered log has been begun, by this step or before it: then it goes on, whoever listens, so that
// whoever comes back finds everything.
func (f *feed) numbered() bool { return f.to.Numbered || f.log != nil && f.log.last > 0 }

// look reads the user's connections when what is known of them is old. A run is not failed for it.
func (f *feed) look(ctx context.Context) {
	now, fresh := f.service.Now(), lookWhenDeaf
	if len(f.conns) > 0 {
		fresh = lookWhenHeard
	}
	if !f.looked.IsZero() && now.Sub(f.looked) < fresh {
		return
	}
	all, err := f.service.Of(ctx, f.to.User)
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("look for listeners", "run", f.to.Run, "user", f.to.User, "error", err)
		}
		return
	}
	f.looked, f.conns = now, f.conns[:0]
	f.gap, f.recent = append(f.gap, f.recent...), nil
	for _, c := range all {
		if c.hears(f.to.Chat) {
			f.conns = append(f.conns, c)
		}
	}
}

// Publish implements run.Feed.
func (f *feed) Publish(ctx context.Context, show run.Show) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(ctx)
	if len(show.Events) == 0 {
		return
	}
	if len(f.conns) == 0 && !f.numbered() {
		f.missed = true
		return
	}
	var whole []event.Event // made once, when somebody needs it
	wholeOf := func() []event.Event {
		if whole == nil && show.Whole != nil {
			whole = show.Whole(ctx)
		}
		return whole
	}
	var numbered []Numbered
	if f.numbered() || slices.ContainsFunc(f.conns, Connection.numbered) {
		numbered = f.number(ctx, show, wholeOf)
	} else {
		f.missed = true
	}
	var posts sync.WaitGroup
	got := make([]bool, len(f.conns))
	patience := batchTime
	if show.Final || show.Late {
		patience = finalTime
	}
	posting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, c := range f.conns {
		var frames []frame
		switch c.Protocol {
		case SocketIO:
			events := show.Events
			if f.begun && !f.served[c.ID] && !show.Late { // it came in the middle
				events = append(outputs(wholeOf()), passing(show.Events)...)
			}
			frames = envelopes(f.to, events)
		case Plain:
			if f.begun && !f.served[c.ID] { // it may have been there for a moment
				frames = plainFrames(f.to, f.gap)
			}
			frames = append(frames, plainFrames(f.to, numbered)...)
		case HTTP:
			continue // it reads the log
		}
		posts.Add(1)
		go func() {
			defer posts.Done()
			got[i] = f.post(posting, c, frames)
		}()
	}
	posts.Wait()
	for i, c := range f.conns {
		f.served[c.ID] = got[i]
	}
	f.begun, f.gap, f.recent = true, nil, append(f.recent, numbered...)
}

// post sends frames to one connection in order. False: it missed some. After a piece of text was missed, the rest of the text is left
// out, too, because the next batch tells it whole; everything else is tried.
func (f *feed) post(ctx context.Context, c Connection, frames []frame) bool {
	ok := true
	for _, fr := range frames {
		if fr.piece && !ok {
			continue
		}
		err := f.service.send(ctx, c.ID, fr.raw)
		if errors.Is(err, ErrGone) {
			return false // it is forgotten by now
		}
		if err != nil {
			slog.Warn("push", "run", f.to.Run, "user", c.User, "error", err)
			ok = false
		}
	}
	return ok
}

// send posts one frame and forgets a connection that is gone.
func (s *Service) send(ctx context.Context, connection string, frame []byte) error {
	if s.Post == nil {
		return nil
	}
	err := s.Post.Post(ctx, connection, frame)
	if errors.Is(err, ErrGone) {
		if err := s.Remove(context.WithoutCancel(ctx), connection); err != nil {
			slog.Warn("forget a connection that is gone", "error", err)
		}
	}
	return err
}

// outputs are the events that set the message's items: all that a Socket.IO client that came in the middle has to be told, because it
// read the chat when it came.
func outputs(whole []event.Event) []event.Event {
	var out []event.Event
	for _, e := range whole {
		if e.Kind() == event.Completion {
			out = append(out, e)
		}
	}
	return out
}

// passing are the events that leave nothing in a message and are therefore not part of the whole of it.
func passing(events []event.Event) []event.Event {
	var out []event.Event
	for _, e := range events {
		switch kind := e.Kind(); {
		case kind == event.Response, kind == event.Completion && e.Data()["done"] == nil:
		default:
			out = append(out, e)
		}
	}
	return out
}
