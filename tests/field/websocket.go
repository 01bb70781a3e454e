package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// The kind websocket plays its cases against the stack that api_sequence needs (see there), with connections of the plain protocol.
func init() {
	if os.Getenv("BASE_URL") != "" && os.Getenv("FIELD_MODEL_ADDR") != "" {
		register("websocket", playWebsocket)
	}
}

type websocketGiven struct {
	Tools  map[string]string `json:"tools"`
	Rounds []modelRound      `json:"model_rounds"`
	Client []struct {
		Do        string   `json:"do"`
		As        string   `json:"as"`
		User      string   `json:"user"`
		Token     string   `json:"token"`
		SessionOf string   `json:"session_of"`
		SessionID string   `json:"session_id"`
		ToolIDs   []string `json:"tool_ids"`
		Seconds   float64  `json:"s"`
	} `json:"client"`
}

func playWebsocket(ctx context.Context, c Case) (any, error) {
	var given websocketGiven
	if err := json.Unmarshal(c.Given, &given); err != nil {
		return nil, fmt.Errorf("given: %w", err)
	}
	s := &sequence{mark: "field-" + strings.ToLower(rand.Text()), who: "a", tools: map[string]string{}, chats: map[string]string{}, texts: map[string]string{}, final: map[string]any{}}
	s.given.Tools = given.Tools
	var err error
	if s.model, err = fieldModel(); err != nil {
		return nil, err
	}
	undisturbed.RLock()
	defer undisturbed.RUnlock()
	s.model.begin(s.mark, &modelCase{rounds: given.Rounds})
	if s.users, err = stackAccounts(ctx, s.mark); err != nil {
		return nil, err
	}
	defer s.clean()
	if err := s.install(ctx); err != nil {
		return nil, err
	}
	tabs, doc, last := map[string]*socketClient{}, map[string]any{}, ""
	defer func() {
		for _, tab := range tabs {
			tab.leave(false)
		}
	}()
	var begun time.Time
	other := map[string]func(chat any) bool{}
	for _, step := range given.Client {
		switch step.Do {
		case "connect":
			user := s.users["a"]
			if step.User == "b" {
				user = s.users["b"]
			}
			token := user.key
			if step.Token != "" {
				token = step.Token
			}
			tab, err := dialSocket(ctx, user.base, token)
			var refused upgradeError
			if errors.As(err, &refused) {
				doc[step.As] = map[string]any{"http_status": refused.status}
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("connect %s: %w", step.As, err)
			}
			tabs[step.As] = tab
			other[step.As] = func(chat any) bool { return step.User != "b" && chat != s.chats["a"] }
			if last == "" {
				last = step.As
			}
		case "disconnect":
			tabs[step.As].leave(false)
		case "drop_silently":
			tabs[step.As].leave(true)
		case "sleep":
			time.Sleep(time.Duration(step.Seconds * float64(time.Second)))
		case "turn":
			begun = time.Now()
			session := step.SessionID
			if step.SessionOf != "" {
				session, last = tabs[step.SessionOf].session, step.SessionOf
			}
			user := s.users["a"]
			if _, err := s.newChat(ctx, user, "go", nil); err != nil {
				return nil, err
			}
			ids := make([]any, len(step.ToolIDs))
			for i, id := range step.ToolIDs {
				ids[i] = id
			}
			if _, err := s.complete(ctx, user, map[string]any{"chat": true, "stream": true, "session_id": session, "tool_ids": ids}); err != nil {
				return nil, err
			}
		case "until_done", "until_done_by_api":
			if step.As != "" {
				last = step.As
			}
			if _, err := s.wait(ctx, s.users["a"], 90*time.Second, 200*time.Millisecond); err != nil {
				return nil, err
			}
			for until := time.Now().Add(3 * time.Second); step.Do == "until_done" && tabs[last].document(other[last])["done"] == false && time.Now().Before(until); {
				time.Sleep(20 * time.Millisecond)
			}
			s.final["elapsed_s"] = time.Since(begun).Seconds()
		default:
			return nil, fmt.Errorf("unknown action %q", step.Do)
		}
	}
	if err := s.finish(ctx); err != nil {
		return nil, err
	}
	message, _ := s.final["message"].(map[string]any)
	results := []any{}
	output, _ := message["output"].([]any)
	for _, v := range output {
		item, _ := v.(map[string]any)
		if item["type"] != "function_call_output" {
			continue
		}
		text := ""
		parts, _ := item["output"].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			t, _ := part["text"].(string)
			text += t
		}
		results = append(results, text)
	}
	open := []any{}
	for name, tab := range tabs {
		doc[name] = tab.document(other[name])
		if !tab.left && !tab.closed {
			open = append(open, name)
		}
	}
	s.final["results"], s.final["connections"] = results, open
	doc["final"] = s.final
	return doc, nil
}
