package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

const (
	resolveLimit    = 30 * time.Second // for one attempt
	resolveAttempts = 5
)

// References are the composite tools that steps call: what their names mean to the run.
type references struct {
	*origin
	tasks   *tasks
	journal *record.Journal
	budget  *budget
	holds   *holds

	root        workflow.Context           // of the workflow
	resolutions map[string]workflow.Future // by how they are written
}

// resolve finds the definition that a step calls. A run asks once for each
// reference, so that all of its steps call the same.
func (rs *references) resolve(ctx workflow.Context, c childCall) (*ResolvedDefinition, *Error) {
	path := definitions.ReferencePath(c.workflow)
	var found ResolvedDefinition
	if was, ok := record.Found[record.Reference](rs.journal, path, ""); ok && json.Unmarshal(was.Means, &found) == nil {
		rs.note(path, was)
		return &found, nil
	}
	for unread := 0; ; unread++ {
		stopped, err := rs.ask(ctx, c, &found)
		switch {
		case stopped:
			return nil, cancelledStep(c.path)
		case err == nil:
			if means, err := json.Marshal(found); err == nil {
				rs.note(path, record.Reference{Means: means})
			}
			return &found, nil
		case heldIn(err) == nil:
			return nil, unresolved(c, err)
		}
		q := request{path: c.path, tool: definitions.Tool{Name: c.workflow}}
		if rs.holds.hold(ctx, &q, Hold{Why: HeldByPayload, Pause: pauseUnread(unread)}) != nil {
			return nil, cancelledStep(c.path)
		}
	}
}

// note keeps what a reference means, once for all steps.
func (rs *references) note(path StepPath, ref record.Reference) {
	if !rs.journal.Reached(path) {
		rs.journal.Note(path, ref)
	}
}

// ask has a worker find the definition, once for all steps that wait for it.
func (rs *references) ask(ctx workflow.Context, c childCall, found *ResolvedDefinition) (stopped bool, err error) {
	asked, ok := rs.resolutions[c.workflow]
	if !ok {
		if err := rs.budget.waitWhileDraining(ctx); err != nil {
			return true, nil
		}
		// Another step may wait for the same answer when this one is cancelled.
		all, _ := workflow.NewDisconnectedContext(rs.root)
		rs.tasks.carries(ctx)
		asked = workflow.ExecuteActivity(workflow.WithActivityOptions(all, workflow.ActivityOptions{
			Summary: "resolves " + c.workflow, StartToCloseTimeout: resolveLimit,
			RetryPolicy: &temporal.RetryPolicy{InitialInterval: steadyDelay, MaximumAttempts: resolveAttempts},
		}), ResolveName, DefinitionRef{RunID: rs.id, StepPath: c.path, From: rs.in.Definition.Name, Workflow: c.workflow, Caller: rs.in.Caller, As: rs.actsAs()})
		rs.resolutions[c.workflow] = asked
	}
	rs.budget.begins()
	err = asked.Get(ctx, found)
	rs.budget.ends()
	if err != nil && (heldIn(err) == nil || rs.resolutions[c.workflow] == asked) {
		delete(rs.resolutions, c.workflow) // another step may find it
	}
	return false, err
}

func unresolved(c childCall, err error) *Error {
	var (
		detail Error
		app    *temporal.ApplicationError
	)
	if errors.As(err, &app) && app.HasDetails() && app.Details(&detail) == nil {
		detail.StepID, detail.StepPath = c.path.Top(), c.path
		detail.Message = fmt.Sprintf("step %s: %s", c.path, detail.Message)
		return &detail
	}
	return &Error{Code: codes.WorkflowUnavailable, Category: codes.CategoryTool, Retryable: true,
		Message: fmt.Sprintf("step %s: finding the composite tool %s: %s", c.path, c.workflow, err)}
}
