package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/model"
	"toolrounds/shared/table"
)

// textAudience refuses grants to those the user may not share with.
const textAudience = "You do not have permission to share with the requested audience"

// permitted tells whether the caller is an administrator or has one of the permissions.
func (s *server) permitted(r *http.Request, names ...string) (access.Permissions, bool, error) {
	u := s.caller(r).User
	if u.Admin() {
		return nil, true, nil
	}
	p, err := s.Accounts.Permissions(r.Context(), u)
	return p, slices.ContainsFunc(names, p.Has), err
}

// need is the fault of a caller who is no administrator and has none of the permissions.
func (s *server) need(r *http.Request, names ...string) error {
	_, ok, err := s.permitted(r, names...)
	if err == nil && !ok {
		err = fault.New(fault.Unauthorized, fault.TextUnauth)
	}
	return err
}

// shareable are those of the asked-for grants that the caller may give on a thing of the kind.
func (s *server) shareable(r *http.Request, kind string, asked []access.Grant) ([]access.Grant, bool, error) {
	if s.caller(r).User.Admin() || len(asked) == 0 {
		return asked, true, nil
	}
	p, err := s.Accounts.Permissions(r.Context(), s.caller(r).User)
	if err != nil {
		return nil, false, err
	}
	allowed, all := access.Shareable(s.caller(r).User, p, kind, asked)
	return allowed, all, nil
}

func (s *server) models(w http.ResponseWriter, r *http.Request) error {
	refresh := r.URL.Query().Get("refresh") == "true"
	list, err := s.Models.List(r.Context(), s.caller(r).User, refresh)
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"data": list})
}

// entryWith is an entry with further fields.
func entryWith(e model.Entry, more map[string]any) (map[string]any, error) {
	raw, err := table.Encode(e)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := table.Decode(raw, &m); err != nil {
		return nil, err
	}
	for k, v := range more {
		m[k] = v
	}
	return m, nil
}

