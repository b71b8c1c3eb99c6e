package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// An execution is one of the chain that makes up a run.
type execution struct {
	runID  string // Temporal's
	copied int64  // events up to this one are copies of its predecessor's
	fresh  bool   // this process has just started it, and its worker may execute it
}

// repeats is up to which event the history repeats the previous execution; 0 if that one is
// no longer kept.
func (x execution) repeats(first bool) int64 {
	if first {
		return 0
	}
	return x.copied
}

// fold reads the history of a run.
func (a *archive) fold(id RunID) *history.Fold {
	if a.keys == nil {
		return history.New(a.converter, nil)
	}
	return history.New(a.converter, func(execution string) quarantine.Proven {
		return quarantine.ProvenBy(a.keys, &commonpb.WorkflowExecution{WorkflowId: string(id), RunId: execution})
	})
}

// past reads what has happened in a chain of executions.
func (a *archive) past(ctx context.Context, id RunID, chain []execution) iter.Seq2[history.Moment, error] {
	return func(yield func(history.Moment, error) bool) {
		fold := a.fold(id)
		for i, x := range chain {
			fold.Begin(x.runID, x.repeats(i == 0))
			for e, err := range a.history(ctx, id, x.runID, false) {
				if err == nil {
					err = a.hold(ctx, e)
				}
				if err != nil {
					yield(history.Moment{}, err)
					return
				}
				if !yield(fold.Add(e), nil) {
					return
				}
			}
		}
	}
}

// all reads what has happened to a run so far.
func (a *archive) all(ctx context.Context, id RunID) iter.Seq2[history.Moment, error] {
	return func(yield func(history.Moment, error) bool) {
		chain, err := a.chain(ctx, id)
		if err != nil {
			yield(history.Moment{}, err)
			return
		}
		a.past(ctx, id, chain)(yield)
	}
}

// chain finds the executions of a run that have not been deleted, the first
// one first.
func (a *archive) chain(ctx context.Context, id RunID) ([]execution, error) {
	d, err := a.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	info := d.WorkflowExecutionInfo
	runID := info.Execution.RunId
	if isFirst(info) {
		return []execution{{runID: runID}}, nil
	}
	return a.chainTo(ctx, id, runID)
}

// chainTo finds the executions that lead to one of a run, the first one first.
func (a *archive) chainTo(ctx context.Context, id RunID, runID string) (chain []execution, err error) {
	for runID != "" {
		x, before, err := a.predecessor(ctx, id, runID)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) && len(chain) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		chain = append([]execution{x}, chain...)
		runID = before
	}
	return chain, nil
}

// chains finds the executions of a run in all chains that there have been: that of the last
// execution comes first, and then those that ended when an earlier execution than their
// last one was reset.
func (c CallHistory) chains(ctx context.Context, id RunID) ([][]execution, error) {
	chain, err := c.chain(ctx, id)
	if err != nil {
		return nil, err
	}
	chains, known := [][]execution{chain}, chain
	r := &workflowservice.ListWorkflowExecutionsRequest{Namespace: c.namespace, PageSize: 1000, Query: "WorkflowId = " + quote(string(id))}
	for {
		page, err := c.index.list(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Executions { // the newest first
			runID := info.GetExecution().GetRunId()
			if slices.ContainsFunc(known, func(x execution) bool { return x.runID == runID }) {
				continue
			}
			chain, err := c.chainTo(ctx, id, runID)
			var gone *serviceerror.NotFound
			if errors.As(err, &gone) { // deleted just now
				continue
			}
			if err != nil {
				return nil, err
			}
			chains, known = append(chains, chain), append(known, chain...)
		}
		if r.NextPageToken = page.NextPageToken; len(r.NextPageToken) == 0 {
			return chains, nil
		}
	}
}

// isFirst reports whether an execution is the first one of its run.
func isFirst(info *workflowpb.WorkflowExecutionInfo) bool {
	_, resumed := info.GetMemo().GetFields()[workflows.MemoResumption]
	return info.Execution.RunId == info.FirstRunId && !resumed
}

// predecessor reads from an execution's history which one it continues; "" is
// none.
func (a *archive) predecessor(ctx context.Context, id RunID, runID string) (x execution, before string, err error) {
	x.runID = runID
	for e, err := range a.history(ctx, id, runID, false) {
		if err != nil {
			return x, "", err
		}
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
			before = cmp.Or(started.ContinuedExecutionRunId, a.resumes(started))
		}
		failed := e.GetWorkflowTaskFailedEventAttributes()
		if failed.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW && failed.NewRunId == runID {
			before, x.copied = failed.BaseRunId, e.EventId
		}
	}
	return x, before, nil
}

// resumes is the execution that another one repeats; "" if it repeats none.
func (a *archive) resumes(started *historypb.WorkflowExecutionStartedEventAttributes) string {
	var in struct { // of a workflows.RunInput of any build
		Resumption *workflows.Resumption `json:"resumption"`
	}
	if a.converter.FromPayloads(started.GetInput(), &in) != nil || in.Resumption == nil {
		return ""
	}
	return in.Resumption.Of
}
