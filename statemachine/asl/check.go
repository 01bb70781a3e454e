package asl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rules are what a definition is held to, beyond being sound.
type Rules struct {
	// End is the state that every path must pass, and that every failure must lead to.
	End string
	// HandsOver are the states after which something else brings the work to its end.
	HandsOver []string
	// Beyond are the states that come after End, or are it: their failures may lead elsewhere.
	Beyond []string
	// Paced is the state that every circle must pass: the one that counts.
	Paced string
}

// Check tells everything that is wrong with a definition, in the order of the states' names.
func Check(d *Definition, r Rules) []string {
	c := &checker{rules: r}
	if d.QueryLanguage != "JSONata" {
		c.wrong("the machine", "QueryLanguage is %q", d.QueryLanguage)
	}
	c.definition(d, "", true)
	if len(c.problems) == 0 { // the graph is sound, so its paths can be followed
		c.paths(d)
	}
	return c.problems
}

type checker struct {
	rules    Rules
	problems []string
}

func (c *checker) wrong(where, format string, args ...any) {
	c.problems = append(c.problems, where+": "+fmt.Sprintf(format, args...))
}

func (c *checker) definition(d *Definition, prefix string, top bool) {
	if d.States[d.StartAt] == nil {
		c.wrong(prefix+"StartAt", "no state %q", d.StartAt)
		return
	}
	reached := reach(d, d.StartAt, "")
	for _, name := range slices.Sorted(maps.Keys(d.States)) {
		s, where := d.States[name], prefix+name
		if !reached[name] {
			c.wrong(where, "no path leads here")
		}
		if s.Comment == "" {
			c.wrong(where, "no Comment says why it is there")
		}
		for _, t := range s.targets() {
			if d.States[t] == nil {
				c.wrong(where, "it leads to %q, which is not there", t)
			}
		}
		c.ending(s, where)
		c.expressions(s, where)
		switch s.Type {
		case "Task":
			c.task(s, where)
			c.catches(s, where, name, top)
		case "Map":
			c.catches(s, where, name, top)
			if s.MaxConcurrency <= 0 {
				c.wrong(where, "MaxConcurrency is not bounded")
			}
			if s.ItemProcessor == nil || s.ItemProcessor.ProcessorConfig == nil || s.ItemProcessor.ProcessorConfig.Mode != "INLINE" {
				c.wrong(where, "no inline ItemProcessor")
				continue
			}
			c.definition(s.ItemProcessor, where+"/", false)
		case "Choice", "Pass", "Succeed", "Fail":
		default:
			c.wrong(where, "type %q is not known here", s.Type)
		}
	}
}

// ending: a state goes on or ends, and not both.
func (c *checker) ending(s *State, where string) {
	terminal := s.Type == "Succeed" || s.Type == "Fail"
	switch {
	case s.Type == "Choice":
		if s.Default == "" {
			c.wrong(where, "a choice without Default may fail")
		}
		if len(s.Choices) == 0 || s.Next != "" || s.End {
			c.wrong(where, "a choice has Choices, and neither Next nor End")
		}
	case terminal && (s.Next != "" || s.End), !terminal && (s.Next != "") == s.End:
		c.wrong(where, "it must either go on or end")
	}
}

func (c *checker) expressions(s *State, where string) {
	texts := []string{s.Output, s.Items}
	if s.Arguments != nil {
		texts = append(texts, s.Arguments.Payload)
	}
	for _, k := range s.Catch {
		texts = append(texts, k.Output)
	}
	for _, k := range s.Choices {
		texts = append(texts, k.Condition)
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		p := parser{rest: expression(text)}
		if p.rest == "" {
			c.wrong(where, "%q is no expression", text)
		} else if _, err := p.comparison(); err != nil {
			c.wrong(where, "%q: %v", text, err)
		} else if p.space(); p.rest != "" {
			c.wrong(where, "%q: %q is left over", text, p.rest)
		}
	}
}

// mostAttempts is how often a task may be repeated.
const mostAttempts = 5

func (c *checker) task(s *State, where string) {
	if s.Resource != "arn:aws:states:::lambda:invoke" || s.Function() == "" {
		c.wrong(where, "it invokes no function of the template")
	}
	if s.TimeoutSeconds <= 0 {
		c.wrong(where, "no TimeoutSeconds")
	}
	if len(s.Retry) == 0 {
		c.wrong(where, "no Retry")
	}
	for _, r := range s.Retry {
		if r.MaxAttempts == nil || *r.MaxAttempts < 1 || *r.MaxAttempts > mostAttempts {
			c.wrong(where, "Retry without MaxAttempts from 1 to %d", mostAttempts)
		}
		if len(r.ErrorEquals) == 0 {
			c.wrong(where, "Retry of nothing")
		}
		for _, e := range r.ErrorEquals { // a timeout has used up its time, and States.ALL hides what is repeated
			if strings.HasPrefix(e, "States.") {
				c.wrong(where, "Retry of %s: only the platform's named failures are repeated", e)
			}
		}
	}
}

// catches: every failure is caught, last by States.ALL, and leads to the end.
func (c *checker) catches(s *State, where, name string, top bool) {
	if len(s.Catch) == 0 || !slices.Contains(s.Catch[len(s.Catch)-1].ErrorEquals, "States.ALL") {
		c.wrong(where, "no Catch of States.ALL")
	}
	for _, k := range s.Catch {
		if top && !slices.Contains(c.rules.Beyond, name) {
			if k.Next != c.rules.End {
				c.wrong(where, "a failure leads to %s, not to %s", k.Next, c.rules.End)
			}
			if !strings.Contains(k.Output, `"error"`) {
				c.wrong(where, "a failure is caught and not told")
			}
		}
	}
}

// paths: none ends before the end, and none goes round without being counted.
func (c *checker) paths(d *Definition) {
	for name := range reach(d, d.StartAt, c.rules.End) {
		s := d.States[name]
		if ends := s.End || s.Type == "Succeed" || s.Type == "Fail"; ends && name != c.rules.End && !slices.Contains(c.rules.HandsOver, name) {
			c.wrong(name, "a path ends here without %s", c.rules.End)
		}
	}
	for name := range d.States {
		if name == c.rules.Paced {
			continue
		}
		for _, t := range d.States[name].targets() {
			if t != c.rules.Paced && reach(d, t, c.rules.Paced)[name] {
				c.wrong(name, "a circle leads back here without %s", c.rules.Paced)
				break
			}
		}
	}
	slices.Sort(c.problems)
}

// reach is the states that can be reached from one, not going on after barrier.
func reach(d *Definition, from, barrier string) map[string]bool {
	seen := map[string]bool{from: true}
	for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
		s := d.States[todo[0]]
		if s == nil || todo[0] == barrier {
			continue
		}
		for _, t := range s.targets() {
			if !seen[t] {
				seen[t] = true
				todo = append(todo, t)
			}
		}
	}
	return seen
}
