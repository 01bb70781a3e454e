// Command field is the project's adapter for the field cases of ../shared/field: small inputs re-created from public bug reports,
// each with the right behaviour as checks.
//
//	go run ./tests/field CASE.json          prints the result document of the case as JSON
//	go run ./tests/field -kinds             prints the kinds that have an adapter, one a line
//
// A case has a kind (tool_call, model_stream, ...); one file of this package holds the adapter of one kind or of kinds that share
// their machinery. What an adapter has to give back per kind is the table in ../shared/field/README.md. The verdict on a result
// document is not ours: check.py beside that README compares, and TestCases runs every case through both.
//
// Exit status: 0 with a document on standard output; 1 with the reason on standard error when the case cannot be read, its kind
// has no adapter yet, or the adapter itself failed. A case whose tool or model fails is not a failure of the adapter: the document
// says what happened.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
)

// Case is one field case as far as the frame understands it; the adapter of the kind decodes Given.
type Case struct {
	ID    string          `json:"id"`
	Kind  string          `json:"kind"`
	Title string          `json:"title"`
	Level string          `json:"level"` // "must" or "should"
	Given json.RawMessage `json:"given"`
}

// Adapter plays one case and returns its result document: anything that encoding/json can encode. An error means that the case
// could not be played at all.
type Adapter func(ctx context.Context, c Case) (any, error)

// registry is the only package state: every file adds its kinds in its init, so that a kind is added by adding a file and two
// people who add kinds do not meet in one list. It is complete before main or a test starts and read-only from then on.
var registry = map[string]Adapter{}

// register announces the adapter of a kind. Call it from init only; a kind given twice is a programming error and panics.
func register(kind string, a Adapter) {
	if _, taken := registry[kind]; taken {
		panic("tests/field: kind " + kind + " registered twice")
	}
	registry[kind] = a
}

// kinds lists what is registered, sorted.
func kinds() []string {
	var list []string
	for kind := range registry {
		list = append(list, kind)
	}
	slices.Sort(list)
	return list
}

// errNoAdapter is what play returns for a kind that nobody has registered.
type errNoAdapter struct{ kind string }

func (e errNoAdapter) Error() string { return "kind " + e.kind + " has no adapter yet" }

// load reads one case file.
func load(path string) (Case, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Case{}, err
	}
	var c Case
	if err := json.Unmarshal(raw, &c); err != nil {
		return Case{}, fmt.Errorf("case %s: %w", path, err)
	}
	if c.Kind == "" {
		return Case{}, fmt.Errorf("case %s: no kind", path)
	}
	return c, nil
}

// play runs a case through the adapter of its kind and returns the result document as indented JSON, ending in a newline.
func play(ctx context.Context, c Case) ([]byte, error) {
	adapter, ok := registry[c.Kind]
	if !ok {
		return nil, errNoAdapter{c.Kind}
	}
	doc, err := adapter(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a document shows text as the user would see it
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("case %s: encode the result: %w", c.ID, err)
	}
	return b.Bytes(), nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "field:", err)
		stop()
		os.Exit(1)
	}
}

// run is main without the process around it.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: field CASE.json | field -kinds")
	}
	if args[0] == "-kinds" {
		for _, kind := range kinds() {
			fmt.Fprintln(out, kind)
		}
		return nil
	}
	c, err := load(args[0])
	if err != nil {
		return err
	}
	doc, err := play(ctx, c)
	if err != nil {
		return err
	}
	_, err = out.Write(doc)
	return err
}
