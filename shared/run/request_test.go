package run_test

import (
	"strings"
	"testing"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

// Who wants to be asked before a tool runs is never served as if he did not.
func TestCheckApprovalMode(t *testing.T) {
	for _, c := range []struct {
		mode any
		says string // "": accepted
	}{
		{nil, ""}, {"", ""}, {"auto", ""},
		{"ask", "not supported"}, {"Ask", "not known"}, {"always", "not known"}, {true, "not known"},
		{[]any{"ask"}, "not known"}, {map[string]any{}, "not known"},
	} {
		err := run.Check(map[string]any{"model": "m", "params": map[string]any{"tool_approval_mode": c.mode}})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v", c.mode, err)
		case c.says != "" && (fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%v: %v, want Invalid with %q", c.mode, err, c.says)
		}
	}
	for _, body := range []map[string]any{{}, {"params": nil}, {"params": map[string]any{}}} {
		if err := run.Check(body); err != nil {
			t.Errorf("%v: %v", body, err)
		}
	}
}
