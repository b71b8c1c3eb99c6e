package runs

import (
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// readState reads what a run tells of itself through its memo; the zero State if
// it has told nothing.
func readState(c converter.DataConverter, m *commonpb.Memo) (state workflows.State, err error) {
	if field, ok := m.GetFields()[workflows.MemoState]; ok {
		err = c.FromPayload(field, &state)
	}
	if err != nil {
		return workflows.State{}, err
	}
	return state, nil
}

// decodeState says as well whether it has told something that can be read.
func decodeState(c converter.DataConverter, m *commonpb.Memo) (workflows.State, bool) {
	state, err := readState(c, m)
	return state, err == nil && m.GetFields()[workflows.MemoState] != nil
}

// decodeParent reads which run has called another; nil = none.
func decodeParent(c converter.DataConverter, m *commonpb.Memo) *Parent {
	var parent Parent
	field, ok := m.GetFields()[workflows.MemoParent]
	if !ok || c.FromPayload(field, &parent) != nil {
		return nil
	}
	return &parent
}

// closing is how a run ended; nil for an event that does not end it.
func closing(c converter.DataConverter, e *historypb.HistoryEvent) *Outcome {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var result workflows.RunResult
		if err := c.FromPayloads(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &result); err != nil {
			return failedWith(workflows.Failed, codes.InvalidResult, codes.CategoryInternal, "reading the result of the run: "+err.Error())
		}
		return &Outcome{Status: workflows.Completed, Output: result.Output, Errors: result.Errors, Effects: result.Effects}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return failedRun(c, e.GetWorkflowExecutionFailedEventAttributes().GetFailure())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		outcome := failedWith(workflows.Cancelled, codes.Cancelled, codes.CategoryCancelled, "the run was cancelled")
		decodeFailure(c, e.GetWorkflowExecutionCanceledEventAttributes().GetDetails(), outcome.Failure)
		return outcome
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		message := "the run was terminated"
		if reason := e.GetWorkflowExecutionTerminatedEventAttributes().GetReason(); reason != "" {
			message += ": " + reason
		}
		return failedWith(workflows.Cancelled, codes.Terminated, codes.CategoryCancelled, message)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return failedWith(workflows.TimedOut, codes.RunTimeout, codes.CategoryTimeout, "the run timed out")
	}
	return nil
}

func failedRun(c converter.DataConverter, f *failurepb.Failure) *Outcome {
	outcome := failedWith(workflows.Failed, codes.Internal, codes.CategoryInternal, failureMessage(c, f))
	decodeFailure(c, f.GetApplicationFailureInfo().GetDetails(), outcome.Failure)
	if e := outcome.Failure.Error; e.Category == codes.CategoryTimeout && e.StepID == "" {
		outcome.Status = workflows.TimedOut
	}
	return outcome
}

func failedWith(status Status, code codes.Code, category codes.Category, message string) *Outcome {
	return &Outcome{Status: status, Failure: &Failure{Error: Error{Code: code, Category: category, Message: message}}}
}

// decodeFailure replaces into by the details if they are a Failure.
func decodeFailure(c converter.DataConverter, details *commonpb.Payloads, into *Failure) {
	var f Failure
	if c.FromPayloads(details, &f) == nil && f.Error.Code != "" {
		*into = f
	}
}
