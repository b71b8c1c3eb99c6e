package runs

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
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

// HostBackend has the limits of a backend kept by one of the workers, if they
// are not already.
func (c *Client) HostBackend(ctx context.Context, backend string) error {
	_, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
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
func (c *Client) BackendState(ctx context.Context, backend string) (BackendState, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, workflows.BackendQueue(backend), "") // it is no run
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return BackendState{}, fmt.Errorf("backend %s: %w", backend, ErrNotFound)
	} else if err != nil {
		return BackendState{}, fmt.Errorf("reading the limits of backend %s: %w", backend, err)
	}
	var state BackendState
	for _, a := range d.PendingActivities {
		if a.State == enumspb.PENDING_ACTIVITY_STATE_STARTED && a.HeartbeatDetails != nil {
			if err := c.converter.FromPayloads(a.HeartbeatDetails, &state); err != nil {
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
func (c *Client) Permit(ctx context.Context, p Permit) (*Hold, error) {
	run, err := c.startPermit(ctx, p)
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
func (c *Client) GiveBack(ctx context.Context, p Permit) error {
	p.Released = true
	_, err := c.startPermit(ctx, p)
	return err
}

func (c *Client) startPermit(ctx context.Context, p Permit) (client.WorkflowRun, error) {
	run, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflows.BackendQueue(p.Backend) + "/" + randomName(16), TaskQueue: workflows.TaskQueue, EnableEagerStart: true,
	}, workflows.PermitType, p)
	if err != nil {
		return nil, fmt.Errorf("asking for the limits of backend %s: %w", p.Backend, err)
	}
	return run, nil
}
