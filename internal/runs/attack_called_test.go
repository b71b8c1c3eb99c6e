package runs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

const writesTwice = `
name: NAME
description: Calls another.
timeout: 5m
steps:
  - {id: review, type: workflow, workflow: NAME_b, arguments: {as: ASb}}
  - {id: after, tool: write, dependsOn: [review], arguments: {as: ASa, text: after}}
---
name: NAME_b
description: Is called.
timeout: 5m
parameters: {as: string}
steps:
  - {id: put, tool: write, arguments: {as: "{{.params.as}}", text: put}}
  - {id: ship, tool: write, dependsOn: [put], arguments: {as: "{{.params.as}}", text: ship}}
  - {id: bill, tool: write, dependsOn: [ship], arguments: {as: "{{.params.as}}", text: bill}}
`

// A run above was planned to be resumed when somebody resumes the called run by itself:
// what that writes meanwhile is not written again, whether it has completed or failed.
func TestAttackCalledRunIsResumedMeanwhile(t *testing.T) {
	t.Parallel()
	for fails, want := range map[workflows.StepPath][]string{
		"":     {"put", "ship", "ship", "bill", "after"},
		"bill": {"put", "ship", "ship", "bill", "bill", "after"},
	} {
		t.Run("fails at "+string(fails), func(t *testing.T) {
			c, _ := compose(t)
			calls := note(t, "a", "b")
			calls.fails("ship")
			id := start(t, c, composition(t, source(t, writesTwice)))
			ended(t, c, id, workflows.Failed)
			late := planned(t, c, id)
			calls.fails(fails)
			below := runs.RunID(calls.calls[0].RunID)
			execute(t, c, planned(t, c, below))
			ended(t, c, below, completesUnless(fails))
			execute(t, c, late)
			ended(t, c, id, completesUnless(fails))
			if calls.fails(""); fails != "" {
				execute(t, c, planned(t, c, id))
				ended(t, c, id, workflows.Completed)
			}
			if diff := cmp.Diff(want, calls.paths()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// A run that was resumed, and is reset after that, does not resume the run that it called
// a second time.
func TestAttackResetOfAResumption(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	calls.fails("ship")
	id := start(t, c, composition(t, source(t, writesTwice)))
	ended(t, c, id, workflows.Failed)
	calls.fails("")
	execute(t, c, planned(t, c, id))
	ended(t, c, id, workflows.Completed)
	resetToItsBeginning(t, temporal, id, "")
	ended(t, c, id, workflows.Completed)
	if diff := cmp.Diff([]string{"put", "ship", "ship", "bill", "after", "after"}, calls.paths()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff) // the workers of these tests do not look into histories for those of the run itself
	}
}

// An execution is reset that a resumption had followed: what that did counts all the same.
func TestAttackResetOfAnExecutionBefore(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	_, called, _ := strings.Cut(writesTwice, "---")
	calls := note(t, "b")
	calls.fails("ship")
	r := composition(t, source(t, called))
	r.Arguments = json.RawMessage(fmt.Sprintf(`{"as": %q}`, t.Name()+"b"))
	id := start(t, c, r)
	ended(t, c, id, workflows.Failed)
	calls.fails("")
	first := planned(t, c, id)
	execute(t, c, first)
	ended(t, c, id, workflows.Completed)
	made := calls.calls // until then
	again := resetToItsBeginning(t, temporal, id, first.Execution)
	for _, call := range made {
		before, err := c.CallHistory().CallBeforeReset(t.Context(), string(id), again, call.StepPath, call.IdempotencyKey, time.Time{})
		if err != nil || before.Unknown || before.Result == nil {
			t.Errorf("%s: got %+v, %v", call.StepPath, before, err)
		}
	}
}

// fails lets calls of a step fail; "" = none fails.
func (n *noted) fails(step workflows.StepPath) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = func(call workflows.ToolCall) error {
		if call.StepPath != step {
			return nil
		}
		return workflows.Report(&workflows.Error{Code: codes.ToolError, Category: codes.CategoryTool, Message: "no", StepID: string(step), StepPath: step, Tool: "write"}, false)
	}
}

func completesUnless(fails workflows.StepPath) workflows.Status {
	if fails != "" {
		return workflows.Failed
	}
	return workflows.Completed
}

func planned(t *testing.T, c *runs.Client, id runs.RunID) *history.ResumePlan {
	t.Helper()
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
	return plan
}

func execute(t *testing.T, c *runs.Client, plan *history.ResumePlan) {
	t.Helper()
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
}

// ended waits until a run has ended.
func ended(t *testing.T, c *runs.Client, id runs.RunID, want workflows.Status) {
	t.Helper()
	var run *runs.Run
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if run, err = c.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if run.Status != workflows.Running && run.Status != workflows.Waiting {
			break
		}
	}
	if run.Status != want {
		t.Fatalf("run %s is %s; want %s", id, run.Status, want)
	}
}

// resetToItsBeginning resets an execution of a run, "" = the last one, to the first thing that it did.
func resetToItsBeginning(t *testing.T, c client.Client, id runs.RunID, execution string) (runID string) {
	t.Helper()
	r, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: string(id), RunId: execution}, Reason: "by hand", RequestId: string(id),
		WorkflowTaskFinishEventId: 4, // which has called
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.RunId
}
