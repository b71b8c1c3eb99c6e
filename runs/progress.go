package runs

import (
	"context"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
)

// Progress returns what the backends of the calls that are under way have told
// last, in the order of step paths. A call has an entry as soon as its worker
// has reported it, which takes about a second, and one without a step path
// before; reads that are executed inside the workflow task have none.
//
// It costs one request to Temporal, and nothing in history.
func (c *Client) Progress(ctx context.Context, id RunID) ([]StepProgress, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	if d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil // what was under way when it ended is still listed
	}
	told := make([]StepProgress, 0, len(d.PendingActivities))
	for _, p := range d.PendingActivities {
		var step StepProgress
		_ = c.converter.FromPayloads(p.HeartbeatDetails, &step) // of an earlier release, or none: nothing is told
		told = append(told, step)
	}
	slices.SortFunc(told, func(a, b StepProgress) int { return strings.Compare(a.StepPath, b.StepPath) })
	return told, nil
}
