package workflows_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// TestAttackLongWaits: a run that cannot continue as new, since it has recorded too much,
// and then waits, or asks, until its history is full fails and undoes: Temporal would end
// it, and undo nothing.
func TestAttackLongWaits(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{
		"waits":          `{id: s, type: wait, for: 1m}`,
		"elicitations":   `{id: s, type: elicitation, message: "{{.forEach.index}}?", timeout: 1m, onCancel: {action: continue}}`,
		"sleeping lines": "{id: s, type: script, script: \"sleep(60)\\nreturn {}\\n\"}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undone := 0
			b := newBench(t, `{name: a, description: d, timeout: 100h, steps: [
				{id: create, tool: create, compensate: {tool: remove}},
				{id: each, type: forEach, collection: "[1,2,3,4,5,6,7,8,9]", maxParallel: 1, timeout: 99h, dependsOn: [create], step: `+step+`}]}`, `{}`, map[string]toolFunc{
				"create": func(workflows.ToolCall) (string, error) { return `{}`, nil },
				"remove": func(workflows.ToolCall) (string, error) { undone++; return `{}`, nil },
			})
			b.env.RegisterDelayedCallback(func() { b.env.SetCurrentHistoryLength(49_000) }, 150*time.Second)
			_, failure := b.run()
			if failure == nil || failure.Error.Code != codes.RunTooLong || failure.Error.Category != codes.CategoryLimit {
				t.Fatalf("got %+v, want that the run is too long", failure)
			}
			if undone != 1 {
				t.Errorf("undone %d times", undone)
			}
		})
	}
}
