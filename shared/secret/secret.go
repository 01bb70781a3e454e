// Package secret holds the application's few secrets as SSM SecureStrings under one prefix:
//
//	<prefix>/signing-key   64 random bytes, base64: signs sessions and call tokens
//	<prefix>/data-key      32 random bytes, base64: AES-256-GCM key of what lies encrypted in the table
//	<prefix>/model-key     the model API's key, put there by the operator; may be absent
//
// The first two are made at first use, because a template cannot create SecureStrings: by a put that does not overwrite, and then
// read back, so however many functions start at once, all use the same keys. What was read is kept for the life of the Store; a
// model key that is absent or older than five minutes is looked up again.
package secret

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// Names of the parameters below the prefix.
const (
	signingKey = "signing-key"
	dataKey    = "data-key"
	modelKey   = "model-key"
)

// modelFor is how long a model key that was found is used without asking again; one that was not found is asked for again after
// modelMissingFor.
const (
	modelFor        = 5 * time.Minute
	modelMissingFor = 10 * time.Second
)

// ErrSealed says that a sealed text cannot be opened: it was changed, belongs to something else, or was sealed with another key.
var ErrSealed = errors.New("sealed text cannot be opened")

// Store reads and makes the secrets. It is safe for concurrent use.
type Store struct {
	client *ssm.Client
	prefix string

	mu      sync.Mutex // held over a look-up, so that concurrent callers cause one
	keys    map[string][]byte
	model   string
	modelAt time.Time // when to look again
}

// New returns the store of the secrets below prefix, for example "/toolrounds/main".
func New(client *ssm.Client, prefix string) *Store {
	return &Store{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", keys: map[string][]byte{}}
}

// Signing returns the key that signs, 64 bytes. The caller must not change it.
func (s *Store) Signing(ctx context.Context) ([]byte, error) { return s.key(ctx, signingKey, 64) }

// Model returns the key of the model API, "" when none is set.
func (s *Store) Model(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.modelAt) {
		return s.model, nil
	}
	value, ok, err := s.read(ctx, modelKey)
	if err != nil {
		return "", err
	}
	s.model, s.modelAt = value, now.Add(modelMissingFor)
	if ok {
		s.modelAt = now.Add(modelFor)
	}
	return value, nil
}

// SetModel stores the key of the model API. Other processes see it within five minutes.
func (s *Store) SetModel(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.client.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(s.prefix + modelKey), Value: &key, Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(true),
	})
	if err != nil {
		return fmt.Errorf("store secret %s: %w", modelKey, err)
	}
	s.model, s.modelAt = key, time.Now().Add(modelFor)
	return nil
}

// Seal encrypts and authenticates plain. About names what it belongs to (a record's key, say): Open must be told the same, so a
// sealed text that was moved to another record does not open. Each call gives another text.
func (s *Store) Seal(ctx context.Context, plain []byte, about string) ([]byte, error) {
	aead, err := s.aead(ctx)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce)
	return aead.Seal(nonce, nonce, plain, []byte(about)), nil
}

// Open returns what was sealed under the same about. Errors wrap ErrSealed, unless the key could not be read.
func (s *Store) Open(ctx context.Context, sealed []byte, about string) ([]byte, error) {
	aead, err := s.aead(ctx)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("%w: %d bytes", ErrSealed, len(sealed))
	}
	nonce, text := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	plain, err := aead.Open(nil, nonce, text, []byte(about))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return plain, nil
}

func (s *Store) aead(ctx context.Context) (cipher.AEAD, error) {
	key, err := s.key(ctx, dataKey, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", dataKey, err)
	}
	return cipher.NewGCM(block)
}

// key returns the random key of that name, which it makes when there is none yet.
func (s *Store) key(ctx context.Context, name string, size int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key, ok := s.keys[name]; ok {
		return key, nil
	}
	value, ok, err := s.read(ctx, name)
	if err == nil && !ok {
		if err = s.make(ctx, name, size); err == nil {
			value, ok, err = s.readNew(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("secret %s: made, but not to be read", name)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if err != nil {
		return nil, fmt.Errorf("secret %s is not base64: %w", name, err)
	}
	if len(key) != size {
		return nil, fmt.Errorf("secret %s has %d bytes, not %d", name, len(key), size)
	}
	s.keys[name] = key
	return key, nil
}

// make stores a fresh key unless somebody else did.
func (s *Store) make(ctx context.Context, name string, size int) error {
	key := make([]byte, size)
	rand.Read(key)
	_, err := s.client.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(s.prefix + name), Value: aws.String(base64.StdEncoding.EncodeToString(key)),
		Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(false),
	})
	var exists *types.ParameterAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("make secret %s: %w", name, err)
	}
	return nil
}

// readNew reads what was stored a moment ago: by the service's word it may take another moment to be seen.
func (s *Store) readNew(ctx context.Context, name string) (value string, ok bool, err error) {
	for range 10 {
		if value, ok, err = s.read(ctx, name); ok || err != nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", false, ctx.Err()
		}
	}
	return value, ok, err
}

func (s *Store) read(ctx context.Context, name string) (value string, ok bool, err error) {
	out, err := s.client.GetParameter(ctx, &ssm.GetParameterInput{
		Name: aws.String(s.prefix + name), WithDecryption: aws.Bool(true),
	})
	var missing *types.ParameterNotFound
	switch {
	case errors.As(err, &missing):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read secret %s: %w", name, err)
	}
	return aws.ToString(out.Parameter.Value), true, nil
}
