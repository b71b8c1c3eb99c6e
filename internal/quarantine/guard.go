package quarantine

import (
	"cmp"
	"context"
	"crypto/rand"
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

	"github.com/perdure/perdure/internal/secrets"
)

// defaultLimit is how many workers may be lost while they execute a task alone.
const defaultLimit = 2

// Options of a Guard.
type Options struct {
	// TaskQueue of the worker.
	TaskQueue string
	// Limit is how many workers may be lost while they execute a workflow task alone,
	// before its run is quarantined. 0 = 2.
	Limit int
	// Computing is how long the worker lets a run compute between two waits.
	Computing time.Duration
	// Full reports whether the worker has no memory for tasks under way with values of
	// so many bytes; they are executed one after the other then. nil = there is always.
	Full func(bytes int64) bool
	// Keys verify operators' signals to quarantined runs. nil = none count.
	Keys *secrets.Keys
	// Alone is called for each task that is executed alone, Quarantined for each run
	// that is quarantined. nil = not called.
	Alone, Quarantined func()
	// Logger logs the guard's actions. nil = slog.Default().
	Logger *slog.Logger
}

// A Guard is between a worker and the workflow tasks of Temporal.
type Guard struct {
	o       Options
	gate    gate
	process string // a random name

	mu      sync.Mutex
	only    *lone          // the task that is executed alone; nil = none, or it was answered
	tries   int            // executions alone so far
	endless map[int]bool   // tries whose code is still running
	stopped bool           // the worker takes no more tasks
	busy    sync.WaitGroup // tasks being taken, and marks being sent
}

// New makes a guard for one worker.
func New(o Options) *Guard {
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	for _, callback := range []*func(){&o.Alone, &o.Quarantined} {
		if *callback == nil {
			*callback = func() {}
		}
	}
	g := &Guard{o: o, process: rand.Text(), endless: map[int]bool{}}
	g.gate.left, g.gate.full = g.abandoned, o.Full
	return g
}

// waitLimit is how long a polled task waits to be executed, at least. Temporal takes it
// back after ten seconds, or later where a run may compute for longer.
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
				proto.Reset(task) // as if the poll gave none
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

// taking counts a task that is being taken, until done is called. The SDK does not wait
// for its polls when a worker stops.
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
	case record.lost(g.process, g.isEndless) >= g.o.Limit:
		g.quarantine(ctx, temporal, req, task, record, log)
		return false
	}
	wait, cancel := context.WithTimeout(ctx, max(waitLimit, g.o.Computing-callLimit))
	defer cancel()
	var bytes int64
	if g.o.Full != nil {
		bytes = valueBytes(task)
	}
	if g.gate.enter(wait, alone, bytes) != nil {
		log.Debug("a task of the run waited too long to be executed; Temporal hands it out again", "alone", alone)
		return false
	}
	return !alone || g.executeAlone(temporal, req, task, record, log)
}

// executeAlone leaves a mark that an admitted task is executed alone, and reports whether
// it may be.
func (g *Guard) executeAlone(temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse, record *Record, log *slog.Logger) bool {
	only := g.lone(temporal, req, task, record)
	if err := g.begun(only); err != nil {
		log.Warn("cannot leave a mark that the run is executed alone, so it is not; Temporal hands it out again", "error", err)
		g.gate.withdraw()
		return false
	}
	log.Warn("a worker may have been lost with the run; it is executed alone", "attempt", task.GetAttempt(), "losses", len(record.Losses))
	g.o.Alone()
	return true
}

// quarantine stops the execution of a run.
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
		return // like the SDK, let Temporal give it out again with growing pauses
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

// fail ends a quarantined run as an operator decided, without executing it.
func (g *Guard) fail(ctx context.Context, temporal workflowservice.WorkflowServiceClient, req *workflowservice.PollWorkflowTaskQueueRequest, task *workflowservice.PollWorkflowTaskQueueResponse, record *Record, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	failure := &failurepb.Failure{Message: "an operator has ended the run, which was " + Reason, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: failureType, NonRetryable: true, Details: record.fail},
	}}
	_, err := temporal.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: task.GetTaskToken(), Namespace: req.GetNamespace(), Identity: identity,
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

// read reads the losses of a task from the history. Temporal sends only the beginning of
// a long one with the task; the end is read separately.
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

// sinceCompleted is the index of the last completion of an executed workflow task; 0 =
// none.
func sinceCompleted(events []*historypb.HistoryEvent) int { return max(lastCompleted(events), 0) }

// lastCompleted is the same; -1 = none.
func lastCompleted(events []*historypb.HistoryEvent) int {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && executed(events[i]) {
			return i
		}
	}
	return -1
}

// tail reads the events since the last completed workflow task.
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
