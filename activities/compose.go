package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// A Resolve finds the definition that a step calls, with its tools, if the run may call
// it. The error is one of those below, or temporary.
type Resolve func(ctx context.Context, ref workflows.DefinitionRef) (workflows.ResolvedDefinition, error)

// Why a step cannot call a composite tool.
var (
	ErrNoDefinition     = errors.New("composite tool not found")
	ErrInvalidReference = errors.New("calling a composite tool") // followed by what is wrong with how it is named
	ErrNotPermitted     = errors.New("not permitted")
	ErrNotAdmitted      = errors.New("not among its callers")
)

// An Outcome gives the outcome of a run; nil = it has not ended. Errors are temporary.
type Outcome func(ctx context.Context, runID string) (*workflows.ChildOutcome, error)

// A Latest gives Temporal's ID of the execution of a run that was started last; "" = there
// is no such run. Errors are temporary.
type Latest func(ctx context.Context, runID string) (execution string, err error)

// ResolveDefinition finds the definition that a step calls.
func (a *Activities) ResolveDefinition(ctx context.Context, ref workflows.DefinitionRef) (workflows.ResolvedDefinition, error) {
	err := fmt.Errorf("%w: %s", ErrNoDefinition, ref.Workflow)
	var found workflows.ResolvedDefinition
	if a.opts.Resolve != nil {
		found, err = a.opts.Resolve(ctx, ref)
	}
	if err == nil {
		return found, nil
	}
	e := &workflows.Error{Code: codes.WorkflowUnavailable, Category: codes.CategoryTool, Retryable: true, Message: err.Error()}
	repeat := true
	var known *workflows.Error
	switch {
	case errors.As(err, &known):
		e, repeat = known, false
	case errors.Is(err, ErrInvalidReference):
		e.Code, e.Category, e.Retryable, repeat = codes.InvalidWorkflow, codes.CategoryValidation, false, false
	case errors.Is(err, ErrNoDefinition):
		e.Code, repeat = codes.UnknownWorkflow, false
		e.Message = fmt.Sprintf("composite tool %s not found", ref.Workflow)
	case errors.Is(err, ErrNotAdmitted):
		e.Code, e.Category, e.Retryable, repeat = codes.PermissionDenied, codes.CategoryPermission, false, false
		e.Message = fmt.Sprintf("%s was not called: it is hidden, and %s is not among its callers", ref.Workflow, ref.From)
	case errors.Is(err, ErrNotPermitted):
		who := "the caller of the run"
		if ref.As != "" {
			who = "the composite tool " + ref.As
		}
		e.Code, e.Category, e.Retryable, repeat = codes.PermissionDenied, codes.CategoryPermission, false, false
		e.Message = fmt.Sprintf("%s was not called: %s may not call it", ref.Workflow, who)
	}
	return workflows.ResolvedDefinition{}, a.report(ctx)(e, repeat)
}

// RunOutcome gives the outcome of a run. While it has not ended, that is a temporary
// error.
func (a *Activities) RunOutcome(ctx context.Context, runID string) (workflows.ChildOutcome, error) {
	if a.opts.Outcome == nil {
		return workflows.ChildOutcome{}, unreadable()
	}
	outcome, err := a.opts.Outcome(ctx, runID)
	switch {
	case err != nil:
		return workflows.ChildOutcome{}, err
	case outcome == nil:
		return workflows.ChildOutcome{}, fmt.Errorf("run %s has not ended", runID)
	}
	return *outcome, nil
}

// LatestExecution gives the execution of a run that was started last.
func (a *Activities) LatestExecution(ctx context.Context, runID string) (string, error) {
	if a.opts.Latest == nil {
		return "", unreadable()
	}
	return a.opts.Latest(ctx, runID)
}

// A TimesAnew reports how often a step of a run has called another run anew, after what that
// did was undone, with the call that is to come. Errors are temporary.
type TimesAnew func(ctx context.Context, runID string, step workflows.StepPath) (int, error)

// TimesAnew reports that of a step of the run.
func (a *Activities) TimesAnew(ctx context.Context, step workflows.StepPath) (int, error) {
	if a.opts.TimesAnew == nil {
		return 0, unreadable()
	}
	return a.opts.TimesAnew(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, step)
}

// UndoneSteps reports the steps of a run that were undone though it takes them for done, as it
// was reset to behind them.
func (a *Activities) UndoneSteps(ctx context.Context, runID string) ([]workflows.StepPath, error) {
	if a.opts.UndoneSteps == nil {
		return nil, unreadable()
	}
	return a.opts.UndoneSteps(ctx, runID)
}

func unreadable() error {
	return temporal.NewNonRetryableApplicationError("reading runs is not possible here", string(codes.CategoryInternal), nil)
}
