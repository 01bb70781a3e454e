package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/tool"
)

// toolkit is a toolkit as all routes show it; they add to it.
func toolkit(k tool.Toolkit) map[string]any {
	return map[string]any{"version_id": k.VersionID, "id": k.ID, "user_id": k.UserID, "name": k.Name, "meta": k.Meta,
		"access_grants": k.Grants, "updated_at": k.UpdatedAt, "created_at": k.CreatedAt}
}

// complete is a toolkit with all that its writers may see.
func complete(k tool.Toolkit, source string) map[string]any {
	m := toolkit(k)
	m["content"], m["specs"] = source, k.Specs
	return m
}

// listed are the toolkits that the caller may read, with their owners.
func (s *server) listed(r *http.Request, more func(tool.Toolkit, map[string]any) error) ([]any, error) {
	kits, err := s.Tools.List(r.Context(), s.caller(r).User, r.URL.Query().Get("query"))
	if err != nil {
		return nil, err
	}
	owners, err := s.briefs(r, owned(kits, func(k tool.Toolkit) string { return k.UserID }))
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, k := range kits {
		m := toolkit(k)
		m["user"], m["content"], m["specs"] = owners[k.UserID], nil, k.Specs
		if err := more(k, m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (s *server) tools(w http.ResponseWriter, r *http.Request) error {
	all, err := s.listed(r, func(k tool.Toolkit, m map[string]any) error {
		m["has_user_valves"] = k.HasUserValves
		return nil
	})
	if err != nil {
		return err
	}
	elsewhere, err := s.serverTools(r)
	if err != nil {
		return err
	}
	return answer(w, 200, append(all, elsewhere...))
}

func (s *server) toolList(w http.ResponseWriter, r *http.Request) error {
	all, err := s.listed(r, func(k tool.Toolkit, m map[string]any) (err error) {
		m["write_access"], err = s.Tools.Allows(r.Context(), s.caller(r).User, k, access.Write)
		return err
	})
	if err != nil {
		return err
	}
	return answer(w, 200, all)
}

func (s *server) exportTools(w http.ResponseWriter, r *http.Request) error {
	if err := s.need(r, "workspace.tools_export"); err != nil {
		return err
	}
	u, exported := s.caller(r).User, []tool.Toolkit{}
	kits, err := s.Tools.List(r.Context(), u, "")
	if err != nil {
		return err
	}
	for _, k := range kits {
		writes, err := s.Tools.Allows(r.Context(), u, k, access.Write)
		if err != nil {
			return err
		}
		if writes { // an export holds the source
			exported = append(exported, k)
		}
	}
	sources, err := s.Tools.Sources(r.Context(), exported)
	if err != nil {
		return err
	}
	all := []any{}
	for _, k := range exported {
		all = append(all, complete(k, sources[k.ID]))
	}
	return answer(w, 200, all)
}

func toolForm(r *http.Request) (tool.Form, error) {
	f, err := readForm(r)
	if err != nil {
		return tool.Form{}, err
	}
	form := tool.Form{ID: f.text("id"), Name: f.text("name"), Source: f.text("content"), Meta: f.object("meta", true)}
	if form.Meta != nil {
		meta := f.within("meta")
		meta.textOrNil("description")
		meta.objectOrNil("manifest")
	}
	form.Grants = f.grants("access_grants", false)
	return form, f.err()
}

func (s *server) createTool(w http.ResponseWriter, r *http.Request) error {
	form, err := toolForm(r)
	if err != nil {
		return err
	}
	if err := s.need(r, "workspace.tools", "workspace.tools_import"); err != nil {
		return err
	}
	if form.Grants, _, err = s.shareable(r, "tools", form.Grants); err != nil {
		return err
	}
	k, err := s.Tools.Create(r.Context(), s.caller(r).User, form)
	if err != nil {
		return err
	}
	return answer(w, 200, toolkit(k))
}

func (s *server) readTool(w http.ResponseWriter, r *http.Request) error {
	k, err := s.Tools.Toolkit(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	u := s.caller(r).User
	reads, err := s.Tools.Allows(r.Context(), u, k, access.Read)
	if err != nil {
		return err
	}
	if !reads {
		return fault.New(fault.Unauthorized, fault.TextProhibited)
	}
	writes, err := s.Tools.Allows(r.Context(), u, k, access.Write)
	if err != nil {
		return err
	}
	m := toolkit(k)
	m["user"], m["write_access"], m["specs"] = nil, writes, k.Specs
	if writes {
		if m["content"], err = s.Tools.Source(r.Context(), k.ID); err != nil {
			return err
		}
	}
	return answer(w, 200, m)
}

// changeFault is how changes of a toolkit are refused.
func changeFault(err error) error {
	err = instead(err, fault.NotFound, fault.Unauthorized, fault.TextNotFound)
	return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextUnauth)
}

func (s *server) updateTool(w http.ResponseWriter, r *http.Request) error {
	form, err := toolForm(r)
	if err != nil {
		return err
	}
	k, err := s.Tools.Update(r.Context(), s.caller(r).User, r.PathValue("id"), form)
	if err != nil {
		return changeFault(err)
	}
	return answer(w, 200, complete(k, form.Source))
}

func (s *server) grantTool(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	asked := f.grants("access_grants", true)
	if err := f.err(); err != nil {
		return err
	}
	u, id := s.caller(r).User, r.PathValue("id")
	k, err := s.Tools.Toolkit(r.Context(), id)
	if err != nil {
		return err
	}
	writes, err := s.Tools.Allows(r.Context(), u, k, access.Write)
	if err != nil {
		return err
	}
	if !writes {
		return fault.New(fault.Unauthorized, fault.TextUnauth)
	}
	allowed, all, err := s.shareable(r, "tools", asked)
	if err != nil {
		return err
	}
	if !all {
		return fault.New(fault.Forbidden, textAudience)
	}
	if k, err = s.Tools.Grant(r.Context(), u, id, allowed); err != nil {
		return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextUnauth)
	}
	source, err := s.Tools.Source(r.Context(), id)
	if err != nil {
		return err
	}
	return answer(w, 200, complete(k, source))
}

func (s *server) deleteTool(w http.ResponseWriter, r *http.Request) error {
	if err := s.Tools.Delete(r.Context(), s.caller(r).User, r.PathValue("id")); err != nil {
		return changeFault(err)
	}
	return answer(w, 200, true)
}

func (s *server) loadURL(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	given, ok := f.values["url"]
	if !ok {
		return fault.Fields(fault.MissingField(f.values, "body", "url"))
	}
	text, ok := given.(string)
	if !ok {
		return fault.Fields(fault.Field{Type: "url_type", Loc: []any{"body", "url"}, Msg: "URL input should be a string or URL", Input: given})
	}
	u, kind, err := tool.CheckURL(text)
	if err != nil {
		msg := "Input should be a valid URL, " + err.Error()
		if kind == "url_scheme" {
			msg = "URL scheme should be " + err.Error()
		}
		return fault.Fields(fault.Field{Type: kind, Loc: []any{"body", "url"}, Msg: msg, Input: text})
	}
	name, source, err := s.Tools.FetchURL(r.Context(), u)
	var status *tool.StatusError
	if errors.As(err, &status) && status.Status < 400 {
		return fault.Wrap(fault.BadGateway, status.Detail, err) // a redirect of theirs is not ours to send
	}
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"name": name, "content": source})
}

