package workflows_test

import (
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// Temporal puts the failure of the attempt before behind a timeout. That the
// attempt before was not sent says nothing of the one that ran out of time.
func TestTimeoutAfterAFailedAttempt(t *testing.T) {
	t.Parallel()
	for _, kind := range []enums.TimeoutType{enums.TIMEOUT_TYPE_HEARTBEAT, enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE} {
		b := newBench(t, `{name: a, description: d, steps: [{id: w, tool: write}]}`, `{}`, map[string]toolFunc{
			"write": func(call workflows.ToolCall) (string, error) {
				return "", temporal.NewTimeoutError(kind, toolError(call, 1, 0, "write was not called"))
			},
		})
		_, failure := b.run()
		if failure == nil || failure.Error.Category != codes.CategoryOutcomeUnknown {
			t.Fatalf("%s: got %+v, want an unknown outcome", kind, failure)
		}
		if !strings.Contains(failure.Error.Message, "the attempt before failed: step w: write was not called") {
			t.Errorf("%s: %s", kind, failure.Error.Message)
		}
	}
}

// By whose right a tool is called is said with each call, also of one that
// undoes another.
func TestRunAs(t *testing.T) {
	t.Parallel()
	for runAs, as := range map[string]string{"": "", "runAs: caller\n": "", "runAs: composite\n": "deploy"} {
		var seen []string
		note := func(call workflows.ToolCall) (string, error) {
			seen = append(seen, call.Tool+" as "+call.As+" for "+call.Caller.Subject)
			if call.Tool == "be_fail" {
				e := workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: "no"}
				return "", temporal.NewNonRetryableApplicationError("no", string(e.Category), nil, e)
			}
			return `{}`, nil
		}
		b := newBench(t, "name: deploy\ndescription: d\n"+runAs+`steps:
  - {id: put, tool: be_put, compensate: {tool: be_undo}}
  - {id: fail, tool: be_fail, dependsOn: [put]}
`, `{}`, map[string]toolFunc{"be_put": note, "be_undo": note, "be_fail": note})
		if _, failure := b.run(); failure == nil {
			t.Error("the run did not fail")
		}
		want := []string{"be_put as " + as + " for tester", "be_fail as " + as + " for tester", "be_undo as " + as + " for tester"}
		if !slices.Equal(seen, want) {
			t.Errorf("%q: %v, want %v", runAs, seen, want)
		}
	}
}
