package runs

import (
	"context"
	"slices"
	"strconv"
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
	mu            sync.Mutex
	subscriptions map[RunID][]*subscription
}

// A subscription has the news of a run, from when it began. News that was not awaited
// stays. A nil subscription has none.
type subscription struct {
	of   *News
	id   RunID
	came chan struct{} // has an element while there is news that was not awaited

	// Of the lock of News:
	news    change // all of it together
	answers bool   // it is for an answer to what a client was asked
}

// A change is what this process has given Temporal of a run. The zero value is of its calls
// and waits only.
type change struct {
	pressing bool                    // of more: the run ends, its elicitations change, or a request attends
	resumes  bool                    // pressing only because the last open elicitation is closed
	memo     *commonpb.Memo          // with the state that the run publishes; nil = it does not
	end      *historypb.HistoryEvent // with which the run completes, as Temporal will have it, but for its number; nil = it does not
}

// NewNews makes news that nothing brings yet; see DialOption.
func NewNews() *News { return &News{subscriptions: map[RunID][]*subscription{}} }

// DialOption is for the connection of the worker, which brings the news.
func (n *News) DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		switch r := req.(type) {
		case *workflowservice.RespondWorkflowTaskCompletedRequest:
			id := RunID(strings.TrimPrefix(r.GetResourceId(), "workflow:"))
			if err != nil { // which may have been lost on its way back
				n.publish(id, change{pressing: true})
				break
			}
			n.publish(id, changeOf(r.GetCommands()))
			if next := reply.(*workflowservice.RespondWorkflowTaskCompletedResponse).GetWorkflowTask(); attends(next) {
				n.publish(id, change{pressing: true})
			}
		case *workflowservice.PollWorkflowTaskQueueRequest:
			if task := reply.(*workflowservice.PollWorkflowTaskQueueResponse); err == nil && attends(task) {
				n.publish(RunID(task.GetWorkflowExecution().GetWorkflowId()), change{pressing: true})
			}
		case *workflowservice.TerminateWorkflowExecutionRequest:
			n.publish(RunID(r.GetWorkflowExecution().GetWorkflowId()), change{pressing: true})
		}
		return err
	})
}

// changeOf reads the commands with which a workflow task ends.
func changeOf(commands []*commandpb.Command) (c change) {
	other := false // is pressing
	for _, command := range commands {
		if status := command.GetUpsertWorkflowSearchAttributesCommandAttributes().GetSearchAttributes().GetIndexedFields()[workflows.AttrStatus]; status != nil {
			c.resumes = string(status.GetData()) != strconv.Quote(string(workflows.Waiting))
		}
		switch command.GetCommandType() {
		case enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK, enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK, enumspb.COMMAND_TYPE_RECORD_MARKER,
			enumspb.COMMAND_TYPE_START_TIMER, enumspb.COMMAND_TYPE_CANCEL_TIMER, enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			continue
		}
		c.pressing = true
		if a := command.GetCompleteWorkflowExecutionCommandAttributes(); a != nil {
			c.end = completedEvent(a.GetResult())
		}
		if m := command.GetModifyWorkflowPropertiesCommandAttributes().GetUpsertedMemo(); m.GetFields()[workflows.MemoState] != nil {
			c.memo = m
			continue
		}
		other = true
	}
	c.resumes = c.resumes && c.memo != nil && !other
	return c
}

// completedEvent is the event with which a run completes.
func completedEvent(result *commonpb.Payloads) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{
		EventId: unnumbered, EventTime: timestamppb.Now(), EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: result},
		},
	}
}

// attends reports whether a task shows that a request has signalled its attendance, which
// others answer within a second.
func attends(task *workflowservice.PollWorkflowTaskQueueResponse) bool {
	return slices.ContainsFunc(task.GetHistory().GetEvents(), func(e *historypb.HistoryEvent) bool {
		return e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == workflows.AttachSignal
	})
}

// answering reports whether a client's answer is being given to a run that at most one other
// follows here, the client's own request: who has answered knows what that closes. The lock
// is held.
func (n *News) answering(id RunID) bool {
	all := n.subscriptions[id]
	return len(all) <= 2 && slices.ContainsFunc(all, func(s *subscription) bool { return s.answers })
}

// publish brings a change to all that have subscribed.
func (n *News) publish(id RunID, c change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pressing := c.pressing && !(c.resumes && n.answering(id))
	for _, s := range n.subscriptions[id] {
		s.news.pressing = s.news.pressing || pressing
		if c.memo != nil {
			s.news.memo = c.memo
		}
		if c.end != nil {
			s.news.end = c.end
		}
		select {
		case s.came <- struct{}{}:
		default: // there is news already
		}
	}
}

// subscribe has the news of a run until the subscription is cancelled; nil = nothing
// brings any.
func (n *News) subscribe(id RunID) *subscription {
	if n == nil {
		return nil
	}
	s := &subscription{of: n, id: id, came: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subscriptions[id] = append(n.subscriptions[id], s)
	return s
}

// forAnswer notes whether a subscription is for a client's answer.
func (s *subscription) forAnswer(is bool) {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.answers = is
}

func (s *subscription) cancel() {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	all := slices.DeleteFunc(s.of.subscriptions[s.id], func(other *subscription) bool { return other == s })
	if s.of.subscriptions[s.id] = all; len(all) == 0 {
		delete(s.of.subscriptions, s.id)
	}
}

// await waits for news for a while; false = there is none.
func (s *subscription) await(ctx context.Context, limit time.Duration) bool {
	return s.awaitUntil(ctx, limit, limit, func() bool { return true })
}

// awaitPressing waits for pressing news for a while or, where there is other news, for
// longer; false = there was no news at all.
func (s *subscription) awaitPressing(ctx context.Context, limit, longer time.Duration) bool {
	return s.awaitUntil(ctx, limit, longer, func() bool {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		was := s.news.pressing
		s.news.pressing = false
		return was
	})
}

func (s *subscription) awaitUntil(ctx context.Context, limit, longer time.Duration, enough func() bool) (news bool) {
	var came <-chan struct{}
	if s != nil {
		came = s.came
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
				return news
			case <-ctx.Done():
				return news
			}
		}
		if enough() {
			return true
		}
		if !news {
			news = true
			timer.Reset(max(longer, limit) - time.Since(begun))
		}
	}
}

// latest is all the news so far together; zero = there is none.
func (s *subscription) latest() change {
	if s == nil {
		return change{}
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.news
}
