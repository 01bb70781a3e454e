// Package infra tests what the template grants and holds; what it becomes is looked at by cycles.py.
package infra

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// template is what these tests read. Intrinsic functions are left as their YAML shows them: !GetAtt Bucket.Arn is "Bucket.Arn".
type template struct {
	Resources map[string]struct {
		Type       string    `yaml:"Type"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

type function struct {
	CodeURI string `yaml:"CodeUri"`
	Role    string `yaml:"Role"`
}

type role struct {
	Managed  []string `yaml:"ManagedPolicyArns"`
	Policies []struct {
		Document struct {
			Statement []statement `yaml:"Statement"`
		} `yaml:"PolicyDocument"`
	} `yaml:"Policies"`
}

type statement struct {
	Effect    string    `yaml:"Effect"`
	Actions   words     `yaml:"Action"`
	Resources yaml.Node `yaml:"Resource"`
}

// words is a text or a list of texts.
type words []string

func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = words{n.Value}
		return nil
	}
	return n.Decode((*[]string)(w))
}

func read(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// account are the actions that AWS knows no resources for.
var account = []string{
	"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets", "logs:CreateLogDelivery",
	"logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy",
	"logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
}

// grants tells what is wrong with the roles of a template.
func grants(raw []byte) (problems []string) {
	var tpl template
	if err := yaml.Unmarshal(raw, &tpl); err != nil {
		return []string{err.Error()}
	}
	wrong := func(where, what string) { problems = append(problems, where+": "+what) }
	holders := map[string][]string{}
	roles := map[string]role{}
	for id, r := range tpl.Resources {
		switch r.Type {
		case "AWS::Serverless::Function":
			var f function
			if err := r.Properties.Decode(&f); err != nil || f.Role == "" {
				wrong(id, "it has no role of its own")
			}
			holders[f.Role] = append(holders[f.Role], id)
		case "AWS::IAM::Role":
			var decoded role
			if err := r.Properties.Decode(&decoded); err != nil {
				wrong(id, err.Error())
			}
			roles[id] = decoded
		}
	}
	for id, r := range roles {
		if len(r.Managed) > 0 {
			wrong(id, "managed policies grant more than is needed")
		}
		for _, p := range r.Policies {
			for _, s := range p.Document.Statement {
				if s.Effect != "Allow" {
					continue
				}
				for _, a := range s.Actions {
					if strings.Contains(a, "*") {
						wrong(id, "action "+a)
					}
					if everything(&s.Resources) && !slices.Contains(account, a) {
						wrong(id, a+" on everything")
					}
					if id == "ToolboxRole" && !strings.HasPrefix(a, "logs:") {
						wrong(id, "tool code may "+a)
					}
				}
			}
		}
	}
	for r, who := range holders {
		one := len(who) == 1 || slices.Equal(slices.Sorted(slices.Values(who)), []string{"Toolbox", "ToolboxImage"}) // one or the other is there
		if !one {
			wrong(r, "several functions hold it: "+strings.Join(who, ", "))
		}
	}
	return problems
}

// everything tells whether a Resource is, or contains, nothing but a star.
func everything(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode {
		return n.Value == "*"
	}
	return slices.ContainsFunc(n.Content, everything)
}

func TestGrants(t *testing.T) {
	for _, problem := range grants(read(t)) {
		t.Error(problem)
	}
}

// Each excess must be noticed.
func TestExcess(t *testing.T) {
	raw := read(t)
	for _, c := range []struct{ name, old, new, problem string }{
		{"any action", "Action: states:StartExecution", "Action: states:*", "action states:*"},
		{"any resource", "Action: states:StartExecution, Resource: *machine-arn", "Action: states:StartExecution, Resource: '*'", "states:StartExecution on everything"},
		{"tool code reads", "Action: [logs:CreateLogStream, logs:PutLogEvents], Resource: !GetAtt ToolboxLogs.Arn", "Action: [s3:GetObject], Resource: !GetAtt Bucket.Arn", "tool code may s3:GetObject"},
		{"a shared role", "Role: !GetAtt AdminRole.Arn", "Role: !GetAtt ApiRole.Arn", "several functions hold it"},
		{"no role", "      Role: !GetAtt AdminRole.Arn\n", "", "no role of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			excessive := bytes.Replace(raw, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(raw, excessive) {
				t.Fatalf("the template has no %q any more", c.old)
			}
			if told := strings.Join(grants(excessive), "\n"); !strings.Contains(told, c.problem) {
				t.Errorf("%q is not among the problems: %s", c.problem, told)
			}
		})
	}
}

// Every folder of a function is deployed, and nothing else is.
func TestFolders(t *testing.T) {
	var tpl template
	if err := yaml.Unmarshal(read(t), &tpl); err != nil {
		t.Fatal(err)
	}
	var deployed []string
	for id, r := range tpl.Resources {
		var f function
		if r.Type == "AWS::Serverless::Function" && r.Properties.Decode(&f) == nil && f.CodeURI != "" {
			deployed = append(deployed, filepath.Clean(f.CodeURI))
			if _, err := os.Stat(filepath.Join("..", f.CodeURI)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	folders, err := filepath.Glob("../functions/*")
	if err != nil || len(folders) == 0 {
		t.Fatal(folders, err)
	}
	for _, f := range folders {
		if name := filepath.Clean(strings.TrimPrefix(f, "../")); !slices.Contains(deployed, name) {
			t.Errorf("%s is not in the template", name)
		}
	}
}
