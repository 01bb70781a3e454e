package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const fieldModelID = "field-model"

// apiClient speaks to the deployed stack as one account.
type apiClient struct{ base, key string }

// step is what one request gave, as it stands in the result document.
type apiStep struct {
	Status  int               `json:"status"`
	JSON    any               `json:"json"`
	Frames  []json.RawMessage `json:"frames,omitempty"`
	Elapsed float64           `json:"elapsed_s"`
}

var fieldHTTP = &http.Client{Timeout: 3 * time.Minute}

func (c apiClient) do(ctx context.Context, method, path string, body any) (apiStep, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return apiStep{}, err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return apiStep{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := fieldHTTP.Do(req)
	if err != nil {
		return apiStep{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return apiStep{}, err
	}
	s := apiStep{Status: resp.StatusCode, Elapsed: time.Since(start).Seconds()}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Valid([]byte(data)) {
				s.Frames = append(s.Frames, json.RawMessage(data))
			}
		}
	} else if json.Unmarshal(raw, &s.JSON) != nil {
		s.JSON = string(raw)
	}
	return s, nil
}

// must is do for what has to succeed; it decodes the answer into v.
func (c apiClient) must(ctx context.Context, method, path string, body, v any) error {
	s, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	if s.Status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %v", method, path, s.Status, s.JSON)
	}
	raw, err := json.Marshal(s.JSON)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// stackAccounts are user a, an administrator, and user b of the stack that the environment names.
func stackAccounts(ctx context.Context, token string) (map[string]apiClient, error) {
	base, key := os.Getenv("BASE_URL"), os.Getenv("ADMIN_KEY")
	if key == "" {
		key = os.Getenv("API_KEY")
	}
	if base == "" || key == "" {
		return nil, errors.New("BASE_URL and ADMIN_KEY (or API_KEY) name the stack; they are not set")
	}
	a := apiClient{base, key}
	var account struct {
		Token string `json:"token"`
	}
	err := a.must(ctx, "POST", "/api/v1/auths/add", map[string]any{
		"name": "Field B", "email": "field-" + token + "@example.com", "password": "field-" + token, "role": "user",
	}, &account)
	if err != nil {
		return nil, err
	}
	// Everybody may use the model. It may have its entry already.
	_, err = a.do(ctx, "POST", "/api/v1/models/create", map[string]any{
		"id": fieldModelID, "base_model_id": nil, "name": fieldModelID, "meta": map[string]any{}, "params": map[string]any{},
		"access_grants": []any{map[string]any{"principal_type": "user", "principal_id": "*", "permission": "read"}},
	})
	return map[string]apiClient{"a": a, "b": {base, account.Token}}, err
}
