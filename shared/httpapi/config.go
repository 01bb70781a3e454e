package httpapi

import (
	"net/http"

	"toolrounds/shared/fault"
)

func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	return answer(w, 200, map[string]any{"status": true})
}

func (s *server) version(w http.ResponseWriter, r *http.Request) error {
	return answer(w, 200, map[string]any{"version": s.Version, "deployment_id": s.DeploymentID})
}

// config tells everybody what there is, and a person with a session more: an API key, or a session that has ended, gets what
// everybody gets. Features that are not built are off, so that the web client does not show them.
func (s *server) config(w http.ResponseWriter, r *http.Request) error {
	open, first, err := s.Accounts.SignupOpen(r.Context())
	if err != nil {
		return err
	}
	features := map[string]any{"slim": false, "auth": true, "auth_trusted_header": false, "enable_signup_password_confirmation": false,
		"enable_ldap": false, "enable_signup": open, "enable_login_form": true, "enable_websocket": true}
	config := map[string]any{"status": true, "name": s.Name, "version": s.Version, "default_locale": "", "i18n": map[string]any{},
		"oauth": map[string]any{"providers": map[string]any{}, "auto_redirect": false}, "features": features}
	if first {
		config["onboarding"] = true
	}
	if cred := s.Accounts.Credential(r); cred.Found {
		caller, err := s.Accounts.Authenticate(r.Context(), cred, r.Method, r.URL.Path)
		code := fault.CodeOf(err)
		if err != nil && code != fault.Unauthorized && code != fault.Forbidden {
			return err
		}
		if err == nil && !caller.ByKey {
			state(r).caller = caller
			if err := s.personal(r, config, features); err != nil {
				return err
			}
		}
	}
	return answer(w, 200, config)
}

// personal adds what only a person with a session is told.
func (s *server) personal(r *http.Request, config, features map[string]any) error {
	settings, err := s.Accounts.Settings(r.Context())
	if err != nil {
		return err
	}
	permissions, err := s.Accounts.Permissions(r.Context(), s.caller(r).User)
	if err != nil {
		return err
	}
	for _, on := range []string{"enable_password_change_form", "enable_plugins", "enable_tools", "enable_title_generation",
		"enable_follow_up_generation", "enable_tags_generation", "enable_admin_chat_access", "enable_tool_servers", "enable_terminal_servers"} {
		features[on] = true
	}
	for _, off := range []string{"enable_version_update_check", "enable_pyodide_file_persistence", "enable_public_active_users_count",
		"enable_easter_eggs", "enable_direct_connections", "enable_direct_integrations", "enable_functions", "enable_channels", "enable_encrypted_channels", "enable_apps", "enable_calendar",
		"enable_automations", "enable_notes", "enable_context_compaction", "enable_tool_permissions", "enable_web_search",
		"enable_web_search_confirmation", "enable_code_execution", "enable_code_interpreter", "enable_image_generation",
		"enable_autocomplete_generation", "enable_community_sharing", "enable_message_rating", "enable_user_webhooks",
		"enable_user_status", "enable_admin_export", "enable_admin_analytics", "enable_google_drive_integration",
		"enable_onedrive_integration", "enable_memories", "enable_subagents"} {
		features[off] = false
	}
	features["enable_api_keys"] = settings.APIKeys()
	features["enable_folders"] = settings.Admin["ENABLE_FOLDERS"]
	features["folder_max_file_count"] = ""
	for key, value := range map[string]any{
		"default_models": nil, "default_pinned_models": nil, "default_prompt_suggestions": nil,
		"default_prompt_suggestions_i18n": map[string]any{},
		"code":                            map[string]any{"engine": "pyodide", "interpreter_engine": "pyodide"},
		"audio": map[string]any{"realtime": map[string]any{"enabled": false}, "stt": map[string]any{"engine": ""},
			"tts": map[string]any{"engine": "", "voice": "", "split_on": "punctuation"}},
		"file": map[string]any{"max_size": nil, "max_count": nil, "image_compression": map[string]any{"width": nil, "height": nil}},
		"ui": map[string]any{"default_interface_settings": settings.Admin["DEFAULT_INTERFACE_SETTINGS"], "visibility": map[string]any{},
			"pending_user_overlay_title":   settings.Admin["PENDING_USER_OVERLAY_TITLE"],
			"pending_user_overlay_content": settings.Admin["PENDING_USER_OVERLAY_CONTENT"],
			"response_watermark":           settings.Admin["RESPONSE_WATERMARK"], "iframe_csp": ""},
		"license_metadata": nil, "permissions": permissions,
	} {
		config[key] = value
	}
	return nil
}

// empty answers with the empty list.
func empty(w http.ResponseWriter, r *http.Request) error { return answer(w, 200, []any{}) }
