package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

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
func (c *Client) Probe(ctx context.Context) (time.Time, error) {
	return Probe(ctx, c.temporal, c.namespace)
}

// Lost returns a run that lacks events in Temporal's database which Temporal has reported to
// this process; "" = none is known.
func (c *Client) Lost(ctx context.Context) RunID { return c.witness.lost(ctx, c.archive) }

// NamespaceID is the ID of the namespace, which a restored Temporal keeps, and a new one
// of the same name does not have; "" = the credentials may not see it.
func (c *Client) NamespaceID(ctx context.Context) (string, error) {
	d, err := c.temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.namespace})
	if err != nil && !refused(err) {
		return "", failure(ctx, "looking for the namespace of", "", err)
	}
	return d.GetNamespaceInfo().GetId(), nil
}

// ProbeIndex reports why Temporal's index of runs does not answer; nil = it does, if not
// as often as it is asked.
func (c *Client) ProbeIndex(ctx context.Context) error {
	return probeIndex(ctx, c.temporal.WorkflowService(), c.namespace)
}

// Probe does what the start of a run needs of Temporal: it writes, and reads back, which
// gives the time by the clock of Temporal; zero = unknown. ErrUnavailable = Temporal does
// not do so within the time of ctx, even if it answers, or does not let this program in. A
// probe that is turned down because there are many requests is no error: others are let
// through.
func Probe(ctx context.Context, c client.Client, namespace string) (time.Time, error) {
	at, err := writeProbe(ctx, c, namespace)
	var unknown *serviceerror.NamespaceNotFound
	switch {
	case shutOut(err):
		return at, fmt.Errorf("%w: %w", errShutOut, err)
	case err == nil, refused(err), crowded(err):
		return at, nil
	case errors.As(err, &unknown):
		return at, err
	}
	if _, silent := c.CheckHealth(ctx, &client.CheckHealthRequest{}); silent != nil {
		return at, fmt.Errorf("%w: it does not answer: %w", ErrUnavailable, err)
	}
	return at, fmt.Errorf("%w: it answers and does not write; look at its database: %w", ErrUnavailable, err)
}

// crowded reports whether Temporal turned a request down only because there are many at
// the time. A workflow that is busy is none of them: while Temporal's database hangs, each
// probe waits for that of another process.
func crowded(err error) bool {
	var exhausted *serviceerror.ResourceExhausted
	if !errors.As(err, &exhausted) {
		return false
	}
	switch exhausted.Cause {
	case enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, enumspb.RESOURCE_EXHAUSTED_CAUSE_APS_LIMIT, enumspb.RESOURCE_EXHAUSTED_CAUSE_OPS_LIMIT:
		return true
	}
	return false
}

func writeProbe(ctx context.Context, c client.Client, namespace string) (at time.Time, err error) {
	written, err := c.WorkflowService().SignalWithStartWorkflowExecution(ctx, &workflowservice.SignalWithStartWorkflowExecutionRequest{
		Namespace: namespace, WorkflowId: probeID, RequestId: randomName(16), SignalName: probeType,
		WorkflowType: &commonpb.WorkflowType{Name: probeType}, TaskQueue: &taskqueuepb.TaskQueue{Name: probeID},
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	})
	var full *serviceerror.InvalidArgument
	if errors.As(err, &full) { // it has as many signals as a workflow may have
		return at, c.TerminateWorkflow(ctx, probeID, "", "a new one begins")
	}
	if err != nil {
		return at, err
	}
	last, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: probeID, RunId: written.RunId}, MaximumPageSize: 1,
	})
	for _, e := range last.GetHistory().GetEvents() { // that of the signal, or a later one
		at = e.GetEventTime().AsTime()
	}
	return at, err
}
