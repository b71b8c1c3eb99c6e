package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A resumption includes the called runs that have not completed: each is resumed as by
// itself, from its own journal. Paths in the request and in the plan are relative to the
// run that is resumed: review/deploy.

// A CalledRun is what becomes of a run that a step has called. One of UnderWay, Gone,
// Again and Output is set.
type CalledRun struct {
	UnderWay bool
	Gone     bool        // it has ended, and Temporal has deleted its history
	Again    *ResumePlan // it is resumed as well

	Output  json.RawMessage    // of one that has completed since
	Effects *workflows.Effects // of that
}

// Split returns what a request says of the run itself, and of each run that its steps
// have called and that has not completed, by step path.
func (req ResumeRequest) Split(was *workflows.RunRecord) (own ResumeRequest, below map[workflows.StepPath]ResumeRequest) {
	own, below = req, map[workflows.StepPath]ResumeRequest{}
	own.Unknown, own.Results, own.From = map[workflows.StepPath]string{}, map[workflows.StepPath]json.RawMessage{}, nil
	for path, e := range was.Entries {
		if _, ok := unfinished(e); ok {
			below[path] = ResumeRequest{reset: req.reset || was.Input.WasReset, Otherwise: req.Otherwise, By: req.By, Unknown: map[workflows.StepPath]string{}, Results: map[workflows.StepPath]json.RawMessage{}}
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

// Deleted is what becomes of a called run that Temporal has no more; nil = it was never
// started. What it was to be started with again, as a resumption before this one has
// planned it, is in what the run above has recorded.
func Deleted(child record.Child, req ResumeRequest) (*CalledRun, error) {
	switch {
	case child.Again != nil && len(req.Unknown)+len(req.Results)+len(req.From) == 0:
		again := &ResumePlan{}
		return &CalledRun{Again: again}, json.Unmarshal(child.Again, &again.Input)
	case child.Started || hasEnded(child.Error):
		return &CalledRun{Gone: true}, nil
	}
	return nil, nil
}

// hasEnded reports whether an error is that of a called run that existed.
func hasEnded(e *workflows.Error) bool {
	return e != nil && e.Category != codes.CategoryInternal && e.Category != codes.CategoryCancelled && e.Category != codes.CategoryTerminated
}

// checkCalled refuses to start a called run again if its effects are unknown.
func (r *planner) checkCalled() error {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		if _, given := r.req.Results[path]; !r.called[path].Gone || given || r.choice.again[path.Top()] {
			continue
		}
		n, loop := r.program.At(path)
		e := r.was.Entries[path]
		if n == nil || r.wentOnAfter(path, n, loop, e) {
			continue
		}
		return fmt.Errorf("run %s: run %s, which step %s called, was deleted at Temporal. "+
			"If it may be done again, all of it, say --from %s; if you know what came of it, say --step-result %s=JSON; otherwise start a new run", r.id, ChildAt(r.was, path).ID, path, path.Top(), path)
	}
	return nil
}

// wentOnAfter reports whether a step that has called a run stays as it is: that failed,
// the run above went on, and nothing is otherwise now.
func (r *planner) wentOnAfter(path workflows.StepPath, n, loop *definitions.Node, e record.Entry) bool {
	return e.Failure() != nil && (n.Step.Continues() || loop != nil && loop.Step.Continues()) && !r.choice.mayBeOther(path) && !r.choice.again[path.Top()]
}

// keepCalled adds the plan for a called run to the journal, if there is one.
func (r *planner) keepCalled(path workflows.StepPath, n, loop *definitions.Node, e record.Entry) (kept bool, err error) {
	plan, was := r.called[path], ChildAt(r.was, path)
	if plan == nil || plan.Gone || !plan.UnderWay && callsAnother(n, was) || n.Step.Workflow == "" && !inScript(n, path) || r.choice.undone[path] || r.wentOnAfter(path, n, loop, e) {
		return false, nil
	}
	exact := false
	child := record.Child{Digest: was.Digest, ID: was.ID, Started: true, Effects: was.Effects}
	switch {
	case plan.UnderWay:
		r.steps[path] = PlanUnderWay
	case plan.Output != nil:
		child.Output, child.Effects, exact = plan.Output, plan.Effects, r.choice.mayBeOther(path)
		r.steps[path] = PlanReused
	default:
		again := plan.Again.Input
		if r.choice.again[path.Top()] { // from its beginning
			again.Journal = nil
		}
		if child.Again, err = json.Marshal(again); err != nil {
			return false, fmt.Errorf("resuming run %s: %w", was.ID, err)
		}
		r.steps[path] = PlanExecuted
	}
	r.journal[path] = record.Entry{Order: e.Order, Exact: exact, Kind: child}
	return true, nil
}

// callsAnother reports whether a step now calls another composite tool than the one of
// the recorded run. Then that run is not resumed, and the permission for the other one
// is checked when it is called.
func callsAnother(n *definitions.Node, child record.Child) bool {
	ref, err := definitions.ParseReference(n.Step.Workflow)
	was, _, _ := strings.Cut(child.ID, "/")
	return err == nil && ref.Name != was
}

// describeCalled adds the fates of the steps of called runs.
func (r *planner) describeCalled(plan *ResumePlan) {
	for _, path := range slices.Sorted(maps.Keys(r.called)) {
		below := r.called[path].Again
		if _, planned := unfinished(r.journal[path]); below == nil || !planned {
			continue
		}
		for _, step := range below.Steps {
			step.Path = path.Below(step.Path)
			plan.Steps = append(plan.Steps, step)
		}
		for _, u := range below.OutcomeUnknown {
			u.Path = path.Below(u.Path)
			plan.OutcomeUnknown = append(plan.OutcomeUnknown, u)
		}
	}
}
