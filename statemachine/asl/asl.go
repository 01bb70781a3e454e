// Package asl reads state machine definitions, says what is wrong with them, and carries them out in the process of a test: the
// definition that is deployed is the one that is tried. It knows the part of the Amazon States Language that the project uses, with
// JSONata, and refuses the rest, so that nothing in a definition goes unnoticed.
package asl

import (
	"bytes"
	"fmt"
	"os"

	"gopkg.in/yaml.v3"
)

// Definition is a state machine, or the part of one that a Map repeats.
type Definition struct {
	Comment         string            `yaml:"Comment"`
	QueryLanguage   string            `yaml:"QueryLanguage"`
	ProcessorConfig *ProcessorConfig  `yaml:"ProcessorConfig"`
	StartAt         string            `yaml:"StartAt"`
	States          map[string]*State `yaml:"States"`
}

// ProcessorConfig says how a Map runs its items.
type ProcessorConfig struct {
	Mode string `yaml:"Mode"`
}

// State is one state. Which fields count depends on its Type.
type State struct {
	Type           string      `yaml:"Type"`
	Comment        string      `yaml:"Comment"`
	Resource       string      `yaml:"Resource"`
	TimeoutSeconds int         `yaml:"TimeoutSeconds"`
	Arguments      *Arguments  `yaml:"Arguments"`
	Output         string      `yaml:"Output"`
	Retry          []Retry     `yaml:"Retry"`
	Catch          []Catch     `yaml:"Catch"`
	Next           string      `yaml:"Next"`
	End            bool        `yaml:"End"`
	Choices        []Choice    `yaml:"Choices"`
	Default        string      `yaml:"Default"`
	Items          string      `yaml:"Items"`
	MaxConcurrency int         `yaml:"MaxConcurrency"`
	ItemProcessor  *Definition `yaml:"ItemProcessor"`
	Error          string      `yaml:"Error"`
	Cause          string      `yaml:"Cause"`
}

// Arguments are those of a Lambda invocation.
type Arguments struct {
	FunctionName string `yaml:"FunctionName"` // ${…}, a substitution
	Payload      string `yaml:"Payload"`
}

// Retry says which errors are tried again, and how often.
type Retry struct {
	ErrorEquals     []string `yaml:"ErrorEquals"`
	IntervalSeconds int      `yaml:"IntervalSeconds"`
	BackoffRate     float64  `yaml:"BackoffRate"`
	MaxAttempts     *int     `yaml:"MaxAttempts"`
	MaxDelaySeconds int      `yaml:"MaxDelaySeconds"`
	JitterStrategy  string   `yaml:"JitterStrategy"`
}

// Catch says where errors lead.
type Catch struct {
	ErrorEquals []string `yaml:"ErrorEquals"`
	Output      string   `yaml:"Output"`
	Next        string   `yaml:"Next"`
}

// Choice is one branch.
type Choice struct {
	Condition string `yaml:"Condition"`
	Next      string `yaml:"Next"`
}

// Load reads a definition from a file.
func Load(path string) (*Definition, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(raw)
}

// Parse reads a definition. A field that this package does not know is an error.
func Parse(raw []byte) (*Definition, error) {
	d := &Definition{}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	return d, nil
}

// Function is the name of the substitution that a Task invokes, without ${}.
func (s *State) Function() string {
	if s.Arguments == nil || len(s.Arguments.FunctionName) < 4 {
		return ""
	}
	name := s.Arguments.FunctionName
	if name[:2] != "${" || name[len(name)-1] != '}' {
		return ""
	}
	return name[2 : len(name)-1]
}

// targets are the states that may follow, those of the Catch included.
func (s *State) targets() []string {
	var out []string
	for _, t := range append([]string{s.Next, s.Default}, s.caught()...) {
		if t != "" {
			out = append(out, t)
		}
	}
	for _, c := range s.Choices {
		out = append(out, c.Next)
	}
	return out
}

func (s *State) caught() []string {
	var out []string
	for _, c := range s.Catch {
		out = append(out, c.Next)
	}
	return out
}
