package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sharedDir is the folder with the field cases: $SHARED_DIR, else the one beside the repository. It may be relative to this
// package's folder.
func sharedDir() string {
	if dir := os.Getenv("SHARED_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared")
}

// TestCases plays every field case whose kind has an adapter and asks check.py for the verdict. The checker is called and not
// rewritten: it is the definition of right, and a second one in Go could only ever disagree with it. A failed case of level must
// fails the test, one of level should is logged, a kind without an adapter is skipped by name.
func TestCases(t *testing.T) {
	field := filepath.Join(sharedDir(), "field")
	files, err := filepath.Glob(filepath.Join(field, "cases", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 && os.Getenv("SHARED_DIR") != "" {
		t.Fatalf("no field cases in %s, which SHARED_DIR names", field)
	}
	if len(files) == 0 {
		t.Skipf("no field cases in %s: set SHARED_DIR", field)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there, and check.py needs it")
	}
	for _, file := range files {
		c, err := load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(c.Kind+"/"+c.ID, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			doc, err := play(ctx, c)
			if missing := (errNoAdapter{}); errors.As(err, &missing) {
				t.Skip(missing)
			}
			if err != nil {
				t.Fatal(err)
			}
			bad := verdict(t, python, filepath.Join(field, "check.py"), file, doc)
			if len(bad) == 0 {
				return
			}
			report := t.Errorf
			if c.Level == "should" {
				report = t.Logf
			}
			report("%s (%s)\n  failed checks [path, op, wanted, got]:\n  %s\n%s", c.Title, c.Level, strings.Join(bad, "\n  "), clip(doc, 4000))
		})
	}
}

// verdict returns the failed checks, each as one line of JSON.
func verdict(t *testing.T, python, checker, file string, doc []byte) []string {
	t.Helper()
	result := filepath.Join(t.TempDir(), "result.json")
	if err := os.WriteFile(result, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, trouble bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, checker, file, result)
	cmd.Stdout, cmd.Stderr = &out, &trouble
	// Exit status 1 is "some check failed"; what counts is whether the list came.
	runErr := cmd.Run()
	var failed []json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &failed); err != nil {
		t.Fatalf("check.py gave no verdict (%v): %s", runErr, trouble.Bytes())
	}
	var lines []string
	for _, f := range failed {
		var line bytes.Buffer
		if err := json.Compact(&line, f); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line.String())
	}
	return lines
}

func clip(b []byte, max int) []byte {
	if len(b) <= max {
		return b
	}
	return append(append([]byte{}, b[:max]...), "..."...)
}

func TestUnknownKind(t *testing.T) {
	_, err := play(t.Context(), Case{ID: "x", Kind: "telepathy"})
	if err == nil || err.Error() != "kind telepathy has no adapter yet" {
		t.Fatalf("got %v", err)
	}
}