func (s *server) modelEntries(w http.ResponseWriter, r *http.Request) error {
	u := s.caller(r).User
	entries, err := s.Models.Shared(r.Context(), u)
	if err != nil {
		return err
	}
	query := strings.ToLower(r.URL.Query().Get("query"))
	entries = slices.DeleteFunc(entries, func(e model.Entry) bool { return !strings.Contains(strings.ToLower(e.Name), query) })
	slices.Reverse(entries) // last made first
	shown := page(r, entries)
	owners, err := s.briefs(r, owned(shown, func(e model.Entry) string { return e.UserID }))
	if err != nil {
		return err
	}
	items := []any{}
	for _, e := range shown {
		writes, err := s.Models.Allows(r.Context(), u, e, access.Write)
		if err != nil {
			return err
		}
		if !writes {
			e.Params = map[string]any{}
		}
		e.Meta = maps.Clone(e.Meta)
		delete(e.Meta, "profile_image_url") // it may be large, and has a route of its own
		item, err := entryWith(e, map[string]any{"user": owners[e.UserID], "write_access": writes})
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return answer(w, 200, map[string]any{"items": items, "total": len(entries)})
}

// owned are the ids of things' owners.
func owned[T any](things []T, owner func(T) string) []string {
	ids := make([]string, len(things))
	for i, t := range things {
		ids[i] = owner(t)
	}
	return ids
}

// briefs are accounts, by id, as they stand beside the things they own.
func (s *server) briefs(r *http.Request, ids []string) (map[string]any, error) {
	users, err := s.Accounts.Users(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	briefs := map[string]any{}
	for id, u := range users {
		briefs[id] = u.Brief()
	}
	return briefs, nil
}

func (s *server) baseEntries(w http.ResponseWriter, r *http.Request) error {
	entries, err := s.Models.Entries(r.Context())
	if err != nil {
		return err
	}
	return answer(w, 200, slices.DeleteFunc(entries, func(e model.Entry) bool { return e.BaseModelID != nil }))
}

func (s *server) modelTags(w http.ResponseWriter, r *http.Request) error {
	entries, err := s.Models.Shared(r.Context(), s.caller(r).User)
	if err != nil {
		return err
	}
	names := []string{}
	for _, e := range entries {
		for _, name := range e.Tags() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return answer(w, 200, names)
}

func (s *server) exportModels(w http.ResponseWriter, r *http.Request) error {
	if err := s.need(r, "workspace.models_export"); err != nil {
		return err
	}
	u := s.caller(r).User
	entries, err := s.Models.Shared(r.Context(), u)
	if err != nil {
		return err
	}
	exported := []model.Entry{}
	for _, e := range entries {
		writes, err := s.Models.Allows(r.Context(), u, e, access.Write)
		if err != nil {
			return err
		}
		if writes { // an export holds the parameters
			exported = append(exported, e)
		}
	}
	return answer(w, 200, exported)
}

func modelForm(r *http.Request) (model.Form, error) {
	f, err := readForm(r)
	if err != nil {
		return model.Form{}, err
	}
	form := model.Form{ID: f.text("id"), BaseModelID: f.textOrNil("base_model_id"), Name: f.text("name"), Meta: f.object("meta", true),
		Params: f.object("params", true), Grants: f.grants("access_grants", false), IsActive: f.flag("is_active", true)}
	return form, f.err()
}

func (s *server) createModel(w http.ResponseWriter, r *http.Request) error {
	form, err := modelForm(r)
	if err != nil {
		return err
	}
	if err := s.need(r, "workspace.models"); err != nil {
		return err
	}
	if form.Grants, _, err = s.shareable(r, "models", form.Grants); err != nil {
		return err
	}
	e, err := s.Models.Create(r.Context(), s.caller(r).User, form)
	if err != nil {
		return err
	}
	return answer(w, 200, e)
}

// queryID is the required query parameter id.
func queryID(r *http.Request) (string, error) {
	if !r.URL.Query().Has("id") {
		return "", fault.Fields(fault.MissingField(nil, "query", "id"))
	}
	return r.URL.Query().Get("id"), nil
}

func (s *server) readModel(w http.ResponseWriter, r *http.Request) error {
	id, err := queryID(r)
	if err != nil {
		return err
	}
	e, err := s.Models.Entry(r.Context(), id)
	if err != nil {
		return err
	}
	u := s.caller(r).User
	reads, err := s.Models.Allows(r.Context(), u, e, access.Read)
	if err != nil {
		return err
	}
	writes, err := s.Models.Allows(r.Context(), u, e, access.Write)
	if err != nil {
		return err
	}
	if !reads {
		return fault.New(fault.Unauthorized, fault.TextProhibited)
	}
	if !writes { // what an owner tells the model is not the reader's to see
		e.Params = map[string]any{}
	}
	m, err := entryWith(e, map[string]any{"user": nil, "write_access": writes})
	if err != nil {
		return err
	}
	return answer(w, 200, m)
}

func (s *server) updateModel(w http.ResponseWriter, r *http.Request) error {
	form, err := modelForm(r)
	if err != nil {
		return err
	}
	e, err := s.Models.Update(r.Context(), s.caller(r).User, form)
	if err != nil {
		err = instead(err, fault.NotFound, fault.Unauthorized, fault.TextNotFound)
		return instead(err, fault.Forbidden, fault.Invalid, fault.TextProhibited)
	}
	return answer(w, 200, e)
}

// modelFault is how the other changes of an entry are refused.
func modelFault(err error) error {
	err = instead(err, fault.NotFound, fault.Unauthorized, fault.TextNotFound)
	return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextUnauth)
}

func (s *server) toggleModel(w http.ResponseWriter, r *http.Request) error {
	id, err := queryID(r)
	if err != nil {
		return err
	}
	e, err := s.Models.Toggle(r.Context(), s.caller(r).User, id)
	if err != nil {
		return modelFault(err)
	}
	return answer(w, 200, e)
}

func (s *server) deleteModel(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	id := f.text("id")
	if err := f.err(); err != nil {
		return err
	}
	if err := s.Models.Delete(r.Context(), s.caller(r).User, id); err != nil {
		return modelFault(err)
	}
	return answer(w, 200, true)
}

// grantModel replaces an entry's grants. For a served model without an entry an administrator makes one with it.
func (s *server) grantModel(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	id, name, asked := f.text("id"), f.textOrNil("name"), f.grants("access_grants", true)
	if err := f.err(); err != nil {
		return err
	}
	u := s.caller(r).User
	allowed, all, err := s.shareable(r, "models", asked)
	if err != nil {
		return err
	}
	if !all {
		return fault.New(fault.Forbidden, textAudience)
	}
	e, err := s.Models.Grant(r.Context(), u, id, allowed)
	if err != nil && fault.CodeOf(err) == fault.NotFound && u.Admin() {
		if name == nil {
			name = &id
		}
		e, err = s.Models.Create(r.Context(), u, model.Form{ID: id, Name: *name, IsActive: true, Grants: asked})
	}
	if err != nil {
		err = instead(err, fault.Forbidden, fault.Invalid, fault.TextProhibited)
		return instead(err, fault.NotFound, fault.Forbidden, fault.TextProhibited)
	}
	return answer(w, 200, e)
}

func (s *server) modelImage(w http.ResponseWriter, r *http.Request) error {
	return drawInitial(w, r.URL.Query().Get("id"))
}
