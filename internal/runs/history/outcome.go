package history

import (
	"encoding/json"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// An Outcome is how a run ended.
type Outcome struct {
	Status  workflows.Status   `json:"status"`
	Output  json.RawMessage    `json:"output,omitempty"`  // of a completed run
	Errors  []workflows.Error  `json:"errors,omitempty"`  // of steps that failed without failing the run
	Failure *workflows.Failure `json:"failure,omitempty"` // of any other

	Skipped []workflows.SkippedStep `json:"skipped,omitempty"` // of a completed run that no other has called

	Effects *workflows.Effects `json:"effects,omitempty"` // of a completed run that another has called

	Unread error `json:"-"` // why nothing but Status is known for now; nil = all is known

	Kept bool `json:"-"` // the run, which another has called, has kept the rest: the event before its end has it; see Complete
}

// OutcomeSize is how many bytes an event holds of an outcome, or stand for it elsewhere.
func OutcomeSize(e *historypb.HistoryEvent) (bytes int64) {
	failed := e.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetApplicationFailureInfo().GetDetails()
	for _, payloads := range []*commonpb.Payloads{
		e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), e.GetWorkflowExecutionCanceledEventAttributes().GetDetails(), failed,
	} {
		for _, p := range payloads.GetPayloads() {
			bytes += int64(len(p.Data))
			for _, elsewhere := range p.ExternalPayloads {
				bytes += elsewhere.SizeBytes
			}
		}
	}
	return bytes
}

// Complete is the outcome with what the run has kept of it, if the event has that.
func (o *Outcome) Complete(c converter.DataConverter, e *historypb.HistoryEvent) *Outcome {
	return o.complete(codec{c}.kept(e))
}

func (o *Outcome) complete(kept *workflows.ChildOutcome) *Outcome {
	switch {
	case kept == nil || !o.Kept:
		return o
	case kept.Result != nil:
		return completed(*kept.Result)
	}
	return &Outcome{Status: o.Status, Failure: kept.Failure}
}

// kept is the outcome that an event keeps; nil = none.
func (c codec) kept(e *historypb.HistoryEvent) *workflows.ChildOutcome {
	var kept workflows.Kept
	a := e.GetMarkerRecordedEventAttributes()
	if a.GetMarkerName() != sideEffect || c.FromPayloads(a.GetDetails()["data"], &kept) != nil {
		return nil
	}
	return kept.Outcome
}

// completed is the outcome of a run with a result.
func completed(r workflows.RunResult) *Outcome {
	return &Outcome{Status: workflows.Completed, Output: r.Output, Errors: r.Errors, Skipped: r.Skipped, Effects: r.Effects, Kept: r.Kept > 0}
}

// OutcomeOf says how an execution ended; nil of an event that does not end it, or
// with which the run goes on as new.
func OutcomeOf(c converter.DataConverter, e *historypb.HistoryEvent) *Outcome {
	return outcomeOf(codec{c}, e)
}

func outcomeOf(c codec, e *historypb.HistoryEvent) *Outcome {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var result workflows.RunResult
		switch err := c.FromPayloads(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &result); {
		case temporary(err):
			return &Outcome{Status: workflows.Completed, Unread: err}
		case err != nil:
			return failedWith(workflows.Failed, codes.InvalidResult, codes.CategoryInternal, "reading the result of the run: "+err.Error())
		}
		return completed(result)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return failedRun(c, e.GetWorkflowExecutionFailedEventAttributes().GetFailure())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		outcome := failedWith(workflows.Cancelled, codes.Cancelled, codes.CategoryCancelled, "the run was cancelled")
		c.readFailure(e.GetWorkflowExecutionCanceledEventAttributes().GetDetails(), outcome)
		return outcome
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		message := "the run was terminated"
		if reason := e.GetWorkflowExecutionTerminatedEventAttributes().GetReason(); reason != "" {
			message += ": " + reason
		}
		return failedWith(workflows.Terminated, codes.Terminated, codes.CategoryTerminated, message)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return failedWith(workflows.TimedOut, codes.RunTimeout, codes.CategoryTimeout, "the run timed out")
	}
	return nil
}

func failedRun(c codec, f *failurepb.Failure) *Outcome {
	outcome := failedWith(workflows.Failed, codes.Internal, codes.CategoryInternal, message(c, f))
	c.readFailure(f.GetApplicationFailureInfo().GetDetails(), outcome)
	if e := outcome.Failure.Error; e.Category == codes.CategoryTimeout && e.StepID == "" {
		outcome.Status = workflows.TimedOut
	}
	return outcome
}

func failedWith(status workflows.Status, code codes.Code, category codes.Category, message string) *Outcome {
	return &Outcome{Status: status, Failure: &workflows.Failure{Error: workflows.Error{Code: code, Category: category, Message: message}}}
}

// readFailure replaces that of an outcome by the details if they are a Failure.
func (c codec) readFailure(details *commonpb.Payloads, into *Outcome) {
	var f workflows.Failure
	switch err := c.FromPayloads(details, &f); {
	case temporary(err):
		into.Unread = err
	case err == nil && f.Error.Code != "":
		into.Failure, into.Kept = &f, f.Kept > 0
	}
}

// temporary reports whether a value could not be had that may be had later, or by
// another process: its key is missing, or it cannot be fetched.
func temporary(err error) bool {
	var may interface{ Temporary() bool }
	return errors.As(err, &may) && may.Temporary()
}

// State is what a run says of itself in its memo; the zero State if it says
// nothing.
func State(c converter.DataConverter, m *commonpb.Memo) (state workflows.State, err error) {
	if field, ok := m.GetFields()[workflows.MemoState]; ok {
		err = c.FromPayload(field, &state)
	}
	if err != nil {
		return workflows.State{}, err
	}
	return state, nil
}
