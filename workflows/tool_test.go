package workflows_test

import (
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

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
		if failure == nil || failure.Error.Category != workflows.CategoryOutcomeUnknown {
			t.Fatalf("%s: got %+v, want an unknown outcome", kind, failure)
		}
		if !strings.Contains(failure.Error.Message, "the attempt before failed: step w: write was not called") {
			t.Errorf("%s: %s", kind, failure.Error.Message)
		}
	}
}
