package runs

import (
	"context"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// A database has executions up to an event; those without one are gone.
type database struct {
	workflowservice.WorkflowServiceClient
	last map[string]int64
	away bool
}

func (d *database) GetWorkflowExecutionHistoryReverse(_ context.Context, r *workflowservice.GetWorkflowExecutionHistoryReverseRequest, _ ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	last, ok := d.last[r.Execution.WorkflowId]
	switch {
	case d.away:
		return nil, serviceerror.NewUnavailable("away")
	case !ok:
		return nil, serviceerror.NewNotFound("gone")
	}
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{{EventId: last}}}}, nil
}

// TestWitness: what Temporal has confirmed and has no more is noticed, once, after an outage
// as well, and nothing else is.
func TestWitness(t *testing.T) {
	t.Parallel()
	task := func(id string, started int64) *workflowservice.PollWorkflowTaskQueueResponse {
		return &workflowservice.PollWorkflowTaskQueueResponse{WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id}, StartedEventId: started, Attempt: 1}
	}
	d := &database{last: map[string]int64{"a/1": 10}}
	a := &archive{temporal: server{service: d}}
	w := &Witness{}
	lost := func(want RunID) {
		t.Helper()
		if got := w.lost(t.Context(), a); got != want {
			t.Errorf("lost is %q, want %q", got, want)
		}
	}
	again, asked := task("a/1", 99), task("a/1", 99)
	again.Attempt, asked.Query = 2, &querypb.WorkflowQuery{}
	for _, of := range []*workflowservice.PollWorkflowTaskQueueResponse{task("a/1", 10), again, asked, {}} {
		w.noteTask(of)
	}
	lost("") // Temporal writes no more of a task that is tried again, or only asks
	d.last["a/1"] = 9
	d.away = true
	lost("")
	for i := range factsKept - 1 { // runs that begin after the outage, before it is looked
		d.last["b/1"] = 3
		w.note(task("b/1", 3).WorkflowExecution, 3, time.Now().Add(time.Duration(i+1)*factEvery))
	}
	d.away = false
	lost("a/1")
	lost("")

	w.note(task("c/1", 1).WorkflowExecution, 1, time.Now())
	lost("c/1") // its start is lost
	w.note(task("c/1", 1).WorkflowExecution, 1, time.Now().Add(-factLimit))
	lost("") // it may have ended and been deleted since
	if (*Witness)(nil).lost(t.Context(), a) != "" {
		t.Error("no witness has lost something")
	}
}
