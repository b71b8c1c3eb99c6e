package runs_test

import (
	"testing"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs"
)

// A client that follows a quarantined run does not hear that the run does not exist. It
// learns how the run ends after its release.
func TestAttackFollowersOfAQuarantinedRun(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)
	if _, err := tc.WorkflowService().PauseWorkflowExecution(t.Context(), &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: string(id), Reason: quarantine.Reason, Identity: "test",
	}); err != nil {
		t.Fatal(err)
	}
	var last runs.Event
	for e, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatalf("after %s: %v", last.Kind, err)
		}
		last = e
		if e.Kind != runs.EventQuarantined {
			continue
		}
		// This is the last that Temporal says of it for now.
		if _, err := tc.WorkflowService().UnpauseWorkflowExecution(t.Context(), &workflowservice.UnpauseWorkflowExecutionRequest{
			Namespace: "default", WorkflowId: string(id), Reason: "it is released", Identity: "test",
		}); err != nil {
			t.Fatal(err)
		}
		run := perduretest.Must(c.Get(t.Context(), id))(t)
		answer(t, c, id, runs.Answer{ElicitationID: run.Open()[0].ID, Action: "accept", Content: []byte(`{"count":1}`), By: "ada", Via: runs.ViaPage})
	}
	if last.Kind != runs.EventDone || last.Outcome.Failure != nil {
		t.Errorf("the last is %s, %+v", last.Kind, last.Outcome)
	}
}
