package run

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/table"
)

// stripped are the parameters that steer the server and are not the provider's (spec/http.md D3.4).
var stripped = []string{
	"function_calling", "stream_response", "stream_delta_chunk_size", "system", "reasoning_tags", "model_controls", "custom_params",
	"tool_approval_mode", "keep_alive", "think_tags",
}

// parameters merges the model's parameters and the request's, which win, into what goes to the provider.
func parameters(modelParams, requestParams map[string]any) map[string]any {
	merged := map[string]any{}
	for _, params := range []map[string]any{modelParams, requestParams} {
		for k, v := range params {
			if v != nil && !slices.Contains(stripped, k) {
				merged[k] = numeric(k, v)
			}
		}
		for k, v := range object(params, "custom_params") {
			merged[k] = parsed(v)
		}
	}
	return merged
}

// parsed reads a text as JSON when it is JSON: custom parameters are typed into a form.
func parsed(v any) any {
	s, ok := v.(string)
	if !ok {
		return v
	}
	var out any
	if err := table.Decode([]byte(s), &out); err != nil {
		return s
	}
	return out
}

// numeric turns the text of a parameter that must be a number into one, and "token:bias" lists into an object.
func numeric(key string, v any) any {
	s, ok := v.(string)
	if !ok {
		return v
	}
	switch key {
	case "temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repeat_penalty", "max_tokens", "top_k", "seed", "num_ctx":
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return parsed(s)
		}
	case "logit_bias":
		bias := map[string]any{}
		for _, pair := range strings.Split(s, ",") {
			token, value, found := strings.Cut(strings.TrimSpace(pair), ":")
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if !found || err != nil {
				return v
			}
			bias[strings.TrimSpace(token)] = n
		}
		return bias
	}
	return v
}

// fill replaces the placeholders of a prompt: the request's own variables first, then what the server knows.
func fill(prompt string, u access.User, variables map[string]any, now time.Time) string {
	if !strings.Contains(prompt, "{{") {
		return prompt
	}
	pairs := []string{}
	for _, k := range slices.Sorted(maps.Keys(variables)) {
		if v, ok := variables[k].(string); ok && strings.HasPrefix(k, "{{") {
			pairs = append(pairs, k, v)
		}
	}
	now = now.UTC()
	pairs = append(pairs,
		"{{USER_NAME}}", u.Name, "{{USER_EMAIL}}", u.Email,
		"{{CURRENT_DATE}}", now.Format("2006-01-02"), "{{CURRENT_TIME}}", now.Format("03:04:05 PM"),
		"{{CURRENT_DATETIME}}", now.Format("2006-01-02 03:04:05 PM"), "{{CURRENT_WEEKDAY}}", now.Weekday().String(),
		"{{CURRENT_TIMEZONE}}", "UTC", "{{USER_LOCATION}}", "Unknown", "{{USER_LANGUAGE}}", "en-US",
	)
	return strings.NewReplacer(pairs...).Replace(prompt)
}

// withSystem puts one system message in front: the given prompts, then the client's (spec/http.md D3.3).
func withSystem(messages []any, replace func(string) string, prompts ...string) []any {
	var parts []string
	for _, p := range prompts {
		if p != "" {
			parts = append(parts, replace(p))
		}
	}
	var rest []any
	for _, m := range messages {
		if o, ok := m.(map[string]any); ok && text(o, "role") == "system" {
			if s := contentText(o["content"]); s != "" {
				parts = append(parts, replace(s))
			}
			continue
		}
		rest = append(rest, m)
	}
	if len(parts) == 0 {
		return rest
	}
	return append([]any{map[string]any{"role": "system", "content": strings.Join(parts, "\n")}}, rest...)
}
