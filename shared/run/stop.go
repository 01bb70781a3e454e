package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// stopPatience is how long a stop waits for the writer that holds the run to end it with all it has.
const stopPatience = 2500 * time.Millisecond

// Stop ends a chat's runs and returns those that were open. When it returns without error, each of them has ended.
func (s *Service) Stop(ctx context.Context, user, chatID string) ([]string, error) {
	runs, err := s.open(ctx, user, chatID)
	if err != nil {
		return nil, err
	}
	var stopped []string
	for _, r := range runs {
		if err := s.stop(ctx, r); err != nil {
			return stopped, err
		}
		stopped = append(stopped, r.ID)
	}
	return stopped, nil
}

// StopRun ends one run, whoever's it is; known is false when there is no such run or it is closed.
func (s *Service) StopRun(ctx context.Context, run string) (known bool, err error) {
	item, ok, err := table.One(ctx, s.Table, table.Request(run))
	if err != nil || !ok {
		return false, err
	}
	r, err := s.load(ctx, item.String("chat"), run)
	if errors.Is(err, errGone) || err == nil && r.Phase == turn.Closed {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.stop(ctx, r)
}

func (s *Service) stop(ctx context.Context, r Run) error {
	if r.Phase == turn.Ended { // only its background tasks are left, if the end is told
		return s.over(ctx, r)
	}
	r, err := s.advance(ctx, r.Chat, r.ID, 0, table.Change{Set: map[string]any{attrStop: true}})
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop run: %w", err)
	}
	patience := s.Now().Add(stopPatience)
	for turn.Stop(r.record(), s.Now().UnixMilli()) == turn.Wait && s.Now().Before(patience) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookFirst * 2):
		}
		if r, err = s.load(ctx, r.Chat, r.ID); errors.Is(err, errGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if r.Phase == turn.Open {
		if r, err = s.end(ctx, r, "", ""); err != nil {
			return err
		}
		if err := s.Machine.Stop(ctx, execution(r), "stopped by its user"); err != nil {
			slog.Warn("stop the machine", "run", r.ID, "chat", r.Chat, "error", err)
		}
	}
	if r.Phase == turn.Ended {
		return s.over(ctx, r)
	}
	return nil
}

// Sweep looks after the runs whose deadline has passed: it starts what never began, ends what nobody works on, closes what has ended.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.Now().UnixMilli()
	var problems []error
	for shard := range table.Shards {
		for item, err := range s.Table.Query(ctx, table.Query{PK: table.OpenRuns(shard), Index: true, Until: deadlineKey(now, ""), Lazy: true}) {
			if err != nil {
				return fmt.Errorf("read open runs: %w", err)
			}
			if err := s.sweep(ctx, item.String("chat"), item.String("run")); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// sweep decides on the record itself: the index may lag behind.
func (s *Service) sweep(ctx context.Context, chat, run string) error {
	r, err := s.load(ctx, chat, run)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	switch turn.Sweep(r.record(), s.Now().UnixMilli()) {
	case turn.Start:
		r, err = s.advance(ctx, chat, run, startLimit, table.Change{Add: map[string]int64{attrStarts: 1}})
		if err != nil {
			return err
		}
		slog.Warn("start a run again", "run", run, "chat", chat, "user", r.User)
		return s.start(ctx, r)
	case turn.End:
		if r, err = s.end(ctx, r, "The run was lost: no step of it has reported in time.", "deadline passed"); err != nil || r.Phase != turn.Ended {
			return err
		}
		return s.over(ctx, r)
	case turn.Close:
		return s.over(ctx, r)
	}
	return nil
}

// Abandoned ends a run whose execution ended without ending it.
func (s *Service) Abandoned(ctx context.Context, step Step, status string) error {
	r, err := s.load(ctx, step.Chat, step.Run)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.Phase == turn.Open && r.Generation == step.Generation { // else another execution goes on with it
		if r, err = s.end(ctx, r, "The run was interrupted.", "execution "+status); err != nil {
			return err
		}
	}
	if r.Phase == turn.Ended {
		return s.over(ctx, r)
	}
	return nil
}

// Continue starts the next generation of a run whose execution has grown long. Doing it again does nothing.
func (s *Service) Continue(ctx context.Context, step Step) error {
	r, err := s.advance(ctx, step.Chat, step.Run, startLimit, table.Change{Add: map[string]int64{attrGeneration: 1}},
		table.Is(attrGeneration, step.Generation))
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Machine.Start(ctx, execution(r), Step{Run: step.Run, Chat: step.Chat, Round: step.Round, Generation: r.Generation})
}

// execution is the name of the execution that drives a run now.
func execution(r Run) string { return fmt.Sprintf("%s-g%d", r.ID, r.Generation) }

// Forget drops what the runs of a chat that was just deleted have left, and tells the machine to leave those alone that are open: their
// next step would find nothing to do.
func (s *Service) Forget(ctx context.Context, tree *chat.Tree, purge chat.Purger) error {
	for _, item := range tree.Runs {
		r, err := runOf(item)
		if err != nil {
			return err
		}
		if err := s.Machine.Stop(ctx, execution(r), "its chat was deleted"); err != nil {
			slog.Warn("stop the machine", "run", r.ID, "chat", r.Chat, "error", err)
		}
	}
	for _, m := range tree.Messages {
		if m.Run == "" {
			continue
		}
		for _, key := range []table.Key{table.Work(m.Run), table.Log(m.Run, 0, 0, 0)} {
			if err := purge.Purge(ctx, key.PK); err != nil {
				return fmt.Errorf("forget run %s: %w", m.Run, err)
			}
		}
	}
	return nil
}
