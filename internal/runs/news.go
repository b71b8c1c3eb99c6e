package runs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// News is that something may have happened to a run, as this process knows: it has
// given Temporal one of its workflow tasks, or has terminated it. It reports when to
// look, and not what there is to see: what counts is what Temporal keeps. Of a run
// whose tasks are executed elsewhere there is no news here.
type News struct {
	mu        sync.Mutex
	listening map[RunID][]chan struct{}
}

// NewNews makes news that nothing brings yet; see DialOption.
func NewNews() *News { return &News{listening: map[RunID][]chan struct{}{}} }

// DialOption is for the connection of the worker, which brings the news.
func (n *News) DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		switch r := req.(type) {
		case *workflowservice.RespondWorkflowTaskCompletedRequest:
			n.tell(RunID(strings.TrimPrefix(r.GetResourceId(), "workflow:")))
		case *workflowservice.TerminateWorkflowExecutionRequest:
			n.tell(RunID(r.GetWorkflowExecution().GetWorkflowId()))
		}
		return err
	})
}

func (n *News) tell(id RunID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ear := range n.listening[id] {
		select {
		case ear <- struct{}{}:
		default: // there is news already
		}
	}
}

// about has the news of a run until done is called. News that was not taken stays. Nil
// news never come.
func (n *News) about(id RunID) (ear <-chan struct{}, done func()) {
	if n == nil {
		return nil, func() {}
	}
	own := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listening[id] = append(n.listening[id], own)
	return own, func() { n.forget(id, own) }
}

func (n *News) forget(id RunID, own chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listening[id] = slices.DeleteFunc(n.listening[id], func(ear chan struct{}) bool { return ear == own })
	if len(n.listening[id]) == 0 {
		delete(n.listening, id)
	}
}

// soon waits for news for a while; false = there is none.
func soon(ctx context.Context, ear <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ear:
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ear:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
