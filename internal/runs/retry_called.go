package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// A repair goes down into the runs that steps have called and that have not
// completed: each is repaired as it would be by itself, with what it has done.
// Paths in the request and in the plan are those seen from the run that is
// repaired: review/deploy.

// FateGoesOn is that of a run that a step has called and that is still under way.
const FateGoesOn = "goes_on"

// A calledPlan is what becomes of a run that a step has called. One of the
// fields is set.
type calledPlan struct {
	goesOn bool
	gone   bool // it has ended, and Temporal has deleted what it has done
	again  *RetryPlan

	result  json.RawMessage    // it has completed since
	effects *workflows.Effects // of that
}

// split gives what a request says of the run itself, and of each run that its
// steps have called, by step path.
func (req RetryRequest) split(record *workflows.Record) (own RetryRequest, below map[workflows.StepPath]RetryRequest) {
	own, below = req, map[workflows.StepPath]RetryRequest{}
	own.Unknown, own.Results, own.From = map[workflows.StepPath]string{}, map[workflows.StepPath]json.RawMessage{}, nil
	for path, e := range record.Journal {
		if e.Child != nil && e.Result == nil {
			below[path] = RetryRequest{Otherwise: req.Otherwise, By: req.By, Unknown: map[workflows.StepPath]string{}, Results: map[workflows.StepPath]json.RawMessage{}}
		}
	}
	within := func(path workflows.StepPath) (step, rest workflows.StepPath) {
		for step := range below {
			if rest, ok := path.From(step); ok && path.Undoes() != step {
				return step, rest
			}
		}
		return "", path
	}
	for path, said := range req.Unknown {
		if step, rest := within(path); step != "" {
			below[step].Unknown[rest] = said
		} else {
			own.Unknown[path] = said
		}
	}
	for path, result := range req.Results {
		if step, rest := within(path); step != "" {
			below[step].Results[rest] = result
		} else {
			own.Results[path] = result
		}
	}
	for _, path := range req.From {
		if step, rest := within(workflows.StepPath(path)); step != "" {
			r := below[step]
			r.From = append(r.From, string(rest))
			below[step] = r
		} else {
			own.From = append(own.From, path)
		}
	}
	return own, below
}

// planCalled plans what becomes of the runs that have not completed.
func (c *Client) planCalled(ctx context.Context, record *workflows.Record, requests map[workflows.StepPath]RetryRequest) (map[workflows.StepPath]*calledPlan, error) {
	plans := map[workflows.StepPath]*calledPlan{}
	for _, path := range slices.Sorted(maps.Keys(requests)) {
		id := RunID(record.Journal[path].Child.ID)
		d, err := c.describe(ctx, id)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			if plan := deleted(record.Journal[path], requests[path]); plan != nil {
				plans[path] = plan
			}
			continue
		}
		if err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		plan := &calledPlan{}
		switch d.WorkflowExecutionInfo.Status {
		case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
			plan.goesOn = true
		case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
			outcome, err := c.Result(ctx, id)
			if err != nil {
				return nil, err
			}
			if plan.result, err = json.Marshal(workflows.RunResult{Output: outcome.Output}); err != nil {
				return nil, fmt.Errorf("reading the result of run %s: %w", id, err)
			}
			plan.effects = outcome.Effects
		default:
			if plan.again, err = c.PlanRetry(ctx, id, requests[path]); err != nil {
				return nil, err
			}
		}
		plans[path] = plan
	}
	return plans, nil
}

// deleted is what becomes of a run that Temporal has no more; nil = it was never
// started. What it was to be started with again, as a repair before this one has
// planned it, is in what the run above has recorded.
func deleted(e workflows.JournalEntry, req RetryRequest) *calledPlan {
	switch {
	case e.Child.Again != nil && len(req.Unknown)+len(req.Results)+len(req.From) == 0:
		return &calledPlan{again: &RetryPlan{input: *e.Child.Again}}
	case e.Child.Started || hasEnded(e.Error):
		return &calledPlan{gone: true}
	}
	return nil
}

// hasEnded says whether an error is that of a called run, and not that there was
// none.
func hasEnded(e *workflows.Error) bool {
	return e != nil && e.Category != codes.CategoryInternal && e.Category != codes.CategoryCancelled && e.Category != codes.CategoryTerminated
}

// checkCalled refuses to begin a run anew whose effects are unknown.
func (r *repairer) checkCalled() error {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		if _, given := r.req.Results[path]; !r.called[path].gone || given || r.again[path.Top()] {
			continue
		}
		n, loop := r.program.At(path)
		e := r.record.Journal[path]
		if n == nil || r.wentOn(path, n, loop, e) {
			continue
		}
		return fmt.Errorf("run %s: run %s, which step %s called, was deleted at Temporal. "+
			"If it may be done again, all of it, say --from %s; if you know what came of it, say --step-result %s=JSON; otherwise start a new run", r.id, e.Child.ID, path, path.Top(), path)
	}
	return nil
}

// wentOn says whether a step that has called a run stays as it is: that failed,
// the run above went on, and nothing is otherwise now.
func (r *repairer) wentOn(path workflows.StepPath, n, loop *definitions.Node, e workflows.JournalEntry) bool {
	top := path.Top()
	return e.Error != nil && (continues(n) || loop != nil && continues(loop)) && !r.changed && !r.doubtful[top] && !r.again[top]
}

// keepCalled takes into the journal what becomes of a run that a step has called,
// if there is one.
func (r *repairer) keepCalled(path workflows.StepPath, n, loop *definitions.Node, e workflows.JournalEntry) bool {
	plan, top := r.called[path], path.Top()
	if plan == nil || plan.gone || !plan.goesOn && callsAnother(n, e) || n.Step.Workflow == "" && !inScript(n, path) || r.undone[path] || r.wentOn(path, n, loop, e) {
		return false
	}
	child := workflows.JournalEntry{ArgumentsDigest: e.ArgumentsDigest, Order: e.Order, Effects: e.Effects, Child: &workflows.Child{ID: e.Child.ID, Started: true}}
	switch {
	case plan.goesOn:
		r.fates[path] = FateGoesOn
	case plan.result != nil:
		child.Result, child.Effects, child.Child, child.Exact = plan.result, plan.effects, nil, r.changed || r.doubtful[top]
		r.fates[path] = FateReused
	default:
		again := plan.again.input
		if r.again[top] { // from its beginning
			again.Journal = nil
		}
		child.Child.Again = &again
		r.fates[path] = FateFailed
	}
	r.journal[path] = child
	return true
}

// callsAnother says whether a step calls another composite tool than the one whose
// run is recorded, as with another definition: that run is not repaired then, and
// who may call the other one is looked at when it is called.
func callsAnother(n *definitions.Node, e workflows.JournalEntry) bool {
	ref, err := definitions.ParseReference(n.Step.Workflow)
	was, _, _ := strings.Cut(e.Child.ID, "/")
	return err == nil && ref.Name != was
}

// describeCalled adds what becomes of the steps of the runs that are repaired.
func (r *repairer) describeCalled(plan *RetryPlan) {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		below := r.called[path].again
		if below == nil || r.journal[path].Child == nil {
			continue
		}
		for _, step := range below.Steps {
			step.Path = path.Below(step.Path)
			plan.Steps = append(plan.Steps, step)
		}
		for _, u := range below.Unsettled {
			u.Path = path.Below(u.Path)
			plan.Unsettled = append(plan.Unsettled, u)
		}
	}
}
