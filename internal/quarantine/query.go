package quarantine

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// completedOnly limits a query of a run to the state after its last completed workflow
// task. The SDK would replay to the end of the history, and do what has taken workers
// down. Temporal does not repeat a query, so it needs no mark.
func completedOnly(ctx context.Context, temporal workflowservice.WorkflowServiceClient, namespace string, task *workflowservice.PollWorkflowTaskQueueResponse) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for len(task.GetNextPageToken()) > 0 {
		page, err := temporal.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
			Namespace: namespace, Execution: task.GetWorkflowExecution(), NextPageToken: task.GetNextPageToken(),
		})
		if err != nil {
			return err
		}
		task.History.Events = append(task.History.Events, page.GetHistory().GetEvents()...)
		task.NextPageToken = page.GetNextPageToken()
	}
	events := task.GetHistory().GetEvents()
	last := lastCompleted(events) + 1
	if last == 0 {
		return errNothingCompleted
	}
	for last < len(events) && isCommand(events[last]) {
		last++
	}
	for i := last; i < len(events); i++ {
		// An event without effect on a workflow replaces the original.
		events[i] = &historypb.HistoryEvent{EventId: events[i].EventId, EventTime: events[i].EventTime, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
	}
	return nil
}

var errNothingCompleted = errors.New("the run was quarantined before it had done anything, so it is not executed to be asked")

// isCommand reports whether an event was made by the completion of a workflow
// task: those come right after it.
func isCommand(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
		enumspb.EVENT_TYPE_TIMER_STARTED, enumspb.EVENT_TYPE_TIMER_CANCELED, enumspb.EVENT_TYPE_MARKER_RECORDED,
		enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
		enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
		enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
		enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
		return true
	}
	return false
}
