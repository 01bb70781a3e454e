package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// counted is a group as the routes about groups show it.
func (s *server) counted(r *http.Request, g access.Group) (map[string]any, error) {
	members, err := s.Accounts.Members(r.Context(), g.ID)
	if err != nil {
		return nil, err
	}
	raw, err := table.Encode(g)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := table.Decode(raw, &m); err != nil {
		return nil, err
	}
	m["member_count"] = len(members)
	return m, nil
}

func (s *server) answerGroup(w http.ResponseWriter, r *http.Request, g access.Group) error {
	m, err := s.counted(r, g)
	if err != nil {
		return err
	}
	return answer(w, 200, m)
}

func (s *server) listGroups(w http.ResponseWriter, r *http.Request) error {
	c := s.caller(r)
	list := func() ([]access.Group, error) { return s.Accounts.GroupsOf(r.Context(), c.User.ID) }
	if c.User.Admin() {
		list = func() ([]access.Group, error) { return s.Accounts.AllGroups(r.Context()) }
	}
	groups, err := list()
	if err != nil {
		return err
	}
	all := []any{}
	for _, g := range groups {
		m, err := s.counted(r, g)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	return answer(w, 200, all)
}

func groupForm(r *http.Request) (access.GroupForm, error) {
	f, err := readForm(r)
	if err != nil {
		return access.GroupForm{}, err
	}
	form := access.GroupForm{Name: f.text("name"), Description: f.text("description"), Permissions: f.objectOrNil("permissions"),
		Data: f.objectOrNil("data"), Meta: f.objectOrNil("meta")}
	return form, f.err()
}

func (s *server) createGroup(w http.ResponseWriter, r *http.Request) error {
	form, err := groupForm(r)
	if err != nil {
		return err
	}
	g, err := s.Accounts.CreateGroup(r.Context(), s.caller(r).User, form)
	if err != nil {
		return err
	}
	return s.answerGroup(w, r, g)
}

func (s *server) readGroup(w http.ResponseWriter, r *http.Request) error {
	g, err := s.Accounts.Group(r.Context(), r.PathValue("id"))
	if err != nil {
		return instead(err, fault.NotFound, fault.NotFound, fault.TextNotFound)
	}
	return s.answerGroup(w, r, g)
}

func (s *server) updateGroup(w http.ResponseWriter, r *http.Request) error {
	form, err := groupForm(r)
	if err != nil {
		return err
	}
	g, err := s.Accounts.UpdateGroup(r.Context(), r.PathValue("id"), form)
	if err != nil {
		return err
	}
	return s.answerGroup(w, r, g)
}

func (s *server) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	if err := s.Accounts.DeleteGroup(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	return answer(w, 200, true)
}

func (s *server) groupUsers(w http.ResponseWriter, r *http.Request) error {
	g, err := s.Accounts.Group(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	ids, err := s.Accounts.Members(r.Context(), g.ID)
	if err != nil {
		return err
	}
	byID, err := s.Accounts.Users(r.Context(), ids)
	if err != nil {
		return err
	}
	users := make([]access.User, 0, len(byID))
	for _, u := range byID {
		users = append(users, u)
	}
	slices.SortFunc(users, func(a, b access.User) int { return strings.Compare(a.Email, b.Email) })
	return answer(w, 200, s.people(users))
}

func (s *server) addToGroup(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	ids := f.texts("user_ids")
	if err := f.err(); err != nil {
		return err
	}
	g, err := s.Accounts.AddMembers(r.Context(), r.PathValue("id"), ids)
	if err != nil {
		return err
	}
	return s.answerGroup(w, r, g)
}

func (s *server) removeFromGroup(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	ids := f.texts("user_ids")
	if err := f.err(); err != nil {
		return err
	}
	g, err := s.Accounts.Group(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.Accounts.RemoveMembers(r.Context(), g.ID, ids); err != nil {
		return err
	}
	return s.answerGroup(w, r, g)
}
