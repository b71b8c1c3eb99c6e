package runs

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/workflows"
)

// The workflow that probes are written to. Its task queue has no worker, so it is
// never executed: a probe costs one event.
const (
	probeID   = workflows.TaskQueue + "-probe"
	probeType = "perdure/probe"
)

// Probe is the function Probe, of the namespace of the client.
func (c *Client) Probe(ctx context.Context) error { return Probe(ctx, c.temporal, c.namespace) }

// Probe does what the start of a run needs of Temporal: it writes, and reads back.
// ErrUnavailable = Temporal does not do so within the time of ctx, even if it answers. A
// missing permission is no error.
func Probe(ctx context.Context, c client.Client, namespace string) error {
	err := writeProbe(ctx, c, namespace)
	var unknown *serviceerror.NamespaceNotFound
	switch {
	case err == nil, refused(err):
		return nil
	case errors.As(err, &unknown):
		return err
	}
	if _, silent := c.CheckHealth(ctx, &client.CheckHealthRequest{}); silent != nil {
		return fmt.Errorf("%w: it does not answer: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: it answers and does not write; look at its database: %w", ErrUnavailable, err)
}

func writeProbe(ctx context.Context, c client.Client, namespace string) error {
	written, err := c.WorkflowService().SignalWithStartWorkflowExecution(ctx, &workflowservice.SignalWithStartWorkflowExecutionRequest{
		Namespace: namespace, WorkflowId: probeID, RequestId: randomName(16), SignalName: probeType,
		WorkflowType: &commonpb.WorkflowType{Name: probeType}, TaskQueue: &taskqueuepb.TaskQueue{Name: probeID},
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	})
	var full *serviceerror.InvalidArgument
	if errors.As(err, &full) { // it has as many signals as a workflow may have
		return c.TerminateWorkflow(ctx, probeID, "", "a new one begins")
	}
	if err != nil {
		return err
	}
	_, err = c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: probeID, RunId: written.RunId}, MaximumPageSize: 1,
	})
	return err
}
