// Package statemachine tests the machine's definition: what its graph promises, and that its parts and the template agree.
package statemachine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"toolrounds/shared/turn"
	"toolrounds/statemachine/asl"
)

const file = "completion.asl.yaml"

// rules are the promises of the graph (promises.md, layer 3). Continue ends its execution, because the next one goes on; Finish,
// Background and what follows them are beyond: there the sweeper takes over.
var rules = asl.Rules{End: "Finish", HandsOver: []string{"Continue"}, Beyond: []string{"Finish", "Background"}, Paced: "CallModel"}

func load(t *testing.T) *asl.Definition {
	t.Helper()
	d, err := asl.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGraph(t *testing.T) {
	for _, problem := range asl.Check(load(t), rules) {
		t.Error(problem)
	}
}

// Both ways to run a round's calls are the same.
func TestBothMapsAreOne(t *testing.T) {
	d := load(t)
	a, b := *d.States["RunTools"], *d.States["RunToolsThenContinue"]
	if a.Next == b.Next {
		t.Error("both go on the same way")
	}
	a.Next, b.Next, a.Comment, b.Comment = "", "", "", ""
	if !reflect.DeepEqual(a, b) {
		t.Error("RunTools and RunToolsThenContinue differ")
	}
}

// Each defect must be found.
func TestDefects(t *testing.T) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, problem string }{
		{"no limit of time", "    TimeoutSeconds: 910\n", "", "CallModel: no TimeoutSeconds"},
		{"no limit of time within a Map", "          TimeoutSeconds: 700\n", "", "RunTools/RunTool: no TimeoutSeconds"},
		{"retries without end", "        MaxAttempts: 3\n", "", "Retry without MaxAttempts"},
		{"too many retries", "        MaxAttempts: 3\n", "        MaxAttempts: 99\n", "Retry without MaxAttempts"},
		{"everything is retried", "          - PlatformError\n", "          - States.ALL\n", "Retry of States.ALL"},
		{"a timeout is retried", "          - Sandbox.Timedout\n", "          - States.Timeout\n", "Retry of States.Timeout"},
		{"not everything is caught", "          - States.ALL\n", "          - PlatformError\n", "no Catch of States.ALL"},
		{"a failure leads past the end", "        Next: Finish\n    Next: CanBegin", "        Next: Done\n    Next: CanBegin", "Prepare: a failure leads to Done"},
		{"a failure is not told", `{"error": "The run was interrupted: " & $states.errorOutput.Error, "cause"`, `{"cause"`, "caught and not told"},
		{"a way past the end", "    Default: Finish\n  RunTools:", "    Default: Done\n  RunTools:", "Done: a path ends here without Finish"},
		{"a target that is not there", "    Next: WhatNext\n", "    Next: WhatElse\n", `leads to "WhatElse"`},
		{"a state that nothing leads to", "StartAt: Prepare", "StartAt: CallModel", "Prepare: no path leads here"},
		{"no start", "StartAt: Prepare", "StartAt: Nowhere", `no state "Nowhere"`},
		{"a circle that nobody counts", "    Next: CallModel\n  RunToolsThenContinue:", "    Next: WhatNext\n  RunToolsThenContinue:", "a circle leads back here"},
		{"a choice that may fail", "    Default: Done\n", "", "without Default"},
		{"neither on nor at an end", "    Output: '{% {} %}'\n    Retry:\n      - ErrorEquals:\n          - Lambda.ServiceException", "    Output: '{% {} %}'\n    Next: Done\n    Retry:\n      - ErrorEquals:\n          - Lambda.ServiceException", "either go on or end"},
		{"calls side by side without bound", "    MaxConcurrency: 40\n", "", "MaxConcurrency is not bounded"},
		{"an expression that breaks off", `{% $states.input.calls %}`, `{% $states.input.calls & %}`, "Items"},
		{"an unknown function", `$merge([$states.input, {"step": "finish"}])`, `$uppercase([$states.input, {"step": "finish"}])`, "uppercase"},
		{"a key that nobody knows", "    TimeoutSeconds: 910\n", "    TimeoutSecond: 910\n", "TimeoutSecond"},
		{"no comment", "    Comment: shared/turn has decided.\n", "", "WhatNext: no Comment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defective := bytes.Replace(raw, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(raw, defective) {
				t.Fatalf("the definition has no %q any more", c.old)
			}
			var problems []string
			if d, err := asl.Parse(defective); err != nil {
				problems = []string{err.Error()}
			} else {
				problems = asl.Check(d, rules)
			}
			told := strings.Join(problems, "\n")
			if c.problem == "Items" {
				c.problem = "not understood"
			}
			if !strings.Contains(told, c.problem) {
				t.Errorf("%q is not among the problems:\n%s", c.problem, told)
			}
		})
	}
}

