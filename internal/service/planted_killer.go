//go:build planted

package service

import (
	"os"
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows"
)

// Killers are the fault that TestAttackWorkerKiller needs: a run of a composite tool
// whose name begins with "killer" kills its worker when it is answered, unless the file
// PERDURE_MENDED exists.
type killers struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow is of the SDK.
func (k *killers) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	if !strings.HasPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, "killer") {
		return next
	}
	return &killer{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type killer struct {
	interceptor.WorkflowInboundInterceptorBase
}

// HandleSignal is of the SDK.
func (k *killer) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if _, err := os.Stat(os.Getenv("PERDURE_MENDED")); err != nil && in.SignalName == workflows.AnswerSignal {
		os.Exit(137)
	}
	return k.Next.HandleSignal(ctx, in)
}
