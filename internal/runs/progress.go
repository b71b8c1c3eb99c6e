package runs

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// StepProgress is how a call that is under way gets on.
type StepProgress struct {
	StepPath workflows.StepPath // "" = its worker has not reported it yet
	Progress float64            // as its backend reported it last; 0 = it has not
	Total    float64            // 0 = unknown
	Message  string             // of its backend, of at most workflows.MaxProgressMessage bytes
	Activity string             // its ID, as Event has it; "" of a call of a run that a step has called
	Attempt  int                // from 1
	Failure  string             // of the last attempt that failed; "" = none has
}

// Progress returns the last progress of the backends of the calls under way, in the
// order of step paths. A call has an entry once its worker has reported it, after about
// a second, and one without a step path before; reads inside the workflow task have
// none.
//
// Those of runs that steps have called are among them. It costs one request to
// Temporal for each run, and nothing in history.
func (r reader) Progress(ctx context.Context, id RunID) ([]StepProgress, error) {
	steps, _, err := r.progress(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	slices.SortFunc(steps, func(a, b StepProgress) int { return cmp.Compare(a.StepPath, b.StepPath) })
	return steps, nil
}

// maxWatched bounds the called runs whose progress is shown with one run.
const maxWatched = 20

// progress is that of a run, and below the paths of its steps that of the runs
// that they have called. path is that of the step that has called the run itself.
func (r reader) progress(ctx context.Context, id RunID) (steps []StepProgress, path workflows.StepPath, err error) {
	d, err := r.describe(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if parent := decodeParent(r.converter, d.WorkflowExecutionInfo.Memo); parent != nil {
		path = parent.StepPath
	}
	if !isOpen(d.WorkflowExecutionInfo.Status) {
		return nil, path, nil // what was under way when it ended is still listed
	}
	for _, p := range d.PendingActivities {
		if name := p.GetActivityType().GetName(); name != workflows.CallToolName {
			continue
		}
		var last workflows.StepProgress
		_ = r.converter.FromPayloads(p.HeartbeatDetails, &last) // of an earlier release, or none: no progress
		steps = append(steps, StepProgress{
			StepPath: last.StepPath, Progress: last.Progress, Total: last.Total, Message: last.Message,
			Activity: p.GetActivityId(), Attempt: int(p.GetAttempt()), Failure: history.NewFailure(r.converter, p.GetLastFailure()).Message(),
		})
	}
	for _, p := range d.PendingChildren[:min(len(d.PendingChildren), maxWatched)] {
		below, at, err := r.progress(ctx, RunID(p.WorkflowId))
		var gone *serviceerror.NotFound
		if err != nil && !errors.As(err, &gone) {
			return nil, "", err
		}
		for _, step := range below {
			step.Activity = ""
			if step.StepPath != "" {
				step.StepPath = at.Below(step.StepPath)
			}
			steps = append(steps, step)
		}
	}
	return steps, path, nil
}
