package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"toolrounds/shared/access"
	"toolrounds/shared/chat"
	"toolrounds/shared/fault"
	"toolrounds/shared/folder"
)

func (s *server) folderRoutes() []Route {
	return []Route{
		// Folders of chats, as the reference has them; sharing them is not built.
		{"GET", "/api/v1/folders", User, s.withFolders(s.listFolders)},
		{"POST", "/api/v1/folders", User, s.withFolders(s.createFolder)},
		{"GET", "/api/v1/folders/{id}", User, s.withFolders(s.readFolder)},
		{"POST", "/api/v1/folders/{id}/update", User, s.withFolders(s.updateFolder)},
		{"POST", "/api/v1/folders/{id}/update/parent", User, s.withFolders(s.moveFolder)},
		{"POST", "/api/v1/folders/{id}/update/expanded", User, s.withFolders(s.expandFolder)},
		{"DELETE", "/api/v1/folders/{id}", User, s.withFolders(s.deleteFolder)},
		{"GET", "/api/v1/chats/folder/{id}/list", User, s.folderChatList},
		{"POST", "/api/v1/chats/{id}/folder", User, s.putIntoFolder},
	}
}

// withFolders lets those in who may use folders.
func (s *server) withFolders(next func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		settings, err := s.Accounts.Settings(r.Context())
		if err != nil {
			return err
		}
		if on, _ := settings.Admin["ENABLE_FOLDERS"].(bool); !on {
			return fault.New(fault.Forbidden, fault.TextProhibited)
		}
		if err := s.granted(r, "features.folders"); err != nil {
			return err
		}
		return next(w, r)
	}
}

// granted is the fault of a caller who is no administrator and lacks the permission.
func (s *server) granted(r *http.Request, permission string) error {
	_, ok, err := s.permitted(r, permission)
	if err == nil && !ok {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	return err
}

func (s *server) listFolders(w http.ResponseWriter, r *http.Request) error {
	u := s.caller(r).User
	all, err := s.Folders.List(r.Context(), u.ID)
	if err != nil {
		return err
	}
	chats, err := s.Chats.Store.List(r.Context(), u.ID, chat.Page{}, func(c chat.Chat) bool {
		return c.Folder != "" && !c.Archived && c.Read < c.Updated
	})
	if err != nil {
		return err
	}
	entries := []map[string]any{}
	for _, f := range all {
		below, unread := folder.Within(all, f.ID), 0
		for _, c := range chats {
			if slices.Contains(below, c.Folder) {
				unread++
			}
		}
		var meta map[string]any
		if f.Meta != nil {
			meta = map[string]any{"icon": f.Meta["icon"]}
		}
		entries = append(entries, map[string]any{"id": f.ID, "name": f.Name, "meta": meta, "parent_id": f.ParentID,
			"is_expanded": f.Expanded, "unread_count": unread, "created_at": f.CreatedAt, "updated_at": f.UpdatedAt})
	}
	return s.answer(w, http.StatusOK, entries)
}

// folderForm reads the fields that a folder's forms share; other fields than these and more are refused.
func folderForm(f form, more ...string) folder.Form {
	given := folder.Form{Data: f.objectOrNil("data"), Meta: f.objectOrNil("meta")}
	f.only(append(more, "name", "data", "meta")...)
	return given
}

func (s *server) createFolder(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	name, parent, form := f.text("name"), f.textOrNil("parent_id"), folderForm(f, "parent_id")
	if err := f.err(); err != nil {
		return err
	}
	made, err := s.Folders.Create(r.Context(), s.caller(r).User.ID, name, parent, form)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, made)
}

func (s *server) readFolder(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Folders.Get(r.Context(), s.caller(r).User.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, struct {
		folder.Folder
		Grants []access.Grant `json:"access_grants"`
		Write  bool           `json:"write_access"`
	}{found, []access.Grant{}, true})
}

func (s *server) updateFolder(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	name, form := f.textOrNil("name"), folderForm(f)
	if err := f.err(); err != nil {
		return err
	}
	form.Name = name
	changed, err := s.Folders.Update(r.Context(), s.caller(r).User.ID, r.PathValue("id"), form)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, changed)
}

func (s *server) moveFolder(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	parent := f.textOrNil("parent_id")
	if err := f.err(); err != nil {
		return err
	}
	moved, err := s.Folders.Move(r.Context(), s.caller(r).User.ID, r.PathValue("id"), parent)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, moved)
}

func (s *server) expandFolder(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	if _, given := f.values["is_expanded"]; !given {
		f.missing("is_expanded")
	}
	expanded := f.flag("is_expanded", false)
	if err := f.err(); err != nil {
		return err
	}
	changed, err := s.Folders.Expand(r.Context(), s.caller(r).User.ID, r.PathValue("id"), expanded)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, changed)
}