func (s *server) values(w http.ResponseWriter, r *http.Request, kind tool.ValvesKind) error {
	values, err := s.Tools.Values(r.Context(), s.caller(r).User, r.PathValue("id"), kind)
	if err != nil {
		return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextProhibited)
	}
	return answer(w, 200, values)
}

func (s *server) schema(w http.ResponseWriter, r *http.Request, kind tool.ValvesKind) error {
	schema, err := s.Tools.Schema(r.Context(), s.caller(r).User, r.PathValue("id"), kind)
	if err != nil {
		return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextProhibited)
	}
	return answer(w, 200, schema)
}

func (s *server) valves(w http.ResponseWriter, r *http.Request) error {
	return s.values(w, r, tool.Valves)
}
func (s *server) userValves(w http.ResponseWriter, r *http.Request) error {
	return s.values(w, r, tool.UserValves)
}
func (s *server) valvesSpec(w http.ResponseWriter, r *http.Request) error {
	return s.schema(w, r, tool.Valves)
}
func (s *server) userValvesSpec(w http.ResponseWriter, r *http.Request) error {
	return s.schema(w, r, tool.UserValves)
}

// given reads the body of a change of valves: an object, as it was sent.
func given(r *http.Request) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := decode(r, &raw); err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fault.Fields(fault.Field{Type: "dict_type", Loc: []any{"body"}, Msg: "Input should be a valid dictionary", Input: raw})
	}
	return raw, nil
}

func (s *server) updateValves(w http.ResponseWriter, r *http.Request) error {
	values, err := given(r)
	if err != nil {
		return err
	}
	made, err := s.Tools.SetValues(r.Context(), s.caller(r).User, r.PathValue("id"), tool.Valves, values)
	if err != nil {
		err = instead(err, fault.NotFound, fault.Unauthorized, fault.TextNotFound)
		return instead(err, fault.Forbidden, fault.Invalid, fault.TextProhibited)
	}
	return answer(w, 200, made)
}

func (s *server) updateUserValves(w http.ResponseWriter, r *http.Request) error {
	values, err := given(r)
	if err != nil {
		return err
	}
	made, err := s.Tools.SetValues(r.Context(), s.caller(r).User, r.PathValue("id"), tool.UserValves, values)
	if err != nil {
		return instead(err, fault.Forbidden, fault.Unauthorized, fault.TextProhibited)
	}
	return answer(w, 200, made)
}
