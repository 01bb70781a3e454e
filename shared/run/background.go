package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"toolrounds/shared/chat"
	"toolrounds/shared/event"
	"toolrounds/shared/openai"
	"toolrounds/shared/table"
	"toolrounds/shared/turn"
)

// task is something done after the answer.
type task string

const (
	taskFollowUps  task = "follow_ups"
	taskTitle      task = "title"
	taskPlainTitle task = "plain_title" // no model: the question itself
	taskTags       task = "tags"
)

// instructions ask the task model for one JSON object. The key in it says which task it is.
var instructions = map[task]string{
	taskFollowUps: `Read the conversation below and propose three to five short questions that the user could ask next, in the user's
language. Answer with one JSON object and nothing else: {"follow_ups": ["first question", "second question"]}`,
	taskTitle: `Read the conversation below and name it: a title of two to six words in its own language, without quotation marks.
Answer with one JSON object and nothing else: {"title": "the title"}`,
	taskTags: `Read the conversation below and give one to three broad subjects that it belongs to, each one or two words.
Answer with one JSON object and nothing else: {"tags": ["first subject", "second subject"]}`,
}

// taskTime bounds one question to the task model.
const taskTime = 60 * time.Second

// Background does what is wanted after the answer and closes the run. A task that fails is left out: the answer stands.
func (s *Service) Background(ctx context.Context, step Step) error {
	r, err := s.load(ctx, step.Chat, step.Run)
	if errors.Is(err, errGone) || err == nil && r.Phase != turn.Ended {
		return nil
	}
	if err != nil {
		return err
	}
	req, err := s.request(ctx, step.Run)
	if err != nil {
		return err
	}
	f := s.feed(r)
	for _, t := range req.backgroundTasks() {
		told, err := s.task(ctx, t, r, req)
		if err != nil {
			slog.Warn("background task", "task", t, "run", r.ID, "chat", r.Chat, "user", r.User, "error", err)
		} else if told != nil {
			s.show(ctx, f, func() Show { return Show{Events: []event.Event{told}, Late: true} })
		}
	}
	return s.rest(ctx, f, r, req)
}

// close closes an ended run.
func (s *Service) close(ctx context.Context, r Run) error {
	change := table.Change{Set: map[string]any{attrPhase: string(turn.Closed)}}
	s.closing(&change, r.ID, turn.Closed)
	_, err := s.Table.Apply(ctx, table.Update(table.Run(r.Chat, r.ID), change, table.Is(attrPhase, string(turn.Ended))))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("close run: %w", err)
	}
	return nil
}

// task does one task and returns what is to be told of it, nil for nothing.
func (s *Service) task(ctx context.Context, t task, r Run, req Request) (event.Event, error) {
	tree, err := s.Chats.Tree(ctx, r.Chat)
	if err != nil || tree == nil {
		return nil, err
	}
	messages := branch(tree, r.Message)
	if t == taskPlainTitle {
		if len(tree.Messages) != 2 || len(messages) == 0 {
			return nil, nil
		}
		title := contentText(messages[0]["content"])
		return event.New(event.Title, title), s.Chats.Retitle(ctx, r.Chat, title)
	}
	answer, err := s.askTask(ctx, t, req, messages)
	if err != nil {
		return nil, err
	}
	switch t {
	case taskTitle:
		if title := trimmed(text(answer, "title"), 200); title != "" {
			return event.New(event.Title, title), s.Chats.Retitle(ctx, r.Chat, title)
		}
	case taskTags:
		if tags := strs(list(answer, "tags")); tags != nil {
			for i, tag := range tags {
				tags[i] = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(tag)), " ", "_")
			}
			return event.New(event.Tags, tags), s.Chats.Tag(ctx, r.Chat, tags)
		}
	case taskFollowUps:
		if questions := strs(list(answer, "follow_ups")); questions != nil {
			told := event.New(event.FollowUps, map[string]any{"follow_ups": questions})
			return told, s.Chats.Append(ctx, r.Chat, r.Message, r.ID, map[string]any{"followUps": questions})
		}
	}
	return nil, nil
}

// askTask asks the task model, or without one the chat's own.
func (s *Service) askTask(ctx context.Context, t task, req Request, messages []chat.Message) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	model := s.Models.Task(ctx)
	if model == "" {
		u, err := s.Accounts.User(ctx, req.User)
		if err != nil {
			return nil, err
		}
		m, err := s.Models.Resolve(ctx, u, req.Model)
		if err != nil {
			return nil, err
		}
		model = m.Upstream
	}
	prompt := instructions[t] + "\n\n<chat_history>\n" + transcript(messages) + "\n</chat_history>"
	c, err := s.Provider.Complete(ctx, table.MustJSON(map[string]any{
		"model": model, "stream": false, "messages": []any{map[string]any{"role": "user", "content": prompt}},
	}))
	if err != nil {
		return nil, err
	}
	got := c.Round(openai.StreamOptions{})
	if got.Err != nil {
		return nil, got.Err
	}
	return jsonIn(got.Text())
}

// transcript is the end of a conversation as text.
func transcript(messages []chat.Message) string {
	if len(messages) > 6 {
		messages = messages[len(messages)-6:]
	}
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s: %s\n", strings.ToUpper(m.Text("role")), trimmed(contentText(m["content"]), 8000))
	}
	return strings.TrimSpace(b.String())
}

// jsonIn finds the JSON object in a model's answer: reasoning, prose and code fences around it do not count.
func jsonIn(answer string) (map[string]any, error) {
	thought := regexp.MustCompile(`(?s)<think(?:ing)?>.*?</think(?:ing)?>`)
	answer = thought.ReplaceAllString(answer, "")
	from, to := strings.Index(answer, "{"), strings.LastIndex(answer, "}")
	if from < 0 || to < from {
		return nil, errors.New("the task model gave no JSON object")
	}
	var o map[string]any
	if err := table.Decode([]byte(answer[from:to+1]), &o); err != nil {
		return nil, fmt.Errorf("read the task model's answer: %w", err)
	}
	return o, nil
}
