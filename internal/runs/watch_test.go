package runs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/perdure/perdure/workflows"
)

// A slow Temporal takes a second to describe a run, which has a workflow task until some
// time, and the activities 1, which was cancelled, and 2.
type slow struct {
	workflowservice.WorkflowServiceClient
	busy time.Time

	mu    sync.Mutex
	asked int
}

func (s *slow) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	d := &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Execution:        &commonpb.WorkflowExecution{WorkflowId: "r", RunId: "x"},
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrTool: {}}},
		},
		PendingActivities: []*workflowpb.PendingActivityInfo{
			{ActivityId: "1", Attempt: 1, State: enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED},
			{ActivityId: "2", Attempt: 1, State: enumspb.PENDING_ACTIVITY_STATE_STARTED},
		},
	}
	if time.Now().Before(s.busy) {
		d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{Attempt: 1, ScheduledTime: timestamppb.New(time.Unix(1, 0))}
	}
	time.Sleep(time.Second)
	return d, nil
}

func (s *slow) watches() *watches {
	return &watches{archive: &archive{temporal: server{service: s}}}
}

// TestCatchUpIsShared: calls of a run that wait at the same time are served by the same
// descriptions, which were asked for after they had come.
func TestCatchUpIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := s.watches()
		began := time.Now()
		var all sync.WaitGroup
		catchUp := func(after time.Duration) {
			if _, err := c.CatchUp(t.Context(), "r", time.Time{}, below); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != after {
				t.Errorf("a call left after %s instead of %s", took, after)
			}
		}
		all.Go(func() { catchUp(time.Second) })
		time.Sleep(time.Millisecond)
		for range 20 {
			all.Go(func() { catchUp(2 * time.Second) })
		}
		all.Wait()
		if s.asked != 2 {
			t.Errorf("%d requests for 21 calls", s.asked)
		}
		synctest.Wait()
		if len(c.onRuns) > 0 {
			t.Error("the run is still watched")
		}
	})
}

// TestCatchUpIsGivenUp: one that gives up does not keep the others, nor the watch.
func TestCatchUpIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{busy: time.Now().Add(time.Minute)}
		c := s.watches()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		given := make(chan error, 1)
		go func() {
			_, err := c.CatchUp(ctx, "r", time.Time{}, below)
			given <- err
		}()
		began := time.Now()
		if _, err := c.CatchUp(t.Context(), "r", time.Time{}, below); err != nil || time.Since(began) < time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := <-given; err == nil {
			t.Error("what the run has not seen in time was seen")
		}
		synctest.Wait()
		synctest.Wait()
		if len(c.onRuns) > 0 {
			t.Error("the run is still watched")
		}
	})
}

// TestCatchUpWanted: a run wants the attempt for which Temporal waits, unless the run has
// cancelled it.
func TestCatchUpWanted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		execution, activity string
		attempt             int32
		wanted              bool
	}{
		"under way":          {"x", "2", 1, true},
		"cancelled":          {"x", "1", 1, false},
		"over":               {"x", "3", 1, false},
		"an attempt before":  {"x", "2", 2, false},
		"another execution":  {"y", "2", 1, false},
		"of another, behind": {"y", "1", 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			call := &activity.Info{ActivityID: tc.activity, Attempt: tc.attempt}
			call.WorkflowExecution.ID, call.WorkflowExecution.RunID = "r", tc.execution
			wanted, err := (&slow{}).watches().CatchUp(t.Context(), "r", time.Time{}, call)
			if wanted != tc.wanted || err != nil {
				t.Errorf("%s: wanted %t, %v", name, wanted, err)
			}
		})
	}
}
