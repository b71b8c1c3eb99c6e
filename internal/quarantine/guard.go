package quarantine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/signing"
)

// DefaultLimit is how often a workflow task may be lost with its worker.
const DefaultLimit = 2

// Options of a Guard.
type Options struct {
	// TaskQueue of the worker.
	TaskQueue string
	// Limit is how often a workflow task may be lost with its worker, all but the
	// first time alone, before its run is quarantined: at least 2. 0 = DefaultLimit.
	Limit int
	// Computing is how long the worker lets a run compute between two waits. The
	// code of one that has computed for longer cannot be stopped, so a task that
	// fails after so long counts as lost.
	Computing time.Duration
	// Keys check what operators say of quarantined runs. nil = nothing of that counts.
	Keys *signing.Keys
	// Alone is told of each task that is executed alone, Quarantined of each run
	// that is quarantined. nil = nobody is.
	Alone, Quarantined func()
	// Logger gets what the guard does. nil = slog.Default().
	Logger *slog.Logger
}

// A Guard stands between a worker and the workflow tasks that Temporal hands out.
type Guard struct {
	o    Options
	gate gate

	mu      sync.Mutex
	only    *lone          // the task that is executed alone; nil = none, or it was answered
	stopped bool           // the worker takes no more tasks
	busy    sync.WaitGroup // tasks that are being taken, and marks that are being left
}

// A lone task is executed alone.
type lone struct {
	token  []byte
	run    *commonpb.WorkflowExecution
	mark   mark
	since  time.Time
	signal func(ctx context.Context, name string) error
}

// New makes a guard for one worker.
func New(o Options) *Guard {
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	for _, told := range []*func(){&o.Alone, &o.Quarantined} {
		if *told == nil {
			*told = func() {}
		}
	}
	g := &Guard{o: o}
	g.gate.left = g.abandoned
	return g
}

// waitLimit is how long a task that was handed out waits to be executed. Temporal
// takes one back after ten seconds.
const waitLimit = 7 * time.Second

// callLimit bounds the requests that the guard makes.
const callLimit = 5 * time.Second

// DialOption is for the connection of the worker.
func (g *Guard) DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		switch req := req.(type) {
		case *workflowservice.PollWorkflowTaskQueueRequest:
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil || !g.polls(req) {
				return err
			}
			task := reply.(*workflowservice.PollWorkflowTaskQueueResponse)
			if len(task.GetTaskToken()) == 0 {
				return nil
			}
			done, may := g.taking()
			defer done()
			if !may || !g.take(ctx, workflowservice.NewWorkflowServiceClient(cc), req, task) {
				proto.Reset(task) // as if there had been none
			}
			return nil
		case *workflowservice.RespondWorkflowTaskCompletedRequest:
			g.answered(req.GetTaskToken(), true)
		case *workflowservice.RespondWorkflowTaskFailedRequest:
			g.answered(req.GetTaskToken(), false)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
}

func (g *Guard) polls(req *workflowservice.PollWorkflowTaskQueueRequest) bool {
	queue := req.GetTaskQueue()
	return cmp.Or(queue.GetNormalName(), queue.GetName()) == g.o.TaskQueue
}

// taking notes that a task is being taken, until done is called. The SDK does not
// wait for its polls when a worker stops.
func (g *Guard) taking() (done func(), may bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return func() {}, false
	}
	g.busy.Add(1)
	return g.busy.Done, true
}

