// Package run carries out completions: it accepts a request, and offers one use case for each step of the machine that drives it —
// Prepare, CallModel, RunTool, Finish, Background — and for those who interfere: Stop, Sweep, and readers of a run that is under way.
//
// The record in the table is the truth. Each step reads it, lets package turn decide, does its work, and writes under a condition, so
// that any step may die, be repeated or come late:
//
//   - a run ends by one transaction on its own record, its message and its chat; the first one wins (promises P1, P2);
//   - what a round produced lies under the run, apart from the message, and becomes the message only in that transaction: a late
//     writer changes nothing that anybody reads;
//   - every write of a chat's item demands that the item exists: nothing that was deleted comes back.
package run

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"time"

	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// Run is the record of one completion. Times are Unix milliseconds.
type Run struct {
	ID, Chat, Message, User string
	Phase                   turn.Phase
	Outcome                 turn.Outcome
	Stop                    bool
	Told                    int64 // until when whoever ended it tells its end; told
	mine                    bool  // this process ended it
	Numbered                bool  // its events are followed by numbers
	Started                 bool  // a step of the machine has begun
	Starts                  int   // how often the machine was told to start
	Attempt                 int64 // counts the model steps that claimed the run; a fence for their logs
	Lease                   int64 // until when the claimer says it lives
	Deadline                int64 // when the sweeper looks after it
	Generation              int   // which execution drives it
	Saved                   bool  // false for temporary chats: there is no message to write
	Mode                    Mode  // as Prepare found it
	Reply                   *Reply
}

// Reply is what a caller gets that holds the line: the provider's answer as it was. Without one the answer is null.
type Reply struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Body   []byte `json:"body"`
}

// Names of the attributes that conditions or updates name.
const (
	attrPhase      = "phase"
	attrOutcome    = "outcome"
	attrStop       = "stop"
	attrStarted    = "started"
	attrStarts     = "starts"
	attrAttempt    = "attempt"
	attrLease      = "lease"
	attrDeadline   = "deadline"
	attrGeneration = "generation"
	attrReply      = "reply"
	attrMode       = "mode"
	attrTold       = "told"
)

func (r Run) item() table.Item {
	return table.Item{
		Key: table.Run(r.Chat, r.ID), IndexPK: table.OpenRuns(shard(r.ID)), IndexSK: deadlineKey(r.Deadline, r.ID),
		Attr: map[string]any{
			"run": r.ID, "chat": r.Chat, "message": r.Message, "user": r.User, attrPhase: string(r.Phase), attrStarts: r.Starts,
			attrAttempt: r.Attempt, attrDeadline: r.Deadline, attrGeneration: r.Generation, "saved": r.Saved,
		},
	}
}

func runOf(i table.Item) (Run, error) {
	r := Run{
		ID: i.String("run"), Chat: i.String("chat"), Message: i.String("message"), User: i.String("user"),
		Phase: turn.Phase(i.String(attrPhase)), Outcome: turn.Outcome(i.String(attrOutcome)), Stop: i.Bool(attrStop),
		Started: i.Bool(attrStarted), Starts: int(i.Int(attrStarts)), Attempt: i.Int(attrAttempt), Lease: i.Int(attrLease),
		Deadline: i.Int(attrDeadline), Generation: int(i.Int(attrGeneration)), Saved: i.Bool("saved"),
		Mode: Mode(i.String(attrMode)), Numbered: i.Bool(AttrNumbered), Told: i.Int(attrTold),
	}
	if i.Has(attrReply) {
		r.Reply = &Reply{}
		if err := i.JSON(attrReply, r.Reply); err != nil {
			return Run{}, err
		}
	}
	return r, nil
}

func (r Run) record() turn.Record {
	return turn.Record{Phase: r.Phase, Stop: r.Stop, Started: r.Started, Starts: r.Starts, Deadline: r.Deadline, Lease: r.Lease}
}

func shard(run string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	return int(h.Sum32() % table.Shards)
}

func deadlineKey(deadline int64, run string) string { return fmt.Sprintf("%013d#%s", deadline, run) }

// Temporary tells whether a chat id names a chat that is never stored.
func Temporary(chatID string) bool {
	return strings.HasPrefix(chatID, "temporary:") || strings.HasPrefix(chatID, "local:")
}

// Step names the run that a step of the machine works on, and how far the machine is. It is the machine's whole state.
type Step struct {
	Run        string `json:"run"`
	Chat       string `json:"chat"`
	Round      int    `json:"round"`           // the model round to ask for, from 0
	Spent      int    `json:"spent"`           // history events of this execution so far, about
	Generation int    `json:"generation"`      // which execution of the run this is, from 0
	Error      string `json:"error,omitempty"` // what the machine caught; Finish puts it on the message
	Cause      string `json:"cause,omitempty"` // its details, for the log
}

// Errors of the package that callers tell apart.
var errGone = errors.New("the run does not exist any more")

// load reads a run. errGone: there is none, or none any more.
func (s *Service) load(ctx context.Context, chat, run string) (Run, error) {
	item, ok, err := table.One(ctx, s.Table, table.Run(chat, run))
	if err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	if !ok {
		return Run{}, errGone
	}
	return runOf(item)
}

// advance changes an open run's record and returns it as it is then. A run that is gone or not open any more comes back with
// errGone, or with its phase and no error.
func (s *Service) advance(ctx context.Context, chat, run string, limit time.Duration, change table.Change, conds ...table.Cond) (Run, error) {
	if limit > 0 {
		deadline := s.Now().Add(limit + slack).UnixMilli()
		if change.Set == nil {
			change.Set = map[string]any{}
		}
		change.Set[attrDeadline] = deadline
		change.Index = &[2]string{table.OpenRuns(shard(run)), deadlineKey(deadline, run)}
	}
	key := table.Run(chat, run)
	item, err := s.Table.Apply(ctx, table.Update(key, change, append(conds, table.Is(attrPhase, string(turn.Open)))...))
	if errors.Is(err, table.ErrCondition) {
		return s.load(ctx, chat, run)
	}
	if err != nil {
		return Run{}, fmt.Errorf("advance run: %w", err)
	}
	return runOf(item)
}

// slack is what a step may come late with its next write before the sweeper looks after the run.
const slack = 20 * time.Second

func logger(ctx context.Context, step Step) *slog.Logger {
	return slog.With("run", step.Run, "chat", step.Chat, "round", step.Round)
}
