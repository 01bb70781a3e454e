package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/folder"
)

// inFolder checks the folder that a new chat is to be in: one of the user's own. Fault: NotFound.
func (a *acceptance) inFolder(ctx context.Context) (string, error) {
	id := text(a.body, "folder_id")
	if id == "" || a.Folders == nil {
		return "", nil
	}
	_, found, err := a.Folders.Find(ctx, a.user.ID, id)
	if err == nil && !found {
		err = fault.New(fault.NotFound, fault.TextNotFound)
	}
	return id, err
}

// folder is the folder that applies to a request: the one that its chat is in now, or, where nothing is stored of the chat, the one
// that the request names. It is empty when there is none, or none of this user's.
func (s *Service) folder(ctx context.Context, u access.User, req Request) (folder.Folder, error) {
	if s.Folders == nil {
		return folder.Folder{}, nil
	}
	id := text(req.Body, "folder_id")
	if req.Saved {
		c, _, err := s.Chats.Head(ctx, req.Chat)
		if err != nil {
			return folder.Folder{}, fmt.Errorf("read chat: %w", err)
		}
		id = c.Folder
	}
	if id == "" {
		return folder.Folder{}, nil
	}
	f, _, err := s.Folders.Find(ctx, u.ID, id)
	return f, err
}

// withTools is the request with more tools than it names itself.
func (r Request) withTools(ids []string) Request {
	named := strs(list(r.Body, "tool_ids"))
	all := list(r.Body, "tool_ids")
	for _, id := range ids {
		if !slices.Contains(named, id) {
			named, all = append(named, id), append(slices.Clip(all), any(id))
		}
	}
	if len(all) == 0 {
		return r
	}
	r.Body = maps.Clone(r.Body)
	r.Body["tool_ids"] = all
	return r
}
