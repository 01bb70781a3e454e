// Package config reads what the functions are told by their environment: once, at the start, in one place.
//
// A function is given only the variables that it uses, so none is required here; each main names those without which it cannot
// work. What is malformed is an error in any case.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"toolrounds/shared/guard"
)

// Config is the environment of a function.
type Config struct {
	Table             string // TABLE_NAME
	Bucket            string // BUCKET_NAME
	StateMachineARN   string // STATE_MACHINE_ARN
	ToolboxFunction   string // TOOLBOX_FUNCTION, name or ARN
	ToolboxTenancy    bool   // TOOLBOX_TENANCY: PER_TENANT or a truth value
	SecretsPrefix     string // SECRETS_PREFIX, of the SSM parameters
	WebSocketEndpoint string // WEBSOCKET_ENDPOINT, https URL of the connections API without "/@connections"

	ModelBaseURL    string        // MODEL_API_BASE_URL, without a slash at the end
	TaskModel       string        // TASK_MODEL; empty: the model of the chat
	MaxToolRounds   int           // MAX_TOOL_ROUNDS, 256; -1: no bound
	ToolTime        time.Duration // TOOL_SECONDS, 600 s
	AnswerTime      time.Duration // WEBSOCKET_EVENT_CALLER_TIMEOUT, 300 s
	ToolResultChars int           // TOOL_RESULT_CHARS, 400,000 characters of a result as the model sees it

	PublicBaseURL string // PUBLIC_BASE_URL, without a slash at the end; empty: the request's own
	APIKeyHeader  string // CUSTOM_API_KEY_HEADER, x-api-key
	APIKeys       bool   // ENABLE_API_KEYS, true
	UserAPIKeys   bool   // USER_API_KEYS: users other than administrators have keys too; false
	FirstSignup   bool   // FIRST_SIGNUP: whoever signs up first is the administrator; false

	ModelTools    bool   // MODEL_TOOLS: a model's meta.toolIds are added to every request; false
	OutboundAllow string // OUTBOUND_ALLOW: networks, besides the public internet, that addresses given by users may lie in

	LogLevel slog.Level // LOG_LEVEL: debug, info, warn or error; info
}

// Load reads the variables through getenv (os.Getenv) and gives defaults to those that are empty. The error tells every variable
// that is malformed, and every one of required that is empty.
func Load(getenv func(string) string, required ...string) (Config, error) {
	r := reader{getenv: getenv}
	c := Config{
		Table:             r.text("TABLE_NAME", ""),
		Bucket:            r.text("BUCKET_NAME", ""),
		StateMachineARN:   r.text("STATE_MACHINE_ARN", ""),
		ToolboxFunction:   r.text("TOOLBOX_FUNCTION", ""),
		ToolboxTenancy:    r.tenancy("TOOLBOX_TENANCY"),
		SecretsPrefix:     r.text("SECRETS_PREFIX", ""),
		WebSocketEndpoint: r.url("WEBSOCKET_ENDPOINT"),
		ModelBaseURL:      r.url("MODEL_API_BASE_URL"),
		TaskModel:         r.text("TASK_MODEL", ""),
		MaxToolRounds:     r.number("MAX_TOOL_ROUNDS", 256, -1),
		ToolTime:          time.Duration(r.number("TOOL_SECONDS", 600, 1)) * time.Second,
		AnswerTime:        time.Duration(r.number("WEBSOCKET_EVENT_CALLER_TIMEOUT", 300, 1)) * time.Second,
		ToolResultChars:   r.number("TOOL_RESULT_CHARS", 400_000, 1),
		PublicBaseURL:     r.url("PUBLIC_BASE_URL"),
		APIKeyHeader:      r.text("CUSTOM_API_KEY_HEADER", "x-api-key"),
		APIKeys:           r.flag("ENABLE_API_KEYS", true),
		UserAPIKeys:       r.flag("USER_API_KEYS", false),
		FirstSignup:       r.flag("FIRST_SIGNUP", false),
		ModelTools:        r.flag("MODEL_TOOLS", false),
		OutboundAllow:     r.networks("OUTBOUND_ALLOW"),
		LogLevel:          r.level("LOG_LEVEL"),
	}
	for _, name := range required {
		if r.text(name, "") == "" {
			r.errs = append(r.errs, fmt.Errorf("%s is not set", name))
		}
	}
	if len(r.errs) > 0 {
		return Config{}, fmt.Errorf("configuration: %w", errors.Join(r.errs...))
	}
	return c, nil
}

// reader reads variables and collects what is wrong with them.
type reader struct {
	getenv func(string) string
	errs   []error
}

func (r *reader) text(name, preset string) string {
	if v := strings.TrimSpace(r.getenv(name)); v != "" {
		return v
	}
	return preset
}

func (r *reader) bad(name, want string) {
	r.errs = append(r.errs, fmt.Errorf("%s is %q, not %s", name, r.getenv(name), want))
}

func (r *reader) number(name string, preset, least int) int {
	v := r.text(name, "")
	if v == "" {
		return preset
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least {
		r.bad(name, fmt.Sprintf("a whole number of at least %d", least))
	}
	return n
}

func (r *reader) flag(name string, preset bool) bool {
	v := r.text(name, "")
	if v == "" {
		return preset
	}
	b, err := strconv.ParseBool(strings.ToLower(v))
	if err != nil {
		r.bad(name, "true or false")
	}
	return b
}

func (r *reader) tenancy(name string) bool {
	switch v := r.text(name, ""); v {
	case "PER_TENANT":
		return true
	case "NONE", "SHARED":
		return false
	default:
		return r.flag(name, false)
	}
}

func (r *reader) url(name string) string {
	v := strings.TrimRight(r.text(name, ""), "/")
	if v == "" {
		return ""
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		r.bad(name, "an http or https URL")
	}
	return v
}

func (r *reader) networks(name string) string {
	v := r.text(name, "")
	if _, err := guard.Networks(v); err != nil {
		r.bad(name, "a list of networks such as 10.1.0.0/16")
	}
	return v
}

func (r *reader) level(name string) slog.Level {
	var l slog.Level
	if v := r.text(name, ""); v != "" {
		if err := l.UnmarshalText([]byte(v)); err != nil {
			r.bad(name, "debug, info, warn or error")
		}
	}
	return l
}
