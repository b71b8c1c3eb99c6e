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
	"github.com/perdure/perdure/workflows/record"
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

	output  json.RawMessage    // it has completed since
	effects *workflows.Effects // of that
}

// split gives what a request says of the run itself, and of each run that its
// steps have called, by step path.
func (req RetryRequest) split(was *workflows.Journal) (own RetryRequest, below map[workflows.StepPath]RetryRequest) {
	own, below = req, map[workflows.StepPath]RetryRequest{}
	own.Unknown, own.Results, own.From = map[workflows.StepPath]string{}, map[workflows.StepPath]json.RawMessage{}, nil
	for path, e := range was.Entries {
		if _, ok := unfinished(e); ok {
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
func (c *Client) planCalled(ctx context.Context, was *workflows.Journal, requests map[workflows.StepPath]RetryRequest) (map[workflows.StepPath]*calledPlan, error) {
	plans := map[workflows.StepPath]*calledPlan{}
	for _, path := range slices.Sorted(maps.Keys(requests)) {
		id := RunID(childAt(was, path).ID)
		d, err := c.describe(ctx, id)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			plan, err := deleted(childAt(was, path), requests[path])
			if err != nil {
				return nil, fmt.Errorf("reading with what run %s is started: %w", id, err)
			}
			if plan != nil {
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
			plan.output, plan.effects = orNull(outcome.Output), outcome.Effects
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
func deleted(child record.Child, req RetryRequest) (*calledPlan, error) {
	switch {
	case child.Again != nil && len(req.Unknown)+len(req.Results)+len(req.From) == 0:
		again := &RetryPlan{}
		return &calledPlan{again: again}, json.Unmarshal(child.Again, &again.input)
	case child.Started || hasEnded(child.Error):
		return &calledPlan{gone: true}, nil
	}
	return nil, nil
}

// orNull is the output of a run, as it is recorded.
func orNull(output json.RawMessage) json.RawMessage {
	if output == nil {
		return json.RawMessage("null")
	}
	return output
}

// hasEnded says whether an error is that of a called run, and not that there was
// none.
func hasEnded(e *workflows.Error) bool {
	return e != nil && e.Category != codes.CategoryInternal && e.Category != codes.CategoryCancelled && e.Category != codes.CategoryTerminated
}

// checkCalled refuses to begin a run anew whose effects are unknown.
func (r *repairer) checkCalled() error {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		if _, given := r.req.Results[path]; !r.called[path].gone || given || r.choice.again[path.Top()] {
			continue
		}
		n, loop := r.program.At(path)
		e := r.was.Entries[path]
		if n == nil || r.wentOn(path, n, loop, e) {
			continue
		}
		return fmt.Errorf("run %s: run %s, which step %s called, was deleted at Temporal. "+
			"If it may be done again, all of it, say --from %s; if you know what came of it, say --step-result %s=JSON; otherwise start a new run", r.id, childAt(r.was, path).ID, path, path.Top(), path)
	}
	return nil
}

// wentOn says whether a step that has called a run stays as it is: that failed,
// the run above went on, and nothing is otherwise now.
func (r *repairer) wentOn(path workflows.StepPath, n, loop *definitions.Node, e record.Entry) bool {
	return e.Failure() != nil && (continues(n) || loop != nil && continues(loop)) && !r.choice.doubts(path) && !r.choice.again[path.Top()]
}

// keepCalled takes into the journal what becomes of a run that a step has called,
// if there is one.
func (r *repairer) keepCalled(path workflows.StepPath, n, loop *definitions.Node, e record.Entry) (kept bool, err error) {
	plan, was := r.called[path], childAt(r.was, path)
	if plan == nil || plan.gone || !plan.goesOn && callsAnother(n, was) || n.Step.Workflow == "" && !inScript(n, path) || r.choice.undone[path] || r.wentOn(path, n, loop, e) {
		return false, nil
	}
	exact := false
	child := record.Child{Digest: was.Digest, ID: was.ID, Started: true, Effects: was.Effects}
	switch {
	case plan.goesOn:
		r.fates[path] = FateGoesOn
	case plan.output != nil:
		child.Output, child.Effects, exact = plan.output, plan.effects, r.choice.doubts(path)
		r.fates[path] = FateReused
	default:
		again := plan.again.input
		if r.choice.again[path.Top()] { // from its beginning
			again.Journal = nil
		}
		if child.Again, err = json.Marshal(again); err != nil {
			return false, fmt.Errorf("repairing run %s: %w", was.ID, err)
		}
		r.fates[path] = FateFailed
	}
	r.journal[path] = record.Entry{Order: e.Order, Exact: exact, Kind: child}
	return true, nil
}

// callsAnother says whether a step calls another composite tool than the one whose
// run is recorded, as with another definition: that run is not repaired then, and
// who may call the other one is looked at when it is called.
func callsAnother(n *definitions.Node, child record.Child) bool {
	ref, err := definitions.ParseReference(n.Step.Workflow)
	was, _, _ := strings.Cut(child.ID, "/")
	return err == nil && ref.Name != was
}

// describeCalled adds what becomes of the steps of the runs that are repaired.
func (r *repairer) describeCalled(plan *RetryPlan) {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		below := r.called[path].again
		if _, planned := unfinished(r.journal[path]); below == nil || !planned {
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
