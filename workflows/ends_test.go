package workflows_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/workflows"
)

// An elicitation shows when it really ends: with its own time, or with what surrounds
// it, whichever is first.
func TestElicitationEndsWithWhatSurroundsIt(t *testing.T) {
	t.Parallel()
	loop := func(timeout string) string {
		return `{id: each, type: forEach, collection: '["a"]', ` + timeout + `step: {type: elicitation, message: m, timeout: 100h, schema: {type: object}}}`
	}
	for name, tc := range map[string]struct {
		source string
		want   time.Duration
	}{
		"its own":                     {`{name: a, description: d, timeout: 200h, steps: [{id: g, type: elicitation, message: m, timeout: 100h, schema: {type: object}}]}`, 100 * time.Hour},
		"the run":                     {`{name: a, description: d, timeout: 2h, steps: [{id: g, type: elicitation, message: m, timeout: 100h, schema: {type: object}}]}`, 2 * time.Hour},
		"the run, which says nothing": {`{name: a, description: d, steps: [{id: g, type: elicitation, message: m, timeout: 100h, schema: {type: object}}]}`, 30 * time.Minute},
		"a forEach":                   {`{name: a, description: d, timeout: 200h, steps: [` + loop("timeout: 1h, ") + `]}`, time.Hour},
		"a forEach that says nothing": {`{name: a, description: d, timeout: 200h, steps: [` + loop("") + `]}`, 100 * time.Hour},
		"a within of a script":        {"name: a\ndescription: d\ntimeout: 200h\nscript: |\n  attempt(lambda: within(\"10m\", lambda: elicit(\"m\", timeout=\"100h\")))\n", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.source, `{}`, nil)
			var shown workflows.Elicitation
			var began, ended time.Time
			b.onMemo(func(state workflows.State) {
				for _, e := range state.Elicitations {
					switch {
					case e.State == workflows.ElicitationOpen && began.IsZero():
						shown, began = e, b.env.Now()
					case e.State != workflows.ElicitationOpen && ended.IsZero():
						ended = b.env.Now()
					}
				}
			})
			b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
			if got := shown.Expires.Sub(began).Round(time.Minute); got != tc.want {
				t.Errorf("it is shown to end after %s, want %s", got, tc.want)
			}
			if took := ended.Sub(began).Round(time.Minute); !ended.IsZero() && took != tc.want {
				t.Errorf("it ended after %s, want %s", took, tc.want)
			}
		})
	}
}
