package live

import (
	"context"
	"encoding/json"
	"errors"

	"toolrounds/shared/event"
	"toolrounds/shared/run"
)

// Put implements run.Questions.
func (s *Service) Put(ctx context.Context, t run.Ticket, n int, e event.Event, working func(context.Context, run.Ticket) (run.Run, error)) (json.RawMessage, error) {
	id, err := s.Ask(ctx, t, n, e, s.Patience)
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		q, err := s.Await(ctx, t, id, s.Patience, working)
		switch {
		case err != nil:
			return nil, err
		case q.State == Answered:
			return q.Value, nil
		case q.State == Failed:
			return nil, errors.New(q.Problem)
		}
	}
	return nil, context.Cause(ctx)
}
