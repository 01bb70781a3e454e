package config_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"toolrounds/shared/config"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestDefaults(t *testing.T) {
	got, err := config.Load(env())
	want := config.Config{MaxToolRounds: 256, ToolTime: 600 * time.Second, AnswerTime: 300 * time.Second, ToolResultChars: 400_000, APIKeyHeader: "x-api-key", APIKeys: true}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLoad(t *testing.T) {
	got, err := config.Load(env(
		"TABLE_NAME", "t", "BUCKET_NAME", "b", "STATE_MACHINE_ARN", "arn", "TOOLBOX_FUNCTION", "f", "TOOLBOX_TENANCY", "PER_TENANT",
		"SECRETS_PREFIX", "/x/y", "WEBSOCKET_ENDPOINT", "https://ws.example/v1/", "MODEL_API_BASE_URL", "http://127.0.0.1:1/v1/",
		"WEBSOCKET_EVENT_CALLER_TIMEOUT", "9", "TASK_MODEL", "m", "MAX_TOOL_ROUNDS", "-1", "TOOL_SECONDS", "5", "TOOL_RESULT_CHARS", "6", "PUBLIC_BASE_URL", "https://p.example",
		"CUSTOM_API_KEY_HEADER", "x-k", "ENABLE_API_KEYS", "False", "USER_API_KEYS", "True", "FIRST_SIGNUP", "1", "OUTBOUND_ALLOW", "10.1.0.0/16", "LOG_LEVEL", "DEBUG",
	), "TABLE_NAME")
	want := config.Config{
		Table: "t", Bucket: "b", StateMachineARN: "arn", ToolboxFunction: "f", ToolboxTenancy: true, SecretsPrefix: "/x/y",
		WebSocketEndpoint: "https://ws.example/v1", ModelBaseURL: "http://127.0.0.1:1/v1", TaskModel: "m", MaxToolRounds: -1,
		ToolTime: 5 * time.Second, AnswerTime: 9 * time.Second, ToolResultChars: 6, PublicBaseURL: "https://p.example", APIKeyHeader: "x-k", APIKeys: false,
		UserAPIKeys: true, FirstSignup: true, OutboundAllow: "10.1.0.0/16", LogLevel: slog.LevelDebug,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMalformed(t *testing.T) {
	_, err := config.Load(env(
		"MAX_TOOL_ROUNDS", "many", "TOOL_SECONDS", "0", "TOOLBOX_TENANCY", "some", "PUBLIC_BASE_URL", "example.org", "ENABLE_API_KEYS", "yes", "OUTBOUND_ALLOW", "home", "LOG_LEVEL", "loud",
	), "TABLE_NAME")
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"MAX_TOOL_ROUNDS", "TOOL_SECONDS", "TOOLBOX_TENANCY", "PUBLIC_BASE_URL", "ENABLE_API_KEYS", "OUTBOUND_ALLOW", "LOG_LEVEL", "TABLE_NAME"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
