package runs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// A Witness remembers what Temporal has told this process lately that it keeps, and finds
// out that it does not: its database went back, such as by a failover to a standby that
// lagged, while Temporal itself and this process went on. Temporal does not notice that.
type Witness struct {
	mu    sync.Mutex
	facts []fact // the oldest first
}

// A fact is that an execution has an event. It stands for all others of its second.
type fact struct {
	execution *commonpb.WorkflowExecution
	event     int64
	since     time.Time
}

const (
	factEvery = time.Second
	// factsKept is more than there are between two looks, so that one from before an
	// outage is among them.
	factsKept = 8
	// factAge is how long a fact is looked at again: what was lost may be older than the
	// look before.
	factAge = time.Minute
	// factLimit is how long an outage may take. Temporal keeps closed runs for an hour at
	// least.
	factLimit = 30 * time.Minute
)

// DialOption is for the connection of a process, which brings the facts: of runs that it
// starts, and of workflow tasks that it is given.
func (w *Witness) DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
			return err
		}
		switch reply := reply.(type) {
		case *workflowservice.StartWorkflowExecutionResponse:
			id := req.(*workflowservice.StartWorkflowExecutionRequest).GetWorkflowId()
			w.note(&commonpb.WorkflowExecution{WorkflowId: id, RunId: reply.GetRunId()}, 1, time.Now())
		case *workflowservice.PollWorkflowTaskQueueResponse:
			w.noteTask(reply)
		case *workflowservice.RespondWorkflowTaskCompletedResponse:
			w.noteTask(reply.GetWorkflowTask())
		}
		return nil
	})
}

// noteTask notes that a workflow task has begun. Temporal writes that of a first attempt
// only, and not where it only asks the run something.
func (w *Witness) noteTask(task *workflowservice.PollWorkflowTaskQueueResponse) {
	if task.GetStartedEventId() > 0 && task.GetAttempt() <= 1 && task.GetQuery() == nil {
		w.note(task.GetWorkflowExecution(), task.GetStartedEventId(), time.Now())
	}
}

func (w *Witness) note(execution *commonpb.WorkflowExecution, event int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.facts); n > 0 && now.Sub(w.facts[n-1].since) < factEvery {
		w.facts[n-1].execution, w.facts[n-1].event = execution, event
		return
	}
	w.facts = append(w.facts[max(0, len(w.facts)-factsKept+1):], fact{execution, event, now})
}

// lost looks in the database of Temporal for what it said that it keeps, and gives a run of
// which it does not have that; "" = it has all, or does not answer. What was lost is
// reported once. A nil Witness has seen nothing.
func (w *Witness) lost(ctx context.Context, a *archive) RunID {
	if w == nil {
		return ""
	}
	w.forget(factLimit)
	w.mu.Lock()
	facts := slices.Clone(w.facts)
	w.mu.Unlock()
	for _, f := range facts {
		last, err := a.lastWritten(ctx, f.execution)
		if err != nil {
			return ""
		}
		if last < f.event {
			w.mu.Lock()
			w.facts = nil
			w.mu.Unlock()
			return RunID(f.execution.GetWorkflowId())
		}
	}
	w.forget(factAge)
	return ""
}

// forget drops the facts of an age.
func (w *Witness) forget(age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.facts) > 0 && time.Since(w.facts[0].since) >= age {
		w.facts = w.facts[1:]
	}
}

// lastWritten is the number of the last event of an execution in the database of Temporal,
// which may have fewer than Temporal has in memory; 0 = it has none.
func (a *archive) lastWritten(ctx context.Context, x *commonpb.WorkflowExecution) (int64, error) {
	page, err := a.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: a.namespace, Execution: x, MaximumPageSize: 1,
	})
	var gone *serviceerror.NotFound
	var torn *serviceerror.DataLoss
	if err != nil && !errors.As(err, &gone) && !errors.As(err, &torn) {
		return 0, err
	}
	for _, e := range page.GetHistory().GetEvents() { // the last one first
		return e.GetEventId(), nil
	}
	return 0, nil
}
