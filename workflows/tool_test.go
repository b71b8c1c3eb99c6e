package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions"
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

// A call that is not sent is repeated with growing pauses until the time of its step
// is up, of whatever class its tool is, or as often as onError says.
func TestNotSent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step, effect string
		down         time.Duration // for how long the backend cannot be reached
		completes    bool
		calls        [2]int // at least, at most
	}{
		"a blip":                      {"", "unsafe", 2 * time.Second, true, [2]int{4, 10}},
		"most of the time":            {"", "unsafe", 270 * time.Second, true, [2]int{15, 40}},
		"longer than the step":        {"", "idempotent", time.Hour, false, [2]int{15, 40}},
		"longer than a timeout":       {"timeout: 10s", "unsafe", 30 * time.Second, false, [2]int{5, 12}},
		"longer than the author says": {"onError: {action: retry, retryCount: 2, retryDelay: 1s}", "unsafe", 30 * time.Second, false, [2]int{3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var began time.Time
			calls := 0
			b := newBench(t, "{name: a, description: d, steps: [{id: w, tool: put, "+tc.step+"}]}", `{}`, nil)
			b.tools = map[string]toolFunc{"put": func(call workflows.ToolCall) (string, error) {
				if calls++; calls == 1 {
					began = b.env.Now()
				}
				if b.env.Now().Sub(began) < tc.down {
					return "", workflows.Report(workflows.Attempt{Call: call, Number: calls}.Unavailable("connection refused"))
				}
				return `{"done":true}`, nil
			}}
			put := b.input.Tools["put"]
			put.Effect = definitions.Effect(tc.effect)
			b.input.Tools["put"] = put
			_, failure := b.run()
			if (failure == nil) != tc.completes || calls < tc.calls[0] || calls > tc.calls[1] {
				t.Errorf("%d calls, %+v", calls, failure)
			}
			if failure != nil && (failure.Error.Code != codes.BackendUnavailable || !strings.Contains(failure.Error.Message, "connection refused")) {
				t.Errorf("failed with %+v", failure.Error)
			}
		})
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
