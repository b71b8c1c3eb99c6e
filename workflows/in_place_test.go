package workflows_test

import (
	"testing"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// TestReadsWaitInPlace shows that no coroutine is started for a read, and that an
// interceptor, such as one that traces, sees it start and return before it ends.
func TestReadsWaitInPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
name: t
description: d
parameters: {type: object, properties: {}}
steps:
  - {id: e, type: forEach, collection: "[1, 2, 3, 4]", maxParallel: 2, step: {type: tool, tool: read}}`, `{}`, nil)
	seen := &observer{}
	b.intercept(seen)
	if _, failure := b.run(); failure != nil {
		t.Fatal(failure)
	}
	if seen.reads != 4 || seen.ended > 0 || seen.coroutines > 0 {
		t.Errorf("%d reads, %d ended before they returned, %d coroutines; want 4 reads, and nothing else", seen.reads, seen.ended, seen.coroutines)
	}
}

// An observer counts local activities, and the coroutines that they start.
type observer struct {
	interceptor.WorkerInterceptorBase
	reads, ended, coroutines int
}

func (o *observer) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &observedInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, o}
}

type observedInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	observer *observer
}

func (in *observedInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return in.Next.Init(&observedOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, in.observer})
}

type observedOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	observer *observer
}

func (out *observedOutbound) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future := out.Next.ExecuteLocalActivity(ctx, name, args...)
	out.observer.reads++
	if future.IsReady() {
		out.observer.ended++
	}
	return future
}

func (out *observedOutbound) Go(ctx workflow.Context, name string, f func(workflow.Context)) workflow.Context {
	if name == "" { // the SDK's own
		out.observer.coroutines++
	}
	return out.Next.Go(ctx, name, f)
}