// deleteFolder removes a folder with all below it, and the chats in them, unless delete_contents=false: then they are in no folder. The
// folders go last, so that what was cut off can be done again.
func (s *server) deleteFolder(w http.ResponseWriter, r *http.Request) error {
	u := s.caller(r).User
	contents := true
	if v := r.URL.Query().Get("delete_contents"); v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return fault.Fields(fault.Field{Type: "bool_parsing", Loc: []any{"query", "delete_contents"},
				Msg: "Input should be a valid boolean, unable to interpret input", Input: v})
		}
		contents = on
	}
	found, err := s.Folders.Get(r.Context(), u.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	all, err := s.Folders.List(r.Context(), u.ID)
	if err != nil {
		return err
	}
	ids := folder.Within(all, found.ID)
	chats, err := s.Chats.Store.List(r.Context(), u.ID, chat.Page{}, func(c chat.Chat) bool { return slices.Contains(ids, c.Folder) })
	if err != nil {
		return err
	}
	if contents && len(chats) > 0 {
		if err := s.granted(r, "chat.delete"); err != nil {
			return err
		}
	}
	for _, c := range chats {
		if contents {
			err = s.dropChat(r.Context(), c.ID)
		} else {
			err = s.Chats.Store.Move(r.Context(), c.ID, "")
		}
		if err != nil {
			return err
		}
	}
	if err := s.Folders.Delete(r.Context(), u.ID, ids); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, true)
}

// dropChat deletes a chat with all that its runs have left.
func (s *server) dropChat(ctx context.Context, id string) error {
	tree, err := s.Chats.Store.Tree(ctx, id)
	if err != nil || tree == nil {
		return err
	}
	if err := s.Chats.Store.Delete(ctx, id, s.Chats.Purge); err != nil {
		return err
	}
	return s.Chats.Runs.Forget(ctx, tree, s.Chats.Purge)
}

// chatPart serves chats/folder/{id} and chats/{id}/tags, between which ServeMux cannot choose: both match chats/folder/tags.
func (s *server) chatPart(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.PathValue("id") == "folder":
		return s.folderChats(w, r)
	case r.PathValue("part") == "tags":
		return s.chatTags(w, r)
	}
	return fault.New(fault.NotFound, "Not Found")
}

// folderChats lists the caller's chats in a folder and below it, whole. Of a folder that is not the caller's there are none.
func (s *server) folderChats(w http.ResponseWriter, r *http.Request) error {
	u := s.caller(r).User
	all, err := s.Folders.List(r.Context(), u.ID)
	if err != nil {
		return err
	}
	ids := folder.Within(all, r.PathValue("part"))
	chats, err := s.Chats.Store.List(r.Context(), u.ID, chat.Page{}, func(c chat.Chat) bool {
		return slices.Contains(ids, c.Folder) && !c.Archived
	})
	if err != nil {
		return err
	}
	records := []map[string]any{}
	for _, c := range chats {
		tree, err := s.Chats.Store.Tree(r.Context(), c.ID)
		if err != nil {
			return err
		}
		if tree == nil {
			continue // deleted in between
		}
		if err := s.Chats.Runs.Overlay(r.Context(), tree); err != nil {
			return err
		}
		records = append(records, chatRecord(tree, false))
	}
	return s.answer(w, http.StatusOK, records)
}

// folderPage is how many chats a page of a folder's list holds.
const folderPage = 10

func (s *server) folderChatList(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	return s.chatList(w, r, chat.Page{Number: max(page, 1), Size: folderPage}, func(c chat.Chat) bool { return c.Folder == id && !c.Archived })
}

// putIntoFolder puts a chat of the caller into one of the caller's folders, or with null into none.
func (s *server) putIntoFolder(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	into := f.textOrNil("folder_id")
	if err := f.err(); err != nil {
		return err
	}
	u := s.caller(r).User
	tree, err := s.ownTree(r.Context(), u, r.PathValue("id"))
	if err != nil && fault.CodeOf(err) == fault.Internal {
		return err
	}
	if err != nil || tree.Chat.UserID != u.ID {
		return fault.New(fault.Unauthorized, textDefault)
	}
	id := ""
	if into != nil {
		if _, err := s.Folders.Get(r.Context(), u.ID, *into); err != nil {
			return err
		}
		id = *into
	}
	if err := s.Chats.Store.Move(r.Context(), tree.Chat.ID, id); err != nil {
		return err
	}
	if tree, err = s.ownTree(r.Context(), u, tree.Chat.ID); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, chatRecord(tree, false))
}

// textDefault is the reference's refusal without a reason.
const textDefault = "Something went wrong :/"
