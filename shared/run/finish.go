package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Finished is what Finish tells the machine.
type Finished struct {
	Step
	Background bool `json:"background"` // there is something to do after the answer
}

// backgroundLimit is the time for titles, tags and follow-ups.
const backgroundLimit = 240 * time.Second

// Finish ends a run with whatever it recorded. An end that was there before stays; then, and when it is repeated, nothing changes.
func (s *Service) Finish(ctx context.Context, step Step) (Finished, error) {
	r, err := s.load(ctx, step.Chat, step.Run)
	if errors.Is(err, errGone) {
		return Finished{Step: step}, nil
	}
	if err != nil {
		return Finished{}, err
	}
	if r.Phase == turn.Open {
		if r, err = s.end(ctx, r, step.Error, step.Cause); err != nil {
			return Finished{}, err
		}
	}
	background := r.Phase == turn.Ended
	if background {
		if background, err = s.conclude(ctx, r); err != nil {
			return Finished{}, err
		}
	}
	return Finished{Step: Step{Run: step.Run, Chat: step.Chat}, Background: background}, nil
}

// end ends an open run: with a stop if one was asked for, else with the problem if there is one, else with what the rounds say.
// It returns the run as it is then, whoever ended it.
func (s *Service) end(ctx context.Context, r Run, problem, cause string) (Run, error) {
	rec, err := s.gather(ctx, r.ID, true)
	if err != nil {
		return Run{}, err
	}
	req := rec.req
	if r.Stop || problem != "" {
		if err := s.rescue(ctx, rec, r); err != nil {
			return Run{}, err
		}
	}
	outcome, failure, reply := rec.outcome(r, problem, s.Limits.Rounds)
	if cause != "" {
		slog.Error("run failed", "run", r.ID, "chat", r.Chat, "user", r.User, "problem", problem, "cause", cause)
	}
	phase := turn.Closed
	now, heard := s.Now(), s.feed(r).Heard(ctx)
	set := map[string]any{attrOutcome: string(outcome)}
	if heard { // closed when it is told
		phase, set[attrTold] = turn.Ended, now.Add(tellTime).UnixMilli()
	} else if outcome == turn.Answered && req.wantsBackground() {
		phase = turn.Ended
	}
	set[attrPhase] = string(phase)
	if reply != nil {
		set[attrReply] = table.MustJSON(reply)
	}
	change := table.Change{Set: set}
	s.closing(&change, r.ID, phase)
	ops := []table.Op{table.Update(table.Run(r.Chat, r.ID), change, table.Is(attrPhase, string(turn.Open)), stopAsSeen(r))}
	if r.Saved {
		final := rec.final(r, outcome, failure, req.Session() != "")
		ops = append(ops,
			table.Update(table.Message(r.Chat, r.Message), table.Change{
				Set: map[string]any{chat.AttrDone: true, chat.AttrFinal: table.MustJSON(final)},
			}, table.Is(chat.AttrRun, r.ID)),
			chat.Touch(r.Chat, r.User, now, nil))
	}
	err = s.Table.Transact(ctx, ops...)
	switch {
	case err == nil:
		r.Phase, r.Outcome, r.Reply, r.mine = phase, outcome, reply, true
		slog.Info("run ended", "run", r.ID, "chat", r.Chat, "user", r.User, "outcome", outcome, "rounds", len(rec.rounds), "ms", now.UnixMilli()-req.Accepted)
		return r, nil
	case !errors.Is(err, table.ErrCondition):
		return Run{}, fmt.Errorf("end run: %w", err)
	case table.FailedOn(err, table.Run(r.Chat, r.ID)):
		return s.endedOrAgain(ctx, r, problem, cause)
	}
	// The message or the chat is gone: there is nothing to write to, only the run to close.
	r.Saved = false
	return s.endUnsaved(ctx, r, outcome)
}

// stopAsSeen makes the end depend on the stop flag that the decision saw: a stop that came in between wins.
func stopAsSeen(r Run) table.Cond {
	if r.Stop {
		return table.Is(attrStop, true)
	}
	return table.Not(attrStop, true)
}

