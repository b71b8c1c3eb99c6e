package workflows

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// InPlace has a worker execute runs with fewer coroutines. The SDK waits for each local
// activity in a coroutine of its own, and the one that has called it continues only when
// all are resumed once more; with this, the caller's waits itself. A run has the same
// commands without. It is the last interceptor of a worker, so that the others see only
// coroutines that are started.
func InPlace() interceptor.WorkerInterceptor { return &inPlaceWorker{} }

type inPlaceWorker struct {
	interceptor.WorkerInterceptorBase
}

func (*inPlaceWorker) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inPlaceInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type inPlaceInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (in *inPlaceInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return in.Next.Init(&inPlaceOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type inPlaceOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

// Go leaves to executeHere what the coroutine of a local activity would do.
func (out *inPlaceOutbound) Go(ctx workflow.Context, name string, f func(workflow.Context)) workflow.Context {
	wait, here := ctx.Value(waitKey{}).(*func())
	if !here {
		return out.Next.Go(ctx, name, f)
	}
	*wait = func() { f(workflow.WithValue(ctx, waitKey{}, nil)) }
	return ctx
}

type waitKey struct{}

// executeHere executes a local activity, and waits for it in the coroutine of its
// caller. Other interceptors, such as one that traces, see it start and return at once.
func executeHere(ctx workflow.Context, result any, activity string, args ...any) error {
	wait := func() {}
	future := workflow.ExecuteLocalActivity(workflow.WithValue(ctx, waitKey{}, &wait), activity, args...)
	wait()
	return future.Get(ctx, result)
}
