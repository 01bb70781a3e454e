package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// The texts of refusals about API keys.
const (
	textNoKeys  = "Use of API key is not enabled in the environment."
	textNoKey   = "Oops! It looks like there's a hiccup. The API key is missing. Please make sure to provide a valid API key to access this feature."
	textExpired = "Your session has expired or the token is invalid. Please sign in again."
)

// keyPrefix begins every API key; 32 hex digits follow.
const keyPrefix = "sk-"

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func aboutKey(user string) string { return "api-key/" + user }

// keyCond is the condition that an account's key record is still the one that was read.
func keyCond(item table.Item) table.Cond {
	if hash := item.String("hash"); hash != "" {
		return table.Is("hash", hash)
	}
	return table.New()
}

// Key reads back an account's API key. None is fault.NotFound.
func (a *Accounts) Key(ctx context.Context, user string) (string, error) {
	item, ok, err := table.One(ctx, a.table, table.UserKey(user))
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if !ok {
		return "", fault.New(fault.NotFound, textNoKey)
	}
	sealed, _ := item.Attr["sealed"].(table.Blob)
	plain, err := a.seal.Open(ctx, sealed, aboutKey(user))
	if err != nil {
		return "", fmt.Errorf("open key: %w", err)
	}
	return string(plain), nil
}

// ReplaceKey gives an account a new API key; the old one is refused from then on. Without the right to keys it is fault.Forbidden.
func (a *Accounts) ReplaceKey(ctx context.Context, u User) (string, error) {
	s, err := a.Settings(ctx)
	if err != nil {
		return "", err
	}
	if err := a.mayUseKeys(ctx, u, s); err != nil {
		return "", err
	}
	return a.replaceKey(ctx, u.ID)
}

func (a *Accounts) mayUseKeys(ctx context.Context, u User, s Settings) error {
	if !s.APIKeys() {
		return fault.New(fault.Forbidden, textNoKeys)
	}
	if u.Admin() || s.Default.Has("features.api_keys") {
		return nil
	}
	p, err := a.merged(ctx, u, s)
	if err != nil {
		return err
	}
	if !p.Has("features.api_keys") {
		return fault.New(fault.Forbidden, textNoKeys)
	}
	return nil
}

func (a *Accounts) replaceKey(ctx context.Context, user string) (string, error) {
	var random [16]byte
	rand.Read(random[:]) // never fails
	key := keyPrefix + hex.EncodeToString(random[:])
	hash := keyHash(key)
	sealed, err := a.seal.Seal(ctx, []byte(key), aboutKey(user))
	if err != nil {
		return "", fmt.Errorf("seal key: %w", err)
	}
	for range attempts {
		old, _, err := table.One(ctx, a.table, table.UserKey(user))
		if err != nil {
			return "", fmt.Errorf("read key: %w", err)
		}
		ops := []table.Op{
			table.Check(table.User(user), table.Must()),
			table.Put(table.Item{Key: table.UserKey(user), Attr: map[string]any{"hash": hash, "sealed": table.Blob(sealed),
				"created": a.now()}}, keyCond(old)),
			table.Put(table.Item{Key: table.APIKey(hash), Attr: map[string]any{"user": user, "created": a.now()}}, table.New()),
		}
		if h := old.String("hash"); h != "" {
			ops = append(ops, table.Delete(table.APIKey(h)))
		}
		err = a.table.Transact(ctx, ops...)
		switch {
		case err == nil:
			return key, nil
		case table.FailedOn(err, table.User(user)):
			return "", fault.New(fault.NotFound, fault.TextNotFound)
		case !errors.Is(err, table.ErrCondition):
			return "", fmt.Errorf("store key: %w", err)
		}
	}
	return "", errBusy
}

// DeleteKey takes an account's API key away; it is refused from then on. Without one it does nothing.
func (a *Accounts) DeleteKey(ctx context.Context, user string) error {
	for range attempts {
		old, ok, err := table.One(ctx, a.table, table.UserKey(user))
		if err != nil {
			return fmt.Errorf("read key: %w", err)
		}
		if !ok {
			return nil
		}
		err = a.table.Transact(ctx, table.Delete(table.UserKey(user), keyCond(old)), table.Delete(table.APIKey(old.String("hash"))))
		if err == nil {
			return nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return fmt.Errorf("delete key: %w", err)
		}
	}
	return errBusy
}

// maxKnown bounds what is remembered of keys, so that a flood of valid keys cannot fill the memory.
const maxKnown = 10_000

func (a *Accounts) owner(hash string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[hash]
}

func (a *Accounts) remember(hash, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[hash] = user
}
