package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// configName names the record of the server-wide settings about accounts.
const configName = "access"

// Settings are the server-wide settings about accounts, which administrators change at run time.
type Settings struct {
	// Admin is the form of GET/POST /api/v1/auths/admin/config: all of its keys, most of which only the web client reads.
	Admin map[string]any
	// Default are the permissions of everybody.
	Default Permissions

	revision int64
	stored   bool
}

func (s Settings) flag(key string) bool { on, _ := s.Admin[key].(bool); return on }
func (s Settings) text(key string) string {
	t, _ := s.Admin[key].(string)
	return t
}

// Signup tells whether sign-up is open to everybody.
func (s Settings) Signup() bool { return s.flag("ENABLE_SIGNUP") }

// APIKeys tells whether API keys work at all.
func (s Settings) APIKeys() bool { return s.flag("ENABLE_API_KEYS") }

// allowsPath tells whether API keys may be used for the path: always, unless a list of paths is set; then for those and all below.
func (s Settings) allowsPath(path string) bool {
	if !s.flag("ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS") {
		return true
	}
	for _, allowed := range strings.Split(s.text("API_KEYS_ALLOWED_ENDPOINTS"), ",") {
		allowed = strings.TrimRight(strings.TrimSpace(allowed), "/")
		if allowed != "" && (path == allowed || strings.HasPrefix(path, allowed+"/")) {
			return true
		}
	}
	return false
}

// session is how long a new session lasts; 0: for ever.
func (s Settings) session() time.Duration {
	d, ok := lasting(s.text("JWT_EXPIRES_IN"))
	if !ok {
		return 4 * 7 * 24 * time.Hour
	}
	return d
}

// lasting reads durations such as "4w", "1h30m", "500ms"; "-1" and "0" mean for ever.
func lasting(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "-1" || text == "0" {
		return 0, true
	}
	var total time.Duration
	for text != "" {
		digits := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if digits <= 0 {
			return 0, false
		}
		n, err := strconv.ParseFloat(text[:digits], 64)
		if err != nil {
			return 0, false
		}
		text = text[digits:]
		end := strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' })
		if end < 0 {
			end = len(text)
		}
		unit, ok := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
			"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[text[:end]]
		if !ok {
			return 0, false
		}
		total += time.Duration(n * float64(unit))
		text = text[end:]
	}
	return total, total > 0
}

func (a *Accounts) defaults() Settings {
	p := DefaultPermissions()
	p["features"]["api_keys"] = !a.opts.DenyUserAPIKeys
	return Settings{Default: p, Admin: map[string]any{
		"ENABLE_MFA": false, "MFA_ALLOW_OAUTH_BYPASS": false, "MFA_ALLOW_TRUSTED_HEADER_BYPASS": false, "SHOW_ADMIN_DETAILS": true,
		"ADMIN_EMAIL": nil, "WEBUI_URL": "", "ENABLE_LOGIN_FORM": true, "ENABLE_SIGNUP": false, "ENABLE_API_KEYS": !a.opts.DisableAPIKeys,
		"ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS": false, "API_KEYS_ALLOWED_ENDPOINTS": "", "DEFAULT_USER_ROLE": RolePending,
		"DEFAULT_GROUP_ID": "", "DEFAULT_INTERFACE_SETTINGS": map[string]any{}, "I18N": map[string]any{}, "JWT_EXPIRES_IN": "4w",
		"ENABLE_COMMUNITY_SHARING": false, "ENABLE_MESSAGE_RATING": false, "ENABLE_FOLDERS": true, "FOLDER_MAX_FILE_COUNT": "",
		"AUTOMATION_MAX_COUNT": "", "AUTOMATION_MIN_INTERVAL": "", "ENABLE_AUTOMATIONS": false, "ENABLE_CHANNELS": false,
		"ENABLE_ENCRYPTED_CHANNELS": false, "ENABLE_APPS": false, "CHANNEL_MODEL_RESPONSE_MODE": "thread", "ENABLE_CALENDAR": false,
		"ENABLE_MEMORIES": false, "ENABLE_MEMORY_SYSTEM_CONTEXT": false, "ENABLE_SKILL_LAZY_LOADING": false,
		"SKILL_CONTENT_MAX_CHARS": nil, "SKILL_PREVIEW_MAX_CHARS": nil, "ENABLE_NOTES": false, "ENABLE_USER_WEBHOOKS": false,
		"ENABLE_USER_STATUS": false, "PENDING_USER_OVERLAY_TITLE": "", "PENDING_USER_OVERLAY_CONTENT": "", "RESPONSE_WATERMARK": "",
	}}
}

