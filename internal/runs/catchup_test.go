package runs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/perdure/perdure/workflows"
)

// below is a call of a run below those that are asked.
var below = &activity.Info{WorkflowExecution: workflow.Execution{ID: "below"}}

// attempts describe a run that has, each time, a workflow task of such an attempt; 0 = none.
type attempts struct {
	workflowservice.WorkflowServiceClient
	of  []int32
	ask int
}

// server is a Temporal of which nothing but its service is asked.
type server struct {
	client.Client
	service workflowservice.WorkflowServiceClient
}

func (s server) WorkflowService() workflowservice.WorkflowServiceClient { return s.service }

func (a *attempts) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	at := min(a.ask, len(a.of)-1)
	a.ask++
	d := &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrTool: {}}},
		},
	}
	if a.of[at] > 0 {
		d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{Attempt: a.of[at], ScheduledTime: timestamppb.New(time.Unix(int64(at), 0))}
	}
	return d, nil
}

// TestCatchUpWaitsForTasksThatFail: a workflow task that has failed and is made again
// has not shown the run what has happened.
func TestCatchUpWaitsForTasksThatFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tasks []int32
		sees  bool
	}{
		"no task":                    {[]int32{0}, true},
		"one that ends":              {[]int32{1, 0}, true},
		"one that does not":          {[]int32{1}, false},
		"one after the other":        {[]int32{1, 1, 1, 1}, true},
		"one that fails":             {[]int32{1, 1, 2, 3, 4}, false},
		"one that has failed before": {[]int32{3, 3, 4, 5, 6}, false},
		"one that ends at last":      {[]int32{2, 2, 3, 1, 1}, true},
	} {
		limit := time.Minute
		if !tc.sees {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		w := &watches{archive: &archive{temporal: server{service: &attempts{of: tc.tasks}}}}
		_, err := w.CatchUp(ctx, "r", time.Time{}, below)
		if cancel(); tc.sees != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A family describes runs that have called each other, root first, with a workflow
// task of such a time until they were asked so often.
type family struct {
	workflowservice.WorkflowServiceClient
	tasks   []time.Time // by depth; zero = none
	fails   bool        // the tasks have failed before
	until   int
	stopped int // the depth of the run that was cancelled, from 1; 0 = none was
	begun   time.Time

	mu    sync.Mutex
	asked []string
}

func (f *family) DescribeWorkflowExecution(_ context.Context, r *workflowservice.DescribeWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	id := r.Execution.WorkflowId
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, id)
	depth := int(id[0] - '0')
	d := &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			StartTime:        timestamppb.New(f.begun),
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrTool: {}}},
		},
	}
	if depth > 0 {
		d.WorkflowExecutionInfo.ParentExecution = &commonpb.WorkflowExecution{WorkflowId: string(rune('0' + depth - 1))}
	}
	if depth+1 == f.stopped {
		d.WorkflowExtendedInfo = &workflowpb.WorkflowExecutionExtendedInfo{CancelRequested: true}
	}
	if at := f.tasks[depth]; !at.IsZero() && len(f.asked) <= f.until {
		d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{Attempt: 1, ScheduledTime: timestamppb.New(at)}
		if f.fails {
			d.PendingWorkflowTask.Attempt = 7
		}
	}
	return d, nil
}

// TestCatchUpOfTheChain: what came a moment ago is not waited for, unless it is a task
// that was scheduled again because it has failed; if one run of the chain is behind, those
// below it have to see what it tells them.
func TestCatchUpOfTheChain(t *testing.T) {
	t.Parallel()
	at := time.Now()
	fresh, late := at.Add(time.Second), at.Add(-time.Second)
	for name, tc := range map[string]struct {
		tasks []time.Time
		fails bool
		until int
		asked []string
		sees  bool
	}{
		"the root fails":      {tasks: []time.Time{fresh, {}, {}}, fails: true, until: 100},
		"none has a task":     {tasks: []time.Time{{}, {}, {}}, asked: []string{"2", "1", "0"}, sees: true},
		"all have fresh ones": {tasks: []time.Time{fresh, fresh, fresh}, until: 100, asked: []string{"2", "1", "0"}, sees: true},
		"the root is behind":  {tasks: []time.Time{late, {}, {}}, until: 3, asked: []string{"2", "1", "0", "0", "1", "2"}, sees: true},
		"and stays so":        {tasks: []time.Time{late, {}, {}}, until: 100},
		"the next is behind":  {tasks: []time.Time{fresh, late, fresh}, until: 3, asked: []string{"2", "1", "0", "1", "2"}, sees: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			f := &family{tasks: tc.tasks, fails: tc.fails, until: tc.until}
			_, err := (&watches{archive: &archive{temporal: server{service: f}}}).CatchUp(ctx, "2", at, below)
			if tc.sees != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if diff := cmp.Diff(tc.asked, f.asked); tc.asked != nil && diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttackCallBelowACancelledRun: a run above that was cancelled, and has seen that, has
// told Temporal to cancel those that it called. Temporal may not have done so yet, as after
// it was killed.
func TestAttackCallBelowACancelledRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stopped int // the depth of the run, from 1; 0 = none
		want    error
	}{
		"none was":              {0, nil},
		"the root":              {1, ErrOver},
		"the caller":            {2, ErrOver},
		"the run that calls it": {3, nil}, // sees that itself
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &watches{archive: &archive{temporal: server{service: &family{tasks: make([]time.Time, 3), stopped: tc.stopped}}}}
			if _, err := w.CatchUp(t.Context(), "2", time.Time{}, &activity.Info{WorkflowExecution: workflow.Execution{ID: "2"}}); !errors.Is(err, tc.want) {
				t.Errorf("asked with its run: %v", err)
			}
			if tc.stopped > 2 {
				return
			}
			w = &watches{archive: &archive{temporal: server{service: &family{tasks: make([]time.Time, 2), stopped: tc.stopped}}}}
			if _, err := w.CatchUp(t.Context(), "1", time.Now(), below); !errors.Is(err, tc.want) {
				t.Errorf("asked of the runs above alone: %v", err)
			}
		})
	}
}

// TestRunAboveHasEnded: a run that has ended by itself leaves no called run that it knows; one
// that was terminated may be resumed. What somebody resumes or resets after its end is no
// longer its.
func TestRunAboveHasEnded(t *testing.T) {
	t.Parallel()
	ended := time.Now()
	for status := range enumspb.WorkflowExecutionStatus_name {
		for _, begun := range []time.Time{ended.Add(-time.Minute), ended.Add(time.Minute)} {
			above := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
				Status: enumspb.WorkflowExecutionStatus(status), CloseTime: timestamppb.New(ended)}}
			w := &watches{archive: &archive{temporal: server{service: &family{tasks: make([]time.Time, 3), begun: begun}}}}
			err := w.over(t.Context(), above, &activity.Info{WorkflowExecution: workflow.Execution{ID: "2"}})
			byItself := slices.Contains([]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED}, above.WorkflowExecutionInfo.Status)
			if over := begun.Before(ended); over != errors.Is(err, ErrOver) || (over && byItself) != errors.Is(err, workflows.ErrAbandoned) {
				t.Errorf("%s, begun %s: %v", above.WorkflowExecutionInfo.Status, begun.Sub(ended), err)
			}
		}
	}
}
