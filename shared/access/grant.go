package access

import (
	"slices"
	"strings"
)

// The permissions of a Grant, and the principal that means everybody.
const (
	Read     = "read"
	Write    = "write"
	Everyone = "*"
)

// Grant gives a user, a group or everybody one permission on one thing.
type Grant struct {
	ID            string `json:"id"`
	ResourceType  string `json:"resource_type"` // tool or model
	ResourceID    string `json:"resource_id"`
	PrincipalType string `json:"principal_type"` // user or group
	PrincipalID   string `json:"principal_id"`   // an id, or "*" for every user
	Permission    string `json:"permission"`     // read or write
	CreatedAt     int64  `json:"created_at"`     // Unix seconds
}

// Allows tells whether the user has the permission on a thing of that owner with those grants: owners and administrators have
// all, others need a grant of exactly that permission (spec/http.md C1). Groups are the ids of the groups the user is in; they
// matter only when NeedsGroups.
func Allows(u User, groups []string, owner string, grants []Grant, permission string) bool {
	if u.ID == "" {
		return false
	}
	if u.Admin() || u.ID == owner {
		return true
	}
	for _, g := range grants {
		if g.Permission != permission {
			continue
		}
		switch g.PrincipalType {
		case "user":
			if g.PrincipalID == Everyone || g.PrincipalID == u.ID {
				return true
			}
		case "group":
			if slices.Contains(groups, g.PrincipalID) {
				return true
			}
		}
	}
	return false
}

// NeedsGroups tells whether Allows depends on the user's groups, so that callers read them only then.
func NeedsGroups(u User, owner string, grants []Grant) bool {
	return !u.Admin() && u.ID != owner && slices.ContainsFunc(grants, func(g Grant) bool { return g.PrincipalType == "group" })
}

// Grants makes the stored grants on a thing from those a client asks for: unknown principals and permissions are dropped, the same
// grant counts once, and one that is there already keeps its id and time.
func Grants(resourceType, resourceID string, asked, present []Grant, now int64) []Grant {
	made := []Grant{}
	same := func(a Grant) func(Grant) bool {
		return func(b Grant) bool {
			return a.PrincipalType == b.PrincipalType && a.PrincipalID == b.PrincipalID && a.Permission == b.Permission
		}
	}
	for _, g := range asked {
		if (g.PrincipalType != "user" && g.PrincipalType != "group") || (g.Permission != Read && g.Permission != Write) ||
			g.PrincipalID == "" || slices.ContainsFunc(made, same(g)) {
			continue
		}
		if i := slices.IndexFunc(present, same(g)); i >= 0 {
			made = append(made, present[i])
			continue
		}
		made = append(made, Grant{ID: NewID(), ResourceType: resourceType, ResourceID: resourceID, PrincipalType: g.PrincipalType,
			PrincipalID: g.PrincipalID, Permission: g.Permission, CreatedAt: now})
	}
	return made
}

// Shareable splits the grants that a user asks for on a thing of a kind ("tools", "models") into those the user may give and tells
// whether that is all of them. Everybody needs sharing.public_<kind>, one user or group sharing.<kind>; administrators may give all.
func Shareable(u User, p Permissions, kind string, asked []Grant) (allowed []Grant, all bool) {
	allowed, all = []Grant{}, true
	for _, g := range asked {
		need := "sharing." + kind
		if g.PrincipalID == Everyone {
			need = "sharing.public_" + kind
		}
		direct := g.PrincipalType != "group" && p.Has("access_grants.allow_users") ||
			g.PrincipalType == "group" && p.Has("access_grants.allow_groups") || g.PrincipalID == Everyone
		if u.Admin() || p.Has(need) && direct {
			allowed = append(allowed, g)
		} else {
			all = false
		}
	}
	return allowed, all
}

// Permissions are what a plain user may do, by section and name: {"workspace": {"tools": false}}. Administrators may do everything
// whatever their Permissions say.
type Permissions map[string]map[string]bool

// Has tells whether "section.name" is permitted.
func (p Permissions) Has(name string) bool {
	section, key, _ := strings.Cut(name, ".")
	return p[section][key]
}

// Clone is a deep copy.
func (p Permissions) Clone() Permissions {
	c := make(Permissions, len(p))
	for section, names := range p {
		c[section] = make(map[string]bool, len(names))
		for name, on := range names {
			c[section][name] = on
		}
	}
	return c
}

// DefaultPermissions are a new installation's, those of Open WebUI 0.12.4.
func DefaultPermissions() Permissions {
	off := func(names string, p map[string]bool) map[string]bool {
		for _, n := range strings.Fields(names) {
			p[n] = false
		}
		return p
	}
	on := func(names string) map[string]bool {
		p := map[string]bool{}
		for _, n := range strings.Fields(names) {
			p[n] = true
		}
		return p
	}
	return Permissions{
		"workspace": off("models knowledge prompts tools skills models_import models_export models_hidden prompts_import "+
			"prompts_export tools_import tools_export skills_import skills_export", on("")),
		"sharing": off("models public_models knowledge public_knowledge prompts public_prompts tools public_tools skills "+
			"public_skills notes public_notes folders public_chats open_chats public_calendars", on("")),
		"access_grants": on("allow_users allow_groups"),
		"chat": off("temporary_enforced", on("controls valves system_prompt params file_upload web_upload delete delete_message "+
			"continue_response regenerate_response rate_response edit share export import stt tts call multiple_models temporary")),
		"features": off("encrypted_channels direct_tool_servers automations webhooks", on("api_keys notes folders channels "+
			"web_search image_generation code_interpreter memories calendar")),
		"settings": on("interface"),
	}
}