func (a *Accounts) settingsOf(item table.Item, ok bool) (Settings, error) {
	s := a.defaults()
	if !ok {
		return s, nil
	}
	s.stored, s.revision = true, item.Int("revision")
	var admin map[string]any
	var permissions Permissions
	if err := errors.Join(item.JSON("admin", &admin), item.JSON("permissions", &permissions)); err != nil {
		return Settings{}, err
	}
	maps.Copy(s.Admin, admin)
	for section, names := range permissions {
		if s.Default[section] == nil {
			s.Default[section] = map[string]bool{}
		}
		maps.Copy(s.Default[section], names)
	}
	return s, nil
}

// Settings reads the server-wide settings.
func (a *Accounts) Settings(ctx context.Context) (Settings, error) {
	item, ok, err := table.One(ctx, a.table, table.Config(configName))
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return a.settingsOf(item, ok)
}

// Change replaces the given keys of Settings.Admin and the given default permissions, and returns what holds then. Unknown keys
// are ignored; a value of another kind than the setting's is fault.Unprocessed.
func (a *Accounts) Change(ctx context.Context, admin map[string]any, permissions Permissions) (Settings, error) {
	for range attempts {
		s, err := a.Settings(ctx)
		if err != nil {
			return Settings{}, err
		}
		if err := s.change(admin, permissions); err != nil {
			return Settings{}, err
		}
		cond := table.New()
		if s.stored {
			cond = table.Is("revision", s.revision)
		}
		s.revision++
		_, err = a.table.Apply(ctx, table.Put(table.Item{Key: table.Config(configName), Attr: map[string]any{
			"admin": table.MustJSON(s.Admin), "permissions": table.MustJSON(s.Default), "revision": s.revision}}, cond))
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Settings{}, fmt.Errorf("store settings: %w", err)
		}
	}
	return Settings{}, errBusy
}

func (s Settings) change(admin map[string]any, permissions Permissions) error {
	known := (&Accounts{}).defaults().Admin
	for key, value := range admin {
		old, ok := known[key]
		if !ok {
			continue
		}
		switch old.(type) {
		case bool:
			_, ok = value.(bool)
		case string:
			_, ok = value.(string)
			ok = ok || value == nil
		case map[string]any:
			_, ok = value.(map[string]any)
		}
		if role, _ := value.(string); key == "DEFAULT_USER_ROLE" && !validRole(role) {
			ok = false
		}
		if text, _ := value.(string); key == "JWT_EXPIRES_IN" {
			_, ok = lasting(text)
		}
		if !ok {
			return fault.Fields(fault.Field{Type: "value_error", Loc: []any{"body", key}, Msg: "Input is not valid for this setting", Input: value})
		}
		s.Admin[key] = value
	}
	for section, names := range permissions {
		if s.Default[section] == nil {
			s.Default[section] = map[string]bool{}
		}
		maps.Copy(s.Default[section], names)
	}
	return nil
}

func validRole(role string) bool { return role == RoleAdmin || role == RoleUser || role == RolePending }

// attempts is how often a read, change, conditional write is tried against others doing the same.
const attempts = 8

var errBusy = fault.New(fault.Unavailable, "Too many changes at once. Please try again.")
