package counts_test

import (
	"context"
	"path"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/workflows"
)

// A meter counts what runs cost: requests to Temporal, and what the SDK does in their
// workflow tasks. A pass is one in which each coroutine that is alive is resumed once, a
// yield is one of these.
type meter struct {
	mu       sync.Mutex
	requests map[string]int // by method
	spent    spent
	last     workflow.Execution
}

// What the workflow tasks of runs have taken.
type spent struct{ coroutines, passes, yields int }

func newMeter() *meter { return &meter{requests: map[string]int{}} }

// reset begins to count anew.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests, m.spent = map[string]int{}, spent{}
}

// read gives what was counted since the reset, and the last execution.
func (m *meter) read() (requests map[string]int, took spent, last workflow.Execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests, m.spent, m.last
}

// request counts a request that is about a run, but for those of a call that has waited
// for so long that it asks before it leaves: how many do depends on the machine.
func (m *meter) request(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name := path.Base(method)
	if !activity.IsActivity(ctx) && !strings.HasPrefix(name, "Poll") && !strings.Contains(name, "Worker") && !strings.HasPrefix(name, "GetSystem") && name != "DescribeNamespace" {
		m.mu.Lock()
		m.requests[name]++
		m.mu.Unlock()
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

func (m *meter) interceptors() []interceptor.ClientInterceptor {
	return []interceptor.ClientInterceptor{&measuring{meter: m}}
}

// A measuring meter is one between Temporal's SDK and workflows.
type measuring struct {
	interceptor.InterceptorBase
	meter *meter
}

func (i *measuring) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	e := &execution{meter: i.meter}
	e.Next = next
	return e
}

// An execution is one of a run whose coroutines are counted.
type execution struct {
	interceptor.WorkflowInboundInterceptorBase
	meter *meter
	alive int
}

func (e *execution) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	c := &coroutines{execution: e}
	c.Next = outbound
	return e.Next.Init(c)
}

const passing = "counts passes"

func (e *execution) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if !workflows.ExecutesRun(workflow.GetInfo(ctx).WorkflowType.Name) {
		return e.Next.ExecuteWorkflow(ctx, in)
	}
	e.spend(func(s *spent) { s.coroutines++ })
	e.alive++
	e.meter.mu.Lock()
	e.meter.last = workflow.GetInfo(ctx).WorkflowExecution
	e.meter.mu.Unlock()
	background, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(background, passing, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool {
			e.spend(func(s *spent) { s.passes, s.yields = s.passes+1, s.yields+e.alive })
			return false
		})
	})
	return e.Next.ExecuteWorkflow(ctx, in)
}

func (e *execution) spend(on func(*spent)) {
	e.meter.mu.Lock()
	defer e.meter.mu.Unlock()
	on(&e.meter.spent)
}

// Coroutines are those that an execution starts.
type coroutines struct {
	interceptor.WorkflowOutboundInterceptorBase
	execution *execution
}

func (c *coroutines) Go(ctx workflow.Context, name string, f func(workflow.Context)) workflow.Context {
	if name == passing {
		return c.Next.Go(ctx, name, f)
	}
	c.execution.spend(func(s *spent) { s.coroutines++ })
	c.execution.alive++
	return c.Next.Go(ctx, name, func(ctx workflow.Context) {
		defer func() { c.execution.alive-- }()
		f(ctx)
	})
}
