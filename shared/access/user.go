package access

import (
	"encoding/json"
	"maps"

	"toolrounds/shared/table"
)

// The roles.
const (
	RoleAdmin   = "admin"
	RoleUser    = "user"
	RolePending = "pending" // may sign in and see that somebody has to let them in
)

// DefaultImage is the profile image of an account that has chosen none.
const DefaultImage = "/user.png"

// User is an account, without its secrets. Times are Unix seconds.
type User struct {
	ID              string
	Name            string
	Email           string // lower case
	Role            string
	ProfileImageURL string
	Settings        map[string]any // what the web client keeps; nil: none yet
	// Profile holds the optional fields of the record that are set: those in optional.
	Profile      map[string]any
	CreatedAt    int64
	UpdatedAt    int64
	LastActiveAt int64 // of the last sign-in

	stamp    string // sessions carry it; another one ends them all
	password string // bcrypt
	revision int64
}

// optional are the fields that every record shows, null unless set.
var optional = []string{"username", "profile_banner_image_url", "bio", "gender", "date_of_birth", "timezone", "presence_state",
	"status_emoji", "status_message", "status_expires_at", "info", "oauth", "scim"}

// Record is the whole account as tools get it in __user__ and administrators in lists: spec/http.md G. It has no secrets and is
// the caller's to change.
func (u User) Record() map[string]any {
	r := map[string]any{"id": u.ID, "name": u.Name, "email": u.Email, "role": u.Role, "profile_image_url": u.ProfileImageURL,
		"settings": nil, "created_at": u.CreatedAt, "updated_at": u.UpdatedAt, "last_active_at": u.LastActiveAt}
	for _, k := range optional {
		r[k] = u.Profile[k]
	}
	if u.Settings != nil {
		r["settings"] = maps.Clone(u.Settings)
	}
	return r
}

// Brief is the account as it stands beside the things it owns.
func (u User) Brief() map[string]any {
	return map[string]any{"id": u.ID, "name": u.Name, "role": u.Role, "email": u.Email}
}

// Admin tells whether the account is an administrator's.
func (u User) Admin() bool { return u.Role == RoleAdmin }

// Active tells whether the account may use the application: it is not waiting to be let in.
func (u User) Active() bool { return u.Role == RoleAdmin || u.Role == RoleUser }

// MarshalJSON is that of Record.
func (u User) MarshalJSON() ([]byte, error) { return table.Encode(u.Record()) }

// UnmarshalJSON reads what MarshalJSON wrote, so that an account can travel with a run. Numbers of Settings stay json.Number.
func (u *User) UnmarshalJSON(raw []byte) error {
	var r map[string]any
	if err := table.Decode(raw, &r); err != nil {
		return err
	}
	text := func(k string) string { s, _ := r[k].(string); return s }
	whole := func(k string) int64 {
		n, _ := r[k].(json.Number)
		i, _ := n.Int64()
		return i
	}
	*u = User{ID: text("id"), Name: text("name"), Email: text("email"), Role: text("role"), ProfileImageURL: text("profile_image_url"),
		CreatedAt: whole("created_at"), UpdatedAt: whole("updated_at"), LastActiveAt: whole("last_active_at")}
	u.Settings, _ = r["settings"].(map[string]any)
	for _, k := range optional {
		if r[k] != nil {
			u.set(k, r[k])
		}
	}
	return nil
}

func (u *User) set(field string, value any) {
	profile := maps.Clone(u.Profile)
	if profile == nil {
		profile = map[string]any{}
	}
	if value == nil {
		delete(profile, field)
	} else {
		profile[field] = value
	}
	u.Profile = profile
}

func (u User) item() table.Item {
	attr := map[string]any{"id": u.ID, "name": u.Name, "email": u.Email, "role": u.Role, "image": u.ProfileImageURL,
		"created": u.CreatedAt, "updated": u.UpdatedAt, "active": u.LastActiveAt, "stamp": u.stamp, "password": u.password,
		"revision": u.revision}
	if u.Settings != nil {
		attr["settings"] = table.MustJSON(u.Settings)
	}
	if len(u.Profile) > 0 {
		attr["profile"] = table.MustJSON(u.Profile)
	}
	return table.Item{Key: table.User(u.ID), IndexPK: table.IndexUsers, IndexSK: u.Email, Attr: attr}
}

func userOf(item table.Item) (User, error) {
	u := User{ID: item.String("id"), Name: item.String("name"), Email: item.String("email"), Role: item.String("role"),
		ProfileImageURL: item.String("image"), CreatedAt: item.Int("created"), UpdatedAt: item.Int("updated"),
		LastActiveAt: item.Int("active"), stamp: item.String("stamp"), password: item.String("password"), revision: item.Int("revision")}
	if err := item.JSON("settings", &u.Settings); err != nil {
		return User{}, err
	}
	if err := item.JSON("profile", &u.Profile); err != nil {
		return User{}, err
	}
	return u, nil
}
