package runs_test

import (
	"encoding/json"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// TestLargeOutcomesOfCalledRuns: what a called run ends with, if it is large, comes into
// the history of the run above when that reads it, and is whole wherever it is shown.
func TestLargeOutcomesOfCalledRuns(t *testing.T) {
	t.Parallel()
	const size = 300_000
	for name, tc := range map[string]struct {
		called string
		status workflows.Status
	}{
		"result":  {"script: |\n  return {\"text\": \"x\" * 300000}", workflows.Completed},
		"failure": {"steps:\n  - {id: p, tool: write, arguments: {text: '" + strings.Repeat("x", 50_000) + "'}}\n  - {id: bad, tool: fail, dependsOn: [p]}", workflows.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, temporal := compose(t)
			id := start(t, c, composition(t, "name: NAME\ndescription: d\nsteps: [{id: call, type: workflow, workflow: NAME_b}]\n---\nname: NAME_b\ndescription: d\n"+tc.called))
			events := followTo(t, c, id, 0, runs.EventDone)
			above := events[len(events)-1].Outcome
			if above.Status != tc.status {
				t.Fatalf("got %+v", above)
			}
			ends := 0
			for _, e := range events {
				if e.Kind == runs.EventStep && e.StepPath == "call" && e.StepEnded {
					ends++
				}
			}
			detail := perduretest.Must(c.Show(t.Context(), id))(t)
			step := detail.Steps[0]
			if ends != 1 || step.Path != "call" || step.Status != string(tc.status) || step.Ended == nil {
				t.Errorf("the step has ended %d times, and is %s", ends, step.Status)
			}
			below := perduretest.Must(c.Result(t.Context(), step.Run))(t)
			shown := perduretest.Must(c.Show(t.Context(), step.Run))(t)
			if diff := cmp.Diff(below.Output, shown.Outcome.Output); diff != "" {
				t.Error(diff)
			}
			if tc.status == workflows.Completed {
				for what, output := range map[string]json.RawMessage{"run": above.Output, "step": step.Output, "called run": below.Output} {
					if len(output) < size {
						t.Errorf("the output of the %s is %.100s", what, output)
					}
				}
			} else if len(below.Failure.Partial["p"]) < 50_000 || len(above.Failure.Partial["call/p"]) < 50_000 || len(shown.Outcome.Failure.Partial["p"]) < 50_000 {
				t.Errorf("of the called run is known %v, of the run %v", below.Failure.Partial, above.Failure.Partial)
			}
			for events := temporal.GetWorkflowHistory(t.Context(), string(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
				e := perduretest.Must(events.Next())(t)
				brought := len(e.GetChildWorkflowExecutionCompletedEventAttributes().GetResult().String()) +
					len(e.GetChildWorkflowExecutionFailedEventAttributes().GetFailure().String())
				if brought > 16<<10 {
					t.Errorf("event %d brings %d bytes", e.EventId, brought)
				}
			}
		})
	}
}
