package run_test

import (
	"slices"
	"testing"
)

// A model's own tools are added only where the operator says so, once, and never where the request switches tools off.
func TestModelTools(t *testing.T) {
	for name, c := range map[string]struct {
		on   bool
		body func(map[string]any)
		want int
	}{
		"off":                 {false, with("tool_ids", nil), 0},
		"on":                  {true, with("tool_ids", nil), 1},
		"named anyhow":        {true, with("tool_ids", []any{"kit"}), 1},
		"switched off":        {true, with("tools", []any{}), 0},
		"off, yet named":      {false, with("tool_ids", []any{"kit"}), 1},
		"no list at all":      {true, func(b map[string]any) { delete(b, "tool_ids") }, 1},
		"a list of no texts":  {true, with("tool_ids", []any{5, nil}), 1},
		"off, no list at all": {false, func(b map[string]any) { delete(b, "tool_ids") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, definition(t), []reply{{text: "end"}}, func(w *world) {
				w.modelTools = c.on
				accepted := w.mustAccept(c.body)
				w.settle()
				w.ended()
				work, _ := w.prepared(accepted.Runs[0])
				var adds int
				for name := range work.Table {
					if name == "add" {
						adds++
					}
				}
				ids, _ := work.Metadata["tool_ids"].([]any)
				if adds != c.want || c.want == 1 && !slices.Contains(ids, any("kit")) {
					t.Errorf("offered %v, tool_ids %v", work.Table, ids)
				}
			})
		})
	}
}
