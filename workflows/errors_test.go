package workflows_test

import (
	"encoding/json"
	"errors"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// anything is any argument to the test environment, as testify has it.
const anything = "mock.Anything"

// TestErrorsOfTheRun has the errors to which a call on a running server is not
// easily brought: of workers, of Temporal and of what a run carries.
func TestErrorsOfTheRun(t *testing.T) {
	t.Parallel()
	fails := func(err error) map[string]toolFunc {
		return map[string]toolFunc{"put": func(workflows.ToolCall) (string, error) { return "", err }, "read": func(workflows.ToolCall) (string, error) { return "", err }}
	}
	put := `{name: a, description: d, steps: [{id: one, tool: put}]}`
	for name, tc := range map[string]struct {
		source  string
		tools   map[string]toolFunc
		prepare func(*bench)
		want    workflows.Error
		counts  bool // as a call that was lost
	}{
		"a definition that cannot be read": {
			source:  put,
			prepare: func(b *bench) { b.input.Definition.Source = json.RawMessage(`{"steps": 1}`) },
			want:    workflows.Error{Code: "invalid_definition", Category: codes.CategoryValidation},
		},
		"a worker that died in an unsafe call": {
			source: put, tools: fails(temporal.NewHeartbeatTimeoutError()),
			want: workflows.Error{Code: "worker_lost", Category: codes.CategoryOutcomeUnknown, StepID: "one", StepPath: "one", Tool: "put", Attempt: 1}, counts: true,
		},
		"an attempt that has said nothing": {
			source: put, tools: fails(temporal.NewNonRetryableApplicationError("a fault", "fault", nil)),
			want: workflows.Error{Code: "internal", Category: codes.CategoryOutcomeUnknown, StepID: "one", StepPath: "one", Tool: "put", Attempt: 1}, counts: true,
		},
		"a history that is nearly full": {
			source:  put,
			prepare: func(b *bench) { b.env.SetCurrentHistoryLength(50_000) },
			want:    workflows.Error{Code: "run_too_long", Category: codes.CategoryLimit, StepID: "one", StepPath: "one", Tool: "put"},
		},
		"a run whose caller is gone": {
			source: `{name: a, description: d, steps: [{id: ok, type: elicitation, message: Go on?}]}`,
			prepare: func(b *bench) {
				b.input.Parent = &workflows.Parent{RunID: "above/1", StepPath: "call"}
				b.env.OnSignalExternalWorkflow(anything, "above/1", anything, anything, anything).Return(errors.New("not found"))
			},
			want: workflows.Error{Code: "parent_gone", Category: codes.CategoryCancelled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.source, `{}`, tc.tools)
			if tc.prepare != nil {
				tc.prepare(b)
			}
			_, failure := b.run()
			if failure == nil || failure.Error.Message == "" {
				t.Fatalf("got %+v", failure)
			}
			got := failure.Error
			got.Message, got.RunID = "", ""
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			lost := b.counted[workflows.UnknownOutcomes+" of a put of be, unsafe"]
			if lost != 0 != tc.counts {
				t.Errorf("counted were %v", b.counted)
			}
		})
	}
}
