package quarantine

import (
	"context"
	"errors"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// A lone task is executed alone.
type lone struct {
	token  []byte
	run    *commonpb.WorkflowExecution
	mark   mark
	signal func(ctx context.Context, name string) error
}

// lone is the next task that is executed alone.
func (g *Guard) lone(temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse, record *Record) *lone {
	g.mu.Lock()
	g.tries++
	only := &lone{token: task.GetTaskToken(), run: task.GetWorkflowExecution(), mark: mark{record.task(), try{g.process, g.tries}}}
	g.mu.Unlock()
	only.signal = func(ctx context.Context, name string) error {
		_, err := temporal.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: req.GetNamespace(), WorkflowExecution: only.run, SignalName: name, Input: only.mark.payloads(), Identity: req.GetIdentity(),
		})
		return err
	}
	return only
}

// begun sends the mark that a task is executed alone.
func (g *Guard) begun(only *lone) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := only.signal(ctx, BegunSignal); err != nil {
		return err
	}
	g.mu.Lock()
	g.only = only
	g.mu.Unlock()
	return nil
}

// answered records that the worker has executed a task, before Temporal gets the answer
// and gives out the next task.
func (g *Guard) answered(token []byte, completed bool) {
	g.mu.Lock()
	only := g.only
	if only == nil || !slices.Equal(only.token, token) {
		g.mu.Unlock()
		return
	}
	g.only = nil
	survived := completed || !g.endless[only.mark.Number]
	g.mu.Unlock()
	if survived {
		g.survived(only)
	}
}

// abandoned records that the worker has ended the task that it executed alone. The SDK
// answers only the first failure of a task.
func (g *Guard) abandoned() {
	g.mu.Lock()
	only := g.only
	g.only = nil
	survived := only != nil && !g.endless[only.mark.Number]
	g.mu.Unlock()
	if survived {
		g.busy.Go(func() { g.survived(only) })
	}
}

// Stopped is called when the worker has stopped in order. It sends the survived mark of
// the last task if the worker has not executed it: the worker was not lost with it.
func (g *Guard) Stopped() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.busy.Wait()
	if g.gate.quiet() {
		g.abandoned()
	}
	g.busy.Wait()
}

// survived sends the mark that the worker has survived a task. Without it, other workers
// count this one as lost, so it tries several times.
func (g *Guard) survived(only *lone) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		err := only.signal(ctx, SurvivedSignal)
		var ended *serviceerror.NotFound
		if err == nil || errors.As(err, &ended) || grpcstatus.Code(err) == codes.NotFound {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			g.o.Logger.Error("cannot leave a mark that the worker has survived a run; other workers may quarantine it, release it then",
				"run", only.run.GetWorkflowId(), "error", err)
			return
		}
	}
}