func (s *Service) endedOrAgain(ctx context.Context, old Run, problem, cause string) (Run, error) {
	r, err := s.load(ctx, old.Chat, old.ID)
	if errors.Is(err, errGone) {
		old.Phase = turn.Closed
		return old, nil
	}
	if err != nil {
		return Run{}, err
	}
	if r.Phase == turn.Open && r.Stop && !old.Stop { // a stop came in between: decide again, now with it
		return s.end(ctx, r, problem, cause)
	}
	return r, nil
}

func (s *Service) endUnsaved(ctx context.Context, r Run, outcome turn.Outcome) (Run, error) {
	change := table.Change{Set: map[string]any{attrPhase: string(turn.Closed), attrOutcome: string(outcome)}}
	s.closing(&change, r.ID, turn.Closed)
	_, err := s.Table.Apply(ctx, table.Update(table.Run(r.Chat, r.ID), change))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return Run{}, fmt.Errorf("close run: %w", err)
	}
	r.Phase, r.Outcome = turn.Closed, outcome
	return r, nil
}

// closing adds to a change of a run's record what its new phase asks for: a closed run leaves the index of open runs and the table.
func (s *Service) closing(change *table.Change, run string, phase turn.Phase) {
	if phase == turn.Closed {
		gone := s.Now().Add(closedTTL).Unix()
		change.Index, change.Expires = &[2]string{}, &gone
		return
	}
	deadline := s.Now().Add(backgroundLimit + slack).UnixMilli()
	change.Set[attrDeadline] = deadline
	change.Index = &[2]string{table.OpenRuns(shard(run)), deadlineKey(deadline, run)}
}

// closedTTL is how long a closed run's record is kept, for those who still wait for its answer.
const closedTTL = time.Hour

// outcome says how what was recorded ends. A whole answer stands whatever went wrong after it; without one there is an error that says
// what happened.
func (rec *record) outcome(r Run, problem string, limit int) (outcome turn.Outcome, failure any, reply *Reply) {
	var last round
	if n := len(rec.rounds); n > 0 {
		last = rec.rounds[n-1]
	}
	complete := len(rec.rounds) > 0 && !last.Choice && len(last.calls) == 0 && last.Error == nil && !last.Incomplete
	outcome = turn.Outcomes(r.record(), turn.Propose(complete))
	switch {
	case complete:
		return outcome, nil, last.Reply
	case last.Error != nil:
		return outcome, last.Error, last.Reply
	case last.Over:
		return outcome, turn.LimitReached(limit), last.Reply
	case problem != "":
		return outcome, problem, nil
	case len(rec.rounds) == 0:
		return outcome, "The run ended before the model was asked.", nil
	}
	return outcome, "The run ended before its answer was complete.", nil
}

// rescue adds, to what was recorded, the text that a model step had streamed when it died or was stopped: an error or a stop keeps
// what the user has seen.
func (s *Service) rescue(ctx context.Context, rec *record, r Run) error {
	partial, err := s.partial(ctx, r, len(rec.rounds), Incomplete)
	if err != nil {
		return err
	}
	if partial == nil {
		return nil
	}
	partial.Incomplete = true
	rec.rounds = append(rec.rounds, *partial)
	return nil
}

// wantsBackground tells whether anything is to be done after the answer.
func (r Request) wantsBackground() bool {
	if !r.Saved {
		return false
	}
	return len(r.backgroundTasks()) > 0
}

// backgroundTasks are the tasks to be done after the answer, in order (spec/http.md D7).
func (r Request) backgroundTasks() []task {
	asked, ok := r.Body["background_tasks"].(map[string]any)
	if !ok {
		return nil
	}
	var tasks []task
	if flag(asked, "follow_up_generation") {
		tasks = append(tasks, taskFollowUps)
	}
	titled, given := asked["title_generation"].(bool)
	if titled {
		tasks = append(tasks, taskTitle)
	} else if given && r.Browser {
		tasks = append(tasks, taskPlainTitle)
	}
	if flag(asked, "tags_generation") {
		tasks = append(tasks, taskTags)
	}
	return tasks
}

func trimmed(s string, n int) string {
	s = strings.TrimSpace(s)
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
