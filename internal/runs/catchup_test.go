package runs

import (
	"context"
	"errors"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/perdure/perdure/workflows"
)

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
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Type: &commonpb.WorkflowType{Name: workflows.WorkflowType}},
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
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c := &Client{archive: archive{temporal: server{service: &attempts{of: tc.tasks}}}}
		err := c.CatchUp(ctx, "r")
		if cancel(); tc.sees != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