// stub carries out the machine with functions that only count: rounds rounds of calls calls each.
func stub(t *testing.T, rounds, calls int, fail func(function string) error) (*asl.Execution, error) {
	t.Helper()
	execution := &asl.Execution{}
	step := func(function string, do func(in map[string]any) any) asl.Task {
		return func(payload json.RawMessage) (any, error) {
			if err := fail(function); err != nil {
				return nil, err
			}
			in := map[string]any{}
			if err := json.Unmarshal(payload, &in); err != nil {
				return nil, err
			}
			return do(in), nil
		}
	}
	m := &asl.Machine{Definition: load(t), Tasks: map[string]asl.Task{
		"PrepareFunctionArn": step("Prepare", func(in map[string]any) any { in["next"] = turn.Tools; return in }),
		"ModelFunctionArn": step("Model", func(in map[string]any) any {
			made := []any{}
			in["next"] = turn.Finish
			if round := in["round"].(float64); int(round) < rounds {
				in["next"], in["round"] = turn.Tools, round+1
				for range calls {
					made = append(made, map[string]any{"index": len(made)})
				}
			}
			in["calls"] = made
			return in
		}),
		"ToolFunctionArn":   step("Tool", func(map[string]any) any { return map[string]any{} }),
		"FinishFunctionArn": step("Finish", func(in map[string]any) any { return map[string]any{"background": in["step"] == "finish"} }),
	}}
	var err error
	synctest.Test(t, func(t *testing.T) {
		_, err = m.Run(context.Background(), execution, map[string]any{"run": "r", "round": 0})
	})
	return execution, err
}

func never(string) error { return nil }

// The budget by which shared/turn decides when a new execution goes on is what the machine really spends.
func TestEventBudget(t *testing.T) {
	for _, calls := range []int{1, 3, 41} {
		one, err := stub(t, 1, calls, never)
		if err != nil {
			t.Fatal(err)
		}
		three, err := stub(t, 3, calls, never)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := three.Events()-one.Events(), 2*turn.Events(calls); got != want {
			t.Errorf("two more rounds of %d calls cost %d events, turn.Events says %d", calls, got, want)
		}
	}
}

func TestPath(t *testing.T) {
	e, err := stub(t, 1, 2, never)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Prepare", "CanBegin", "CallModel", "WhatNext", "RunTools", "RunTool", "RunTool", "CallModel", "WhatNext", "Finish", "Anything",
		"Background", "Done",
	}
	if !slices.Equal(e.Path(), want) {
		t.Errorf("path %v, want %v", e.Path(), want)
	}
}

// Whatever a function does, however often, the machine ends: by Finish, or by a failure that EventBridge reports.
func TestEveryFailureLeadsToFinish(t *testing.T) {
	for _, function := range []string{"Prepare", "Model", "Tool", "Finish"} {
		for _, name := range []string{"PlatformError", "Runtime.ExitError", "Sandbox.Timedout", "States.Timeout", "Lambda.Unknown", "errorString", "States.DataLimitExceeded"} {
			for _, times := range []int{1, 4, 1000} {
				t.Run(fmt.Sprintf("%s-%s-%d", function, name, times), func(t *testing.T) {
					left := times
					e, err := stub(t, 1, 1, func(f string) error {
						if f == function && left > 0 {
							left--
							return &asl.Error{Name: name, Cause: "test"}
						}
						return nil
					})
					if finished := slices.Contains(e.Path(), "Finish"); !finished && err == nil {
						t.Errorf("it ended well without Finish: %v", e.Path())
					} else if !finished && name != "States.DataLimitExceeded" {
						t.Errorf("it ended without Finish: %v: %v", err, e.Path())
					}
				})
			}
		}
	}
}
