package runs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/perdure/perdure/workflows"
)

// News is that something may have happened to a run, as this process knows: it has
// given Temporal one of its workflow tasks, or has terminated it. It reports when to
// look and, of a run that has completed, with what: Temporal has accepted that. Of a run
// whose tasks are executed elsewhere there is no news here.
type News struct {
	mu        sync.Mutex
	listening map[RunID][]*ear
}

// An ear hears the news of a run. What was not heard stays. A nil ear hears nothing.
type ear struct {
	of   *News
	id   RunID
	came chan struct{} // has an element while there is news that was not heard

	// Of the lock of News:
	pressing bool                    // some news is of more than the calls of the run
	memo     *commonpb.Memo          // with the state that the run has published last; nil = it has not
	end      *historypb.HistoryEvent // with which the run has completed, as Temporal will have it, but for its number
}

// NewNews makes news that nothing brings yet; see DialOption.
func NewNews() *News { return &News{listening: map[RunID][]*ear{}} }

// DialOption is for the connection of the worker, which brings the news.
func (n *News) DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		switch r := req.(type) {
		case *workflowservice.RespondWorkflowTaskCompletedRequest:
			id := RunID(strings.TrimPrefix(r.GetResourceId(), "workflow:"))
			if err != nil { // which may have been lost on its way back
				n.tell(id, true, nil, nil)
				break
			}
			n.tell(id, pressing(r.GetCommands()), published(r.GetCommands()), completes(r.GetCommands()))
			if next := reply.(*workflowservice.RespondWorkflowTaskCompletedResponse).GetWorkflowTask(); attends(next) {
				n.tell(id, true, nil, nil)
			}
		case *workflowservice.PollWorkflowTaskQueueRequest:
			if task := reply.(*workflowservice.PollWorkflowTaskQueueResponse); err == nil && attends(task) {
				n.tell(RunID(task.GetWorkflowExecution().GetWorkflowId()), true, nil, nil)
			}
		case *workflowservice.TerminateWorkflowExecutionRequest:
			n.tell(RunID(r.GetWorkflowExecution().GetWorkflowId()), true, nil, nil)
		}
		return err
	})
}

// pressing reports whether commands are for more than calls and waits of a run: they end
// it, or change its elicitations.
func pressing(commands []*commandpb.Command) bool {
	return slices.ContainsFunc(commands, func(c *commandpb.Command) bool {
		switch c.GetCommandType() {
		case enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK, enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK, enumspb.COMMAND_TYPE_RECORD_MARKER,
			enumspb.COMMAND_TYPE_START_TIMER, enumspb.COMMAND_TYPE_CANCEL_TIMER, enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			return false
		}
		return true
	})
}

// completes is the event with which a run completes; nil = it does not.
func completes(commands []*commandpb.Command) *historypb.HistoryEvent {
	for _, c := range commands {
		if a := c.GetCompleteWorkflowExecutionCommandAttributes(); a != nil {
			return &historypb.HistoryEvent{
				EventId: unnumbered, EventTime: timestamppb.Now(), EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
				Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
					WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: a.GetResult()},
				},
			}
		}
	}
	return nil
}

// published is the memo with which a run publishes its state; nil = it does not.
func published(commands []*commandpb.Command) (last *commonpb.Memo) {
	for _, c := range commands {
		if m := c.GetModifyWorkflowPropertiesCommandAttributes().GetUpsertedMemo(); m.GetFields()[workflows.MemoState] != nil {
			last = m
		}
	}
	return last
}

// attends reports whether a task shows that a request has signalled its attendance, which
// others answer within a second.
func attends(task *workflowservice.PollWorkflowTaskQueueResponse) bool {
	return slices.ContainsFunc(task.GetHistory().GetEvents(), func(e *historypb.HistoryEvent) bool {
		return e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == workflows.AttachSignal
	})
}

func (n *News) tell(id RunID, pressing bool, memo *commonpb.Memo, end *historypb.HistoryEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.listening[id] {
		e.pressing = e.pressing || pressing
		if memo != nil {
			e.memo = memo
		}
		if end != nil {
			e.end = end
		}
		select {
		case e.came <- struct{}{}:
		default: // there is news already
		}
	}
}

// about has the news of a run until the ear leaves; nil = nothing brings any.
func (n *News) about(id RunID) *ear {
	if n == nil {
		return nil
	}
	e := &ear{of: n, id: id, came: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listening[id] = append(n.listening[id], e)
	return e
}

func (e *ear) leave() {
	if e == nil {
		return
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.of.listening[e.id] = slices.DeleteFunc(e.of.listening[e.id], func(other *ear) bool { return other == e })
	if len(e.of.listening[e.id]) == 0 {
		delete(e.of.listening, e.id)
	}
}

// hear waits for news for a while; false = there is none.
func (e *ear) hear(ctx context.Context, limit time.Duration) bool {
	return e.hearUntil(ctx, limit, limit, func() bool { return true })
}

// hearPressing waits for pressing news for a while or, where there is other news, for
// longer; false = there was no news at all.
func (e *ear) hearPressing(ctx context.Context, limit, longer time.Duration) bool {
	return e.hearUntil(ctx, limit, longer, func() bool {
		e.of.mu.Lock()
		defer e.of.mu.Unlock()
		was := e.pressing
		e.pressing = false
		return was
	})
}

func (e *ear) hearUntil(ctx context.Context, limit, longer time.Duration, enough func() bool) (heard bool) {
	var came <-chan struct{}
	if e != nil {
		came = e.came
	}
	begun := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select { // news goes before the end of the time
		case <-came:
		default:
			select {
			case <-came:
			case <-timer.C:
				return heard
			case <-ctx.Done():
				return heard
			}
		}
		if enough() {
			return true
		}
		if !heard {
			heard = true
			timer.Reset(max(longer, limit) - time.Since(begun))
		}
	}
}

// published is the memo with which the run has published its state last; nil = none that
// is known here.
func (e *ear) published() *commonpb.Memo {
	if e == nil {
		return nil
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	return e.memo
}

// ended is the event with which the run has completed; nil = not that is known here.
func (e *ear) ended() *historypb.HistoryEvent {
	if e == nil {
		return nil
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	return e.end
}
