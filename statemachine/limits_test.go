package statemachine

import (
	"os"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"toolrounds/shared/run"
	"toolrounds/statemachine/asl"
)

// resource is what this test reads of the template.
type resource struct {
	Properties struct {
		Timeout                 int               `yaml:"Timeout"`
		DefinitionSubstitutions map[string]string `yaml:"DefinitionSubstitutions"`
	} `yaml:"Properties"`
}

type template struct {
	Parameters map[string]struct {
		MaxValue int `yaml:"MaxValue"`
	} `yaml:"Parameters"`
	Resources map[string]yaml.Node `yaml:"Resources"`
}

// timeouts are the functions' limits by the substitution that names them, and all by their logical ids.
func timeouts(t *testing.T) (bySubstitution, byID map[string]int, toolSeconds int) {
	t.Helper()
	raw, err := os.ReadFile("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tpl template
	if err := yaml.Unmarshal(raw, &tpl); err != nil {
		t.Fatal(err)
	}
	bySubstitution, byID = map[string]int{}, map[string]int{}
	var machine resource
	for id, node := range tpl.Resources {
		var r resource
		if err := node.Decode(&r); err != nil {
			continue // a resource of another shape
		}
		if id == "Machine" {
			machine = r
		}
		byID[id] = r.Properties.Timeout
	}
	for name, value := range machine.Properties.DefinitionSubstitutions {
		id := strings.TrimSuffix(value, ".Arn") // !GetAtt Prepare.Arn
		if seconds := byID[id]; seconds > 0 {
			bySubstitution[name] = seconds
		}
	}
	return bySubstitution, byID, tpl.Parameters["ToolSeconds"].MaxValue
}

// The limits of time nest: whoever waits outlives what it waits for, so that a limit is told and not cut off.
func TestLimitsNest(t *testing.T) {
	d := load(t)
	function, all, tool := timeouts(t)
	state := func(name string) int { return d.States[name].TimeoutSeconds }
	runTool := d.States["RunTools"].ItemProcessor.States["RunTool"]
	nested := func(what string, limits ...int) {
		t.Helper()
		for i, l := range limits {
			if l <= 0 || i > 0 && l <= limits[i-1] {
				t.Errorf("%s: %v does not rise", what, limits)
			}
		}
	}
	nested("a tool, its container, the dispatcher, the state", tool, all["Toolbox"], function["ToolFunctionArn"], runTool.TimeoutSeconds)
	nested("the same with an image", tool, all["ToolboxImage"], function["ToolFunctionArn"])
	nested("the model, its step, the state", int(run.ModelLimit/time.Second), function["ModelFunctionArn"], state("CallModel"))
	nested("prepare, the state", function["PrepareFunctionArn"], state("Prepare"))
	nested("the last states", state("Finish"), state("Background"), function["FinishFunctionArn"])
}

// Every function that the machine names is one that the template passes to it.
func TestSubstitutions(t *testing.T) {
	function, _, _ := timeouts(t)
	used := map[string]bool{}
	var walk func(d *asl.Definition)
	walk = func(d *asl.Definition) {
		for name, s := range d.States {
			if s.ItemProcessor != nil {
				walk(s.ItemProcessor)
			}
			if s.Type != "Task" {
				continue
			}
			used[s.Function()] = true
			if function[s.Function()] == 0 {
				t.Errorf("%s invokes %q, which the template does not pass", name, s.Function())
			}
		}
	}
	walk(load(t))
	for name := range function {
		if !used[name] {
			t.Errorf("the template passes %s, which no state invokes", name)
		}
	}
}