// take reports whether the worker may execute a task, and waits until it may.
func (g *Guard) take(ctx context.Context, temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse) bool {
	log := g.o.Logger.With("run", task.GetWorkflowExecution().GetWorkflowId(), "execution", task.GetWorkflowExecution().GetRunId())
	record, err := g.read(ctx, temporal, req.GetNamespace(), task)
	if err != nil {
		log.Warn("cannot read whether a worker was lost with the run; it is executed alone", "error", err)
	}
	if record.refused != "" {
		log.Warn("a signal about the quarantine of the run is refused: it has no proof that perdure has sent it", "signal", record.refused)
	}
	alone := err != nil || record.suspect(task.GetAttempt())
	switch {
	case task.GetQuery() != nil:
		if alone = false; err == nil && record.suspected {
			err = completedOnly(ctx, temporal, req.GetNamespace(), task)
		}
		if err != nil {
			log.Warn("nothing can be asked of the run", "error", err)
			_, _ = temporal.RespondQueryTaskCompleted(ctx, &workflowservice.RespondQueryTaskCompletedRequest{
				TaskToken: task.GetTaskToken(), Namespace: req.GetNamespace(),
				CompletedType: enumspb.QUERY_RESULT_TYPE_FAILED, ErrorMessage: err.Error(),
			})
			return false
		}
	case record.fail != nil:
		g.fail(ctx, temporal, req, task, record, log)
		return false
	case record.Guilty(g.o.Limit):
		g.quarantine(ctx, temporal, req, task, record, log)
		return false
	}
	wait, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	if g.gate.enter(wait, alone) != nil {
		log.Debug("a task of the run waited too long to be executed; Temporal hands it out again", "alone", alone)
		return false
	}
	if !alone {
		return true
	}
	only := &lone{token: task.GetTaskToken(), run: task.GetWorkflowExecution(), mark: record.mark(), since: time.Now()}
	only.signal = func(ctx context.Context, name string) error {
		_, err := temporal.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: req.GetNamespace(), WorkflowExecution: only.run, SignalName: name, Input: only.mark.payloads(), Identity: req.GetIdentity(),
		})
		return err
	}
	if err := g.begun(only); err != nil {
		log.Warn("cannot leave a mark that the run is executed alone, so it is not; Temporal hands it out again", "error", err)
		g.gate.withdraw()
		return false
	}
	log.Warn("a worker may have been lost with the run; it is executed alone", "attempt", task.GetAttempt(), "losses", len(record.Losses))
	g.o.Alone()
	return true
}

// begun leaves the mark that a task is executed alone.
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

// answered takes note that the worker has executed a task, before Temporal hears
// of it and hands out the next one.
func (g *Guard) answered(token []byte, completed bool) {
	g.mu.Lock()
	only := g.only
	if only == nil || !slices.Equal(only.token, token) {
		g.mu.Unlock()
		return
	}
	g.only = nil
	g.mu.Unlock()
	if completed || !g.mayCompute(only) {
		g.survived(only)
	}
}

// abandoned takes note that the worker is done with the task that it executed
// alone. The SDK answers the first failure of a task only.
func (g *Guard) abandoned() {
	g.mu.Lock()
	only := g.only
	g.only = nil
	g.mu.Unlock()
	if only != nil && !g.mayCompute(only) {
		g.busy.Go(func() { g.survived(only) })
	}
}

// Stopped says that the worker has stopped in order. It leaves the mark of a task
// which the worker was given last and has not executed: a worker that was told to
// stop was not lost with it.
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

// mayCompute reports whether a task that has failed may have been given up by the
// worker while its code goes on, and takes memory.
func (g *Guard) mayCompute(only *lone) bool {
	return g.o.Computing > 0 && time.Since(only.since) >= g.o.Computing
}

// survived leaves the mark that the worker has survived a task. Without it the run
// would be quarantined, so it is worth some attempts.
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
			g.o.Logger.Error("cannot leave a mark that the worker has survived a run; it may be quarantined, release it then",
				"run", only.run.GetWorkflowId(), "error", err)
			return
		}
	}
}

