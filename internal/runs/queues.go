package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/workflows"
)

// A BackendState is the state of a backend's limits.
type BackendState = workflows.BackendState

// A Permit asks for the permission to call a backend with limits, and gives it
// back.
type Permit = workflows.PermitRequest

// A Hold reports that a call may not be made yet.
type Hold = workflows.Hold

// Queues are the task queues of workers: what waits in them, and the limits of backends.
// Each backend with limits has one.
type queues struct{ *archive }

// HostBackend has the limits of a backend kept by one of the workers, if they
// are not already.
func (qs queues) HostBackend(ctx context.Context, backend string) error {
	_, err := qs.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.BackendQueue(backend),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "keeps the limits of backend " + backend,
	}, workflows.HostType, backend)
	if err != nil {
		return fmt.Errorf("starting the limits of backend %s: %w", backend, err)
	}
	return nil
}

// BackendState returns the state of a backend's limits, as the process that keeps them
// reported within the last second or two. ErrNotFound = no process does.
func (qs queues) BackendState(ctx context.Context, backend string) (BackendState, error) {
	d, err := qs.temporal.DescribeWorkflowExecution(ctx, workflows.BackendQueue(backend), "") // it is no run
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return BackendState{}, fmt.Errorf("backend %s: %w", backend, ErrNotFound)
	} else if err != nil {
		return BackendState{}, fmt.Errorf("reading the limits of backend %s: %w", backend, err)
	}
	var state BackendState
	for _, a := range d.PendingActivities {
		if a.State == enumspb.PENDING_ACTIVITY_STATE_STARTED && a.HeartbeatDetails != nil {
			if err := qs.converter.FromPayloads(a.HeartbeatDetails, &state); err != nil {
				return BackendState{}, fmt.Errorf("reading the limits of backend %s: %w", backend, err)
			}
			return state, nil
		}
	}
	return BackendState{}, fmt.Errorf("backend %s: %w", backend, ErrNotFound)
}

// Permit asks the process that keeps the limits of a backend about one call that
// is no step of a run; a nil Hold is the permission. It lasts for PermitLasts
// and is renewed by asking again.
func (qs queues) Permit(ctx context.Context, p Permit) (*Hold, error) {
	run, err := qs.startPermit(ctx, p)
	if err != nil {
		return nil, err
	}
	var hold *Hold
	if err := run.Get(ctx, &hold); err != nil {
		return nil, fmt.Errorf("asking for the limits of backend %s: %w", p.Backend, err)
	}
	return hold, nil
}

// GiveBack reports that a call with a permit has ended, and does not wait.
func (qs queues) GiveBack(ctx context.Context, p Permit) error {
	p.Released = true
	_, err := qs.startPermit(ctx, p)
	return err
}

func (qs queues) startPermit(ctx context.Context, p Permit) (client.WorkflowRun, error) {
	run, err := qs.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflows.BackendQueue(p.Backend) + "/" + randomName(16), TaskQueue: workflows.TaskQueue, EnableEagerStart: true,
	}, workflows.PermitType, p)
	if err != nil {
		return nil, fmt.Errorf("asking for the limits of backend %s: %w", p.Backend, err)
	}
	return run, nil
}

// A Backlog is what waits in a task queue for a worker.
type Backlog struct {
	Tasks int64
	Age   time.Duration // of the oldest one
}

// Backlog reports what no worker has taken up yet of all runs: tasks of the runs
// themselves, and calls of tools.
func (qs queues) Backlog(ctx context.Context) (workflow, calls Backlog, err error) {
	if workflow, err = qs.backlog(ctx, workflows.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); err == nil {
		calls, err = qs.backlog(ctx, workflows.TaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	}
	return workflow, calls, err
}

// BackendBacklog counts the calls of a backend with limits that no process has taken
// up.
func (qs queues) BackendBacklog(ctx context.Context, backend string) (Backlog, error) {
	return qs.backlog(ctx, workflows.BackendQueue(backend), enumspb.TASK_QUEUE_TYPE_ACTIVITY)
}

func (qs queues) backlog(ctx context.Context, queue string, kind enumspb.TaskQueueType) (Backlog, error) {
	d, err := qs.temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: qs.namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: kind, ReportStats: true,
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("asking for the backlog of task queue %s: %w", queue, err)
	}
	return Backlog{Tasks: d.Stats.GetApproximateBacklogCount(), Age: d.Stats.GetApproximateBacklogAge().AsDuration()}, nil
}
