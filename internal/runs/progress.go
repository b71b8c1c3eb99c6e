package runs

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/workflows"
)

// Progress returns what the backends of the calls that are under way have told
// last, in the order of step paths. A call has an entry as soon as its worker
// has reported it, which takes about a second, and one without a step path
// before; reads that are executed inside the workflow task have none.
//
// Those of runs that steps have called are among them. It costs one request to
// Temporal for each run, and nothing in history.
func (c *Client) Progress(ctx context.Context, id RunID) ([]StepProgress, error) {
	told, _, err := c.progress(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	slices.SortFunc(told, func(a, b StepProgress) int { return cmp.Compare(a.StepPath, b.StepPath) })
	return told, nil
}

// maxWatched bounds the called runs of one run whose progress is told.
const maxWatched = 20

// progress is that of a run, and below the paths of its steps that of the runs
// that they have called. path is that of the step that has called the run itself.
func (c *Client) progress(ctx context.Context, id RunID) (told []StepProgress, path workflows.StepPath, err error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if parent := decodeParent(c.converter, d.WorkflowExecutionInfo.Memo); parent != nil {
		path = parent.StepPath
	}
	if !isOpen(d.WorkflowExecutionInfo.Status) {
		return nil, path, nil // what was under way when it ended is still listed
	}
	for _, p := range d.PendingActivities {
		if name := p.GetActivityType().GetName(); name != workflows.CallToolName {
			continue
		}
		var step StepProgress
		_ = c.converter.FromPayloads(p.HeartbeatDetails, &step) // of an earlier release, or none: nothing is told
		told = append(told, step)
	}
	for _, p := range d.PendingChildren[:min(len(d.PendingChildren), maxWatched)] {
		below, at, err := c.progress(ctx, RunID(p.WorkflowId))
		var gone *serviceerror.NotFound
		if err != nil && !errors.As(err, &gone) {
			return nil, "", err
		}
		for _, step := range below {
			if step.StepPath != "" {
				step.StepPath = at.Below(step.StepPath)
			}
			told = append(told, step)
		}
	}
	return told, path, nil
}
