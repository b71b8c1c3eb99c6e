//go:build !nodev

package program_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
)

// A run is reset to behind what was undone since: it writes nothing more, and does not
// complete as if that was done. Resumed, it does that again.
func TestAttackResetToBehindWhatWasUndone(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", "parameters: {type: object, properties: {of: {type: string}}}, steps: [{id: w, tool: write_1, arguments: {of: '{{.params.of}}'}}]")
	const gate = "{id: g, type: elicitation, message: Go on?, timeout: 24h, dependsOn: [a]}"
	for name, tc := range map[string]struct {
		fields        string
		refused, then []string // calls after the reset, and after the resumption
	}{
		"last":   {"steps: [{id: a, tool: write_1, OF, compensate: {tool: undo_1, OF}}, " + gate + "]", nil, []string{"write_1"}},
		"read":   {"steps: [{id: a, tool: write_1, OF, compensate: {tool: undo_1, OF}}, " + gate + ", {id: b, tool: read_1, OF, dependsOn: [g]}]", []string{"read_1"}, []string{"write_1"}},
		"write":  {"steps: [{id: a, tool: write_1, OF, compensate: {tool: undo_1, OF}}, " + gate + ", {id: b, tool: write_2, OF, dependsOn: [g]}]", nil, []string{"write_1", "write_2"}},
		"called": {"steps: [{id: a, type: workflow, workflow: below, arguments: {of: called}, compensate: {tool: undo_1, OF}}, " + gate + ", {id: b, tool: write_2, OF, dependsOn: [g]}]", nil, []string{"write_1", "write_2"}},
		"script": {`script: "call_tool('write_1', {'of': 'script'}, None, policy(undo = undo('undo_1', {'of': 'script'})))\napprove('Go on?')\ncall_tool('write_2', {'of': 'script'})"`, nil, []string{"write_1", "write_2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := l.start(t, define(t, name, tc.fields))
			var seq int64
			end := func() *runs.Outcome {
				t.Helper()
				return nextEvent(t, l.door, id, &seq, runs.EventDone).Outcome
			}
			answer := func(action string) *runs.Outcome {
				t.Helper()
				asked := l.asked(t, id, "")
				perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asked.ID, Action: action, By: "ada"}))(t)
				return end()
			}
			made := []string{"write_1", "undo_1"}
			compare := func(more []string) {
				t.Helper()
				made = append(made, more...)
				var calls []string
				for _, call := range l.backend.of(name, "") {
					calls = append(calls, call.tool)
				}
				if diff := cmp.Diff(made, calls); diff != "" {
					t.Fatalf("calls (-want +got): %s", diff)
				}
			}
			answer("decline")
			compare(nil)
			resetTo(t, l.temporal, string(id), "", "the question")
			if outcome := answer("accept"); outcome.Failure == nil || outcome.Failure.Error.Code != "undone_since" {
				t.Errorf("after the reset it ended with %+v", outcome.Failure)
			}
			compare(tc.refused)
			l.replay(t, id)
			plan := perduretest.Must(l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
			perduretest.NoError(t, l.door.Resumptions().Execute(t.Context(), plan))
			if outcome := end(); outcome.Status != runs.Completed {
				t.Errorf("resumed, it ended with %+v", outcome.Failure)
			}
			compare(tc.then)
		})
	}
}
