//go:build planted

package service

import (
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows"
)

// Changes make this another build of the interpreter, for TestRollout: each run begins
// with a command that others do not make, an unused timer of 400 days. So runs of
// another build cannot be replayed, unless the change is versioned: then only runs that
// this build began have it, by workflow.GetVersion.
type changes struct {
	interceptor.WorkerInterceptorBase
	versioned bool
}

// InterceptWorkflow is of the SDK.
func (c *changes) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &changedRun{interceptor.WorkflowInboundInterceptorBase{Next: next}, c.versioned}
}

type changedRun struct {
	interceptor.WorkflowInboundInterceptorBase
	versioned bool
}

// ExecuteWorkflow is of the SDK.
func (c *changedRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	isRun := workflows.ExecutesRun(workflow.GetInfo(ctx).WorkflowType.Name)
	if isRun && (!c.versioned || workflow.GetVersion(ctx, "planted", workflow.DefaultVersion, 1) >= 1) {
		workflow.NewTimer(ctx, 400*24*time.Hour)
	}
	return c.Next.ExecuteWorkflow(ctx, in)
}
