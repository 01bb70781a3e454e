// Package file keeps the files that tools make: images so far. A file belongs to one user, and only he and administrators read it.
package file

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// File is one stored file.
type File struct {
	ID, UserID, Type string
	Created          int64 // Unix seconds
	Content          []byte
}

// Store keeps files in the table.
type Store struct {
	Table table.Table
	Now   func() time.Time
}

// Save stores a data URI as a file of the user and returns its URL, a path on this server. The same content is the same file. What is
// no base64 data URI is returned as it is: it is a URL already.
func (s *Store) Save(ctx context.Context, user, dataURI string) (string, error) {
	head, encoded, ok := strings.Cut(dataURI, ",")
	kind, isBase64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	if !ok || !strings.HasPrefix(head, "data:") || !isBase64 {
		return dataURI, nil
	}
	content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return dataURI, nil
	}
	sum := sha256.Sum256(append([]byte(user+"\x00"+kind+"\x00"), content...))
	id := hex.EncodeToString(sum[:16])
	now := s.Now()
	item := table.Item{Key: table.File(id), IndexPK: table.UserFiles(user), IndexSK: fmt.Sprintf("%013d#%s", now.UnixMilli(), id), Attr: map[string]any{
		"user": user, "type": kind, "created": now.Unix(), "content": table.Blob(content),
	}}
	if _, err := s.Table.Apply(ctx, table.Put(item)); err != nil {
		return "", fmt.Errorf("store file: %w", err)
	}
	return "/api/v1/files/" + id + "/content", nil
}

// Read returns a file that the user may see; NotFound for any other.
func (s *Store) Read(ctx context.Context, u access.User, id string) (File, error) {
	item, ok, err := table.One(ctx, s.Table, table.File(id))
	if err != nil {
		return File{}, err
	}
	if !ok || item.String("user") != u.ID && !u.Admin() {
		return File{}, fault.New(fault.NotFound, fault.TextNotFound)
	}
	content, _ := item.Attr["content"].(table.Blob)
	return File{ID: id, UserID: item.String("user"), Type: item.String("type"), Created: item.Int("created"), Content: content}, nil
}
