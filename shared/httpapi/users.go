package httpapi

import (
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
)

// pageSize is how many accounts or models a page of a list has.
const pageSize = 30

// page cuts the asked-for page, counted from 1, out of a list. No or a bad number: the first.
func page[T any](r *http.Request, all []T) []T {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	if n > len(all)/pageSize+1 {
		return all[:0]
	}
	from := (n - 1) * pageSize
	return all[min(from, len(all)):min(from+pageSize, len(all))]
}

// matching are the accounts whose name or address contains the query.
func (s *server) matching(r *http.Request) ([]access.User, error) {
	all, err := s.Accounts.List(r.Context())
	if err != nil {
		return nil, err
	}
	query, found := strings.ToLower(r.URL.Query().Get("query")), []access.User{}
	for _, u := range all {
		if strings.Contains(strings.ToLower(u.Name), query) || strings.Contains(u.Email, query) {
			found = append(found, u)
		}
	}
	return found, nil
}

func (s *server) listUsers(w http.ResponseWriter, r *http.Request) error {
	found, err := s.matching(r)
	if err != nil {
		return err
	}
	records := []any{}
	for _, u := range page(r, found) {
		record := u.Record()
		if record["group_ids"], err = s.Accounts.Groups(r.Context(), u.ID); err != nil {
			return err
		}
		records = append(records, record)
	}
	return answer(w, 200, map[string]any{"users": records, "total": len(found)})
}

func (s *server) allUsers(w http.ResponseWriter, r *http.Request) error {
	found, err := s.matching(r)
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"users": s.people(found), "total": len(found)})
}

// people are accounts as those see them who share something with them.
func (s *server) people(users []access.User) []any {
	people := []any{}
	for _, u := range users {
		p := u.Brief()
		for _, k := range []string{"status_emoji", "status_message", "status_expires_at", "bio", "timezone"} {
			p[k] = u.Profile[k]
		}
		p["last_active_at"], p["groups"], p["is_active"] = u.LastActiveAt, []any{}, s.active(u)
		people = append(people, p)
	}
	return people
}

// active tells whether somebody has been there in the last minutes.
func (s *server) active(u access.User) bool { return u.LastActiveAt >= s.Now().Unix()-180 }

// account reads the account that the path names.
func (s *server) account(r *http.Request) (access.User, error) {
	u, err := s.Accounts.User(r.Context(), r.PathValue("id"))
	return u, instead(err, fault.NotFound, fault.Invalid, fault.TextNotFound)
}

func (s *server) readUser(w http.ResponseWriter, r *http.Request) error {
	u, err := s.account(r)
	if err != nil {
		return err
	}
	record := u.Record()
	if record["groups"], err = s.Accounts.GroupsOf(r.Context(), u.ID); err != nil {
		return err
	}
	record["is_active"] = s.active(u)
	return answer(w, 200, record)
}

func (s *server) updateUser(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	e := access.Edit{Name: f.textOrNil("name"), Email: f.textOrNil("email"), Role: f.textOrNil("role"), Image: f.textOrNil("profile_image_url"),
		Password: f.textOrNil("password")}
	if err := f.err(); err != nil {
		return err
	}
	if e.Password != nil && *e.Password == "" { // the web client's way of saying: as it is
		e.Password = nil
	}
	u, err := s.Accounts.Update(r.Context(), r.PathValue("id"), e)
	if err != nil {
		return instead(err, fault.NotFound, fault.Invalid, fault.TextNotFound)
	}
	return answer(w, 200, u.Record())
}

func (s *server) deleteUser(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if id == s.caller(r).User.ID {
		return fault.New(fault.Forbidden, "The requested action has been restricted as a security measure.")
	}
	if err := s.Accounts.Delete(r.Context(), id); err != nil {
		return err
	}
	return answer(w, 200, true)
}

func (s *server) ownGroups(w http.ResponseWriter, r *http.Request) error {
	groups, err := s.Accounts.GroupsOf(r.Context(), s.caller(r).User.ID)
	if err != nil {
		return err
	}
	return answer(w, 200, groups)
}

func (s *server) userGroups(w http.ResponseWriter, r *http.Request) error {
	groups, err := s.Accounts.GroupsOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, 200, groups)
}

func (s *server) ownPermissions(w http.ResponseWriter, r *http.Request) error {
	permissions, err := s.Accounts.Permissions(r.Context(), s.caller(r).User)
	if err != nil {
		return err
	}
	return answer(w, 200, permissions)
}

func (s *server) defaultPermissions(w http.ResponseWriter, r *http.Request) error {
	settings, err := s.Accounts.Settings(r.Context())
	if err != nil {
		return err
	}
	return answer(w, 200, settings.Default)
}

func (s *server) changeDefaultPermissions(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	given := access.Permissions{}
	for section := range access.DefaultPermissions() {
		given[section] = map[string]bool{}
		if f.object(section, true) == nil {
			continue
		}
		in := f.within(section)
		for name := range in.values {
			given[section][name] = in.flag(name, false)
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	settings, err := s.Accounts.Change(r.Context(), nil, given)
	if err != nil {
		return err
	}
	return answer(w, 200, settings.Default)
}

func (s *server) userSettings(w http.ResponseWriter, r *http.Request) error {
	if settings := s.caller(r).User.Settings; settings != nil {
		return answer(w, 200, settings)
	}
	return answer(w, 200, nil)
}

func (s *server) updateUserSettings(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	u, err := s.Accounts.Update(r.Context(), s.caller(r).User.ID, access.Edit{Settings: f.values})
	if err != nil {
		return err
	}
	return answer(w, 200, u.Settings)
}

func (s *server) userInfo(w http.ResponseWriter, r *http.Request) error {
	return answer(w, 200, s.caller(r).User.Profile["info"])
}

// userImage draws the account's initial: no images are kept.
func (s *server) userImage(w http.ResponseWriter, r *http.Request) error {
	u, err := s.Accounts.User(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return drawInitial(w, u.Name)
}

func drawInitial(w http.ResponseWriter, name string) error {
	first, _ := utf8.DecodeRuneInString(strings.ToUpper(strings.TrimSpace(name)) + "?")
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "private, max-age=3600")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="#5b6b8c"/>`+
		`<text x="32" y="43" font-family="sans-serif" font-size="32" fill="#fff" text-anchor="middle">%s</text></svg>`, html.EscapeString(string(first)))
	return err
}
