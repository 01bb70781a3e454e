package secret_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"toolrounds/shared/secret"
)

func client(t *testing.T) *ssm.Client {
	endpoint := os.Getenv("TEST_AWS_ENDPOINT")
	if endpoint == "" {
		t.Skip("TEST_AWS_ENDPOINT is not set")
	}
	return ssm.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// TestConcurrentStart has many processes start at once on an empty prefix: all come to the same keys.
func TestConcurrentStart(t *testing.T) {
	c, prefix := client(t), "/t/"+rand.Text()
	const starters = 10
	var signing, sealed [starters][]byte
	var wait sync.WaitGroup
	for i := range starters {
		wait.Go(func() {
			s := secret.New(c, prefix)
			var err error
			if signing[i], err = s.Signing(t.Context()); err != nil {
				t.Error(err)
			}
			if sealed[i], err = s.Seal(t.Context(), []byte("plain"), "about"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	s := secret.New(c, prefix)
	for i := range starters {
		if len(signing[i]) != 64 || !bytes.Equal(signing[i], signing[0]) {
			t.Errorf("signing key %d differs", i)
		}
		if plain, err := s.Open(t.Context(), sealed[i], "about"); err != nil || string(plain) != "plain" {
			t.Errorf("sealed by %d: %q, %v", i, plain, err)
		}
	}
}

func TestSeal(t *testing.T) {
	c, ctx := client(t), t.Context()
	s := secret.New(c, "/t/"+rand.Text()+"/")
	a, err := s.Seal(ctx, []byte("plain"), "TOOL#a")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := s.Seal(ctx, []byte("plain"), "TOOL#a")
	if bytes.Equal(a, b) || bytes.Contains(a, []byte("plain")) {
		t.Error("two seals are the same, or none")
	}
	if empty, err := s.Seal(ctx, nil, ""); err != nil {
		t.Error(err)
	} else if plain, err := s.Open(ctx, empty, ""); err != nil || len(plain) != 0 {
		t.Errorf("%q, %v", plain, err)
	}
	changed := bytes.Clone(a)
	changed[len(changed)-1] ^= 1
	other := secret.New(c, "/t/"+rand.Text())
	for name, open := range map[string]func() ([]byte, error){
		"another record": func() ([]byte, error) { return s.Open(ctx, a, "TOOL#b") },
		"changed":        func() ([]byte, error) { return s.Open(ctx, changed, "TOOL#a") },
		"short":          func() ([]byte, error) { return s.Open(ctx, a[:5], "TOOL#a") },
		"nothing":        func() ([]byte, error) { return s.Open(ctx, nil, "TOOL#a") },
		"another key":    func() ([]byte, error) { return other.Open(ctx, a, "TOOL#a") },
	} {
		if plain, err := open(); !errors.Is(err, secret.ErrSealed) {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
	}
}

func TestModel(t *testing.T) {
	c, ctx, prefix := client(t), t.Context(), "/t/"+rand.Text()
	s := secret.New(c, prefix)
	if key, err := s.Model(ctx); key != "" || err != nil {
		t.Errorf("absent: %q, %v", key, err)
	}
	if err := s.SetModel(ctx, "sk-1"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*secret.Store{"the same": s, "another": secret.New(c, prefix)} {
		if key, err := s.Model(ctx); key != "sk-1" || err != nil {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}
