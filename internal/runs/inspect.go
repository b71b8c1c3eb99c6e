package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/workflows"
)

// An Inspection is what there is for runs at a Temporal.
type Inspection struct {
	Server    string        // version of the server; "" = unknown
	Latency   time.Duration // of one request
	Exists    bool          // the namespace
	Retention time.Duration // of closed runs; 0 = unknown
	Missing   []string      // search attributes that the namespace lacks
	TakesBack bool          // whether Temporal takes back a task that comes while its worker stops
	Pauses    bool          // whether workflows can be paused, which is how runs are quarantined
	Workers   int           // that have looked for work in the last five minutes
	Index     error         // why the index of runs does not answer; nil = it does
	Unchecked int64         // runs that wait for a worker with a key; -1 = it is not known
	// Quarantined runs are not executed until an operator acts; -1 = it is not known.
	Quarantined int64
	Tasks       Backlog // of runs, which no worker has taken up yet
	Calls       Backlog // the same of calls of tools
	// Builds are those of the workers, if any has a build ID, and Plain is how many workers
	// have none.
	Builds []Build
	Plain  int
	// Seen is when a worker has looked for work last, by the clock of Temporal.
	Seen time.Time
}

// Inspect looks what there is for runs, and changes nothing. Namespace is that of
// the client.
func Inspect(ctx context.Context, c client.Client, namespace string) (*Inspection, error) {
	var found Inspection
	began := time.Now()
	if info, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{}); err == nil {
		found.Server, found.Latency = info.ServerVersion, time.Since(began)
	}
	d, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &missing):
		return &found, nil
	case err != nil && !refused(err):
		return &found, unprepared(ctx, "looking for namespace "+namespace, err)
	}
	found.Pauses = d.GetNamespaceInfo().GetCapabilities().GetWorkflowPause()
	found.TakesBack = d.GetNamespaceInfo().GetCapabilities().GetWorkerPollCompleteOnShutdown()
	found.Exists, found.Retention = true, d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if found.Missing, err = missingAttributes(ctx, c, namespace); err != nil {
		return &found, err
	}
	found.Index = probeIndex(ctx, c.WorkflowService(), namespace)
	found.Unchecked = count(ctx, c, namespace, workflows.AttrWaiting+" = "+quote(workflows.HeldByKey)+" AND ExecutionStatus = 'Running'")
	found.Quarantined = count(ctx, c, namespace, quarantinedQuery)
	pollers, err := c.DescribeTaskQueue(ctx, workflows.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return &found, fmt.Errorf("looking for workers: %w", err)
	}
	for _, p := range pollers.Pollers {
		found.Workers++
		if p.GetDeploymentOptions().GetBuildId() == "" {
			found.Plain++
		}
		if at := p.LastAccessTime.AsTime(); at.After(found.Seen) {
			found.Seen = at
		}
	}
	found.Builds, _ = (Rollouts{c}).Builds(ctx) // there need be none
	found.Tasks, found.Calls, err = queues{&archive{temporal: c, namespace: namespace}}.Backlog(ctx)
	return &found, err
}

// Kept says which namespace the runs are in, and for how long it keeps them.
func (a *archive) Kept(ctx context.Context) string {
	d, err := a.temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: a.namespace})
	retention := d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if err != nil || retention == 0 {
		return fmt.Sprintf("Namespace %s keeps runs for its retention after their end", a.namespace)
	}
	return fmt.Sprintf("Namespace %s keeps runs for %gh after their end", a.namespace, retention.Hours())
}

// count counts runs; -1 = it is not known.
func count(ctx context.Context, c client.Client, namespace, query string) int64 {
	counted, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query})
	if err != nil { // such as that the attribute is missing
		return -1
	}
	return counted.Count
}

// Inputs are what runs were started with, as Temporal has it: of at most so many that
// continue, the newest first, and then of others. Who calls may stop at any.
func Inputs(ctx context.Context, c client.Client, namespace string, most int) iter.Seq2[RunID, *commonpb.Payload] {
	return func(yield func(RunID, *commonpb.Payload) bool) {
		for x := range newest(ctx, c, namespace, most) {
			first, err := c.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
				Namespace: namespace, Execution: x, MaximumPageSize: 1,
			})
			if err != nil || len(first.GetHistory().GetEvents()) == 0 {
				continue // it has ended to be kept
			}
			for _, p := range first.History.Events[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads() {
				if !yield(RunID(x.WorkflowId), p) {
					return
				}
			}
		}
	}
}

// Lost compares Temporal's memory with its database, for as many runs as Inputs reads. It
// returns a run whose database lacks events; "" = none. Temporal forgets them when it restarts.
func Lost(ctx context.Context, c client.Client, namespace string, most int) RunID {
	a := &archive{temporal: c, namespace: namespace}
	for x := range newest(ctx, c, namespace, most) {
		d, err := c.DescribeWorkflowExecution(ctx, x.WorkflowId, x.RunId)
		if err != nil {
			continue // it has ended to be kept
		}
		if last, err := a.lastWritten(ctx, x); err == nil && last < d.WorkflowExecutionInfo.HistoryLength {
			return RunID(x.WorkflowId)
		}
	}
	return ""
}

// newest are at most so many executions that continue, the newest first, and then others.
func newest(ctx context.Context, c client.Client, namespace string, most int) iter.Seq[*commonpb.WorkflowExecution] {
	return func(yield func(*commonpb.WorkflowExecution) bool) {
		for _, status := range []string{"=", "!="} { // a quarantined run is no better than one that has ended
			list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: namespace, PageSize: int32(most),
				Query: workflows.AttrTool + " IS NOT NULL AND ExecutionStatus " + status + " 'Running'",
			})
			if err != nil {
				return
			}
			for _, info := range list.Executions[:min(len(list.Executions), most)] {
				if !yield(info.Execution) {
					return
				}
			}
		}
	}
}