// quarantine has a run executed no more.
func (g *Guard) quarantine(ctx context.Context, temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse, record *Record, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := temporal.PauseWorkflowExecution(ctx, &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: req.GetNamespace(), WorkflowId: task.GetWorkflowExecution().GetWorkflowId(), RunId: task.GetWorkflowExecution().GetRunId(),
		Identity: req.GetIdentity(), Reason: Reason,
	})
	switch {
	case err == nil:
		log.Error("the run is quarantined: it is not executed until it is released", "why", record.Why())
		g.o.Quarantined()
	case alreadyPaused(err):
	default:
		log.Error("the run takes its worker down, so this worker does not execute it; Temporal cannot pause it, so it stays in the state running", "why", record.Why(), "error", err)
	}
	if err != nil && task.GetAttempt() > 1 {
		return // as the SDK does, let Temporal hand it out again later and later
	}
	_, err = temporal.RespondWorkflowTaskFailed(ctx, &workflowservice.RespondWorkflowTaskFailedRequest{
		TaskToken: task.GetTaskToken(), Namespace: req.GetNamespace(), Identity: req.GetIdentity(),
		Cause:   enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
		Failure: &failurepb.Failure{Message: Reason + "; " + record.Why(), FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: failureType}}},
	})
	if err != nil {
		log.Debug("giving back a task of a quarantined run", "error", err)
	}
}

// fail ends a quarantined run as an operator has it, without executing it.
func (g *Guard) fail(ctx context.Context, temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse, record *Record, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	failure := &failurepb.Failure{Message: "an operator has ended the run, which was " + Reason, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: failureType, NonRetryable: true, Details: record.fail},
	}}
	_, err := temporal.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: task.GetTaskToken(), Namespace: req.GetNamespace(), Identity: Identity,
		DeploymentOptions: req.GetDeploymentOptions(),
		Commands: []*commandpb.Command{{
			CommandType: enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_FailWorkflowExecutionCommandAttributes{
				FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{Failure: failure},
			},
		}},
	})
	if err != nil {
		log.Warn("cannot end a quarantined run that is to fail; Temporal hands it out again", "error", err)
	}
}

func alreadyPaused(err error) bool {
	var precondition *serviceerror.FailedPrecondition
	return errors.As(err, &precondition) || grpcstatus.Code(err) == codes.FailedPrecondition
}

// read is what history says of the losses of a task. Of a long one, Temporal
// sends the beginning with the task, and the end is asked for.
func (g *Guard) read(ctx context.Context, temporal workflowservice.WorkflowServiceClient, namespace string, task *workflowservice.PollWorkflowTaskQueueResponse) (*Record, error) {
	record := NewRecord(task.GetWorkflowExecution().GetRunId(), ProvenBy(g.o.Keys, task.GetWorkflowExecution()))
	record.after = task.GetPreviousStartedEventId()
	events := task.GetHistory().GetEvents()
	var err error
	if len(task.GetNextPageToken()) > 0 {
		events, err = tail(ctx, temporal, namespace, task.GetWorkflowExecution())
	}
	for _, e := range events[sinceCompleted(events):] {
		record.Add(e)
	}
	return record, err
}

// sinceCompleted is where the events begin that are not before the completion of
// the last workflow task that was executed to its end.
func sinceCompleted(events []*historypb.HistoryEvent) int { return max(lastCompleted(events), 0) }

// lastCompleted is the index of that completion; -1 = none.
func lastCompleted(events []*historypb.HistoryEvent) int {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && executed(events[i]) {
			return i
		}
	}
	return -1
}

// tail reads the events since the last workflow task that was completed.
func tail(ctx context.Context, temporal workflowservice.WorkflowServiceClient, namespace string, run *commonpb.WorkflowExecution) ([]*historypb.HistoryEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var backwards []*historypb.HistoryEvent
	var token []byte
	for {
		page, err := temporal.GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
			Namespace: namespace, Execution: run, NextPageToken: token,
		})
		if err != nil {
			return nil, err
		}
		backwards = append(backwards, page.GetHistory().GetEvents()...)
		completed := slices.ContainsFunc(page.GetHistory().GetEvents(), func(e *historypb.HistoryEvent) bool {
			return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && executed(e)
		})
		if token = page.GetNextPageToken(); completed || len(token) == 0 {
			slices.Reverse(backwards)
			return backwards, nil
		}
	}
}
