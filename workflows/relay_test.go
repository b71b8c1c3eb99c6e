package workflows_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// TestReportsOfARunThatWasReset: what a called run asked before it was reset is void, and
// it may ask the same again, or go on asking it; also where the run above has continued as
// new since. What an execution before the reset reports late counts for nothing.
func TestReportsOfARunThatWasReset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carried string   // what was open when the run continued as new
		reports []string // ROUND STEP STATE
		want    string
	}{
		"asks again":             {"", []string{" one open", " one answered", " two open", "r one open", " two answered"}, "one@r"},
		"asks the next one":      {"", []string{" one open", " one answered", " two open", "r one open", "r one answered", "r two open"}, "two@r"},
		"goes on asking":         {"", []string{" one open", " two open", "r one open", "r two open"}, "one@r two@r"},
		"is reset twice":         {"", []string{" one open", "r one open", "s one open", "r one answered"}, "one@s"},
		"below it":               {"", []string{" one/x@b open", " two open", " one/x@b dropped", " one/x@c open"}, "one/x@c two@"},
		"not at all":             {"", []string{" one open", " two open", " one open", " two answered"}, "one@"},
		"below it, out of order": {"", []string{" one/x@b open", " one/x@c open", " one/x@b dropped"}, "one/x@c"},
		"after it continued":     {"one two", []string{"r two open", "r one open"}, "one@r two@r"},
		"and asks less":          {"one two", []string{"r one open"}, "one@r"},
		"and asks what it asked": {"two", []string{"r zero open"}, "zero@r"},
		"not, but it continued":  {"one two", []string{" two answered"}, "one@"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const called, path = "b/called", "call"
			b := newBench(t, `{name: a, description: d, timeout: 100h, steps: [{id: call, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: ok, type: elicitation, message: Go on?}]}`, `{}`, nil)
			b.input.Continued, b.input.Started = true, b.env.Now()
			b.input.Journal = map[workflows.StepPath]record.Entry{path: {Kind: record.Child{ID: called, Started: true}, Order: 1}}
			b.input.Asked = map[workflows.StepPath]int{"call/zero": 1}
			for _, step := range strings.Fields(c.carried) {
				b.input.Open = append(b.input.Open, workflows.Elicitation{ID: "call/" + step + "#1", StepPath: workflows.StepPath("call/" + step), State: workflows.ElicitationOpen, Run: called})
			}
			b.env.OnSignalExternalWorkflow(anything, called, anything, workflows.AdoptSignal, anything).Return(nil)
			b.env.RegisterActivityWithOptions(func(context.Context, string) (*workflows.ChildOutcome, error) {
				return &workflows.ChildOutcome{Result: &workflows.RunResult{Output: json.RawMessage(`{}`)}}, nil
			}, activity.RegisterOptions{Name: workflows.OutcomeName})
			got := ""
			b.onMemo(func(s workflows.State) {
				var open []string
				for _, e := range s.Elicitations {
					if e.State == workflows.ElicitationOpen {
						open = append(open, strings.TrimSuffix(strings.TrimPrefix(e.ID, "call/"), "#1")+"@"+e.Round)
					}
				}
				slices.Sort(open)
				if got = strings.Join(open, " "); len(open) == 0 {
					got = "nothing"
				}
			})
			var rounds []string
			for i, report := range c.reports {
				words := strings.Split(report, " ")
				if !slices.Contains(rounds, words[0]) {
					rounds = append(rounds, words[0])
				}
				step, round, below := strings.Cut(words[1], "@")
				if !below {
					round = words[0]
				}
				e := workflows.Elicitation{ID: step + "#1", StepPath: workflows.StepPath(step), Message: "Go on?", State: workflows.ElicitationState(words[2]), Round: round}
				b.env.RegisterDelayedCallback(func() {
					b.signal(workflows.ChildSignal, workflows.ChildReport{RunID: called, StepPath: path, Round: words[0], Elicitation: &e})
				}, time.Duration(i+1)*time.Minute)
			}
			b.env.RegisterDelayedCallback(func() {
				if got != c.want {
					t.Errorf("it asks %s, want %s", got, c.want)
				}
				b.signal(workflows.ChildSignal, workflows.ChildReport{RunID: called, StepPath: path, Round: rounds[len(rounds)-1], Ends: true})
			}, time.Hour)
			if _, failure := b.run(); failure != nil {
				t.Error(failure.Error)
			}
		})
	}
}
