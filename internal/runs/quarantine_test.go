package runs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs"
)

// TestAttackQuotaByQuarantine: a run in quarantine is one of the open runs of its
// caller, who would have as many as they like otherwise; it waits for no person.
func TestAttackQuotaByQuarantine(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	req := request(t, strings.Replace(gated, "name: publish", "name: held_gated", 1))
	req.Caller.Subject = "keeper of killers"
	id := start(t, c, req)
	followTo(t, c, id, 0, runs.EventOpened)
	held := func(want runs.Held) {
		t.Helper()
		var got runs.Held
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(15 * time.Second); got != want; <-tick.C { // visibility follows a moment later
			var err error
			if got, err = c.Held(t.Context(), req.Caller.Subject); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("the caller has %+v, want %+v", got, want)
			}
		}
	}
	held(runs.Held{Open: 1, Waiting: 1})
	if _, err := tc.WorkflowService().PauseWorkflowExecution(t.Context(), &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: string(id), Reason: quarantine.Reason, Identity: "test",
	}); err != nil {
		t.Fatal(err)
	}
	held(runs.Held{Open: 1})
	perduretest.NoError(t, c.Terminate(t.Context(), id, "the test ends"))
	held(runs.Held{})
}

// An answer that was sent when its run was put into quarantine is not waited for.
func TestAnswerToARunQuarantinedMeanwhile(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	id := start(t, c, request(t, strings.Replace(gated, "name: publish", "name: soon_held", 1)))
	followTo(t, c, id, 0, runs.EventOpened)
	run, err := c.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Answer(t.Context(), id, runs.Answer{
		ElicitationID: run.Open()[0].ID, Action: "accept", Content: []byte(`{"count":1}`), By: "ada", Via: runs.ViaPage,
		Allowed: func(runs.Elicitation) bool {
			_, err := tc.WorkflowService().PauseWorkflowExecution(t.Context(), &workflowservice.PauseWorkflowExecutionRequest{
				Namespace: "default", WorkflowId: string(id), Reason: quarantine.Reason, Identity: "test",
			})
			return err == nil
		},
	})
	if !errors.Is(err, runs.ErrQuarantined) {
		t.Errorf("the answer: %v, want %v", err, runs.ErrQuarantined)
	}
	perduretest.NoError(t, c.Terminate(t.Context(), id, "the test ends"))
}

// TestCalledRunInQuarantine: a called run in quarantine is listed and counted, since
// operators decide about it, and an answer to what it asks by the run above reports it.
func TestCalledRunInQuarantine(t *testing.T) {
	t.Parallel()
	c, tc := compose(t)
	note(t, "a", "b")
	id := start(t, c, composition(t, source(t, parentAndChild)))
	gate := opened(t, c, id)
	if _, err := tc.WorkflowService().PauseWorkflowExecution(t.Context(), &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: gate.Run, Reason: quarantine.Reason, Identity: "test",
	}); err != nil {
		t.Fatal(err)
	}
	if list := awaitListed(t, c, runs.Filter{Status: runs.Quarantined}); list[0].ID != runs.RunID(gate.Run) || list[0].Parent.RunID != string(id) {
		t.Errorf("listed as quarantined is %+v, want %s", list, gate.Run)
	}
	counts, err := c.Count(t.Context())
	if err != nil || counts.Status[runs.Quarantined] != 1 {
		t.Errorf("%d runs are counted as quarantined, want 1: %v", counts.Status[runs.Quarantined], err)
	}
	_, err = c.Answer(t.Context(), id, runs.Answer{ElicitationID: gate.ID, Action: "accept", Content: []byte(`{"n":7}`), By: "ada", Via: runs.ViaPage})
	if !errors.Is(err, runs.ErrQuarantined) {
		t.Errorf("the answer: %v, want %v", err, runs.ErrQuarantined)
	}
	perduretest.NoError(t, c.Terminate(t.Context(), id, "the test ends"))
}
