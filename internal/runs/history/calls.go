package history

import (
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// A Call is one of a tool, or of another run. A read that was given up inside the
// workflow task and goes on as an activity is the same call; so is that of a run
// whose outcome an activity asks for.
type Call struct {
	Path     workflows.StepPath // of the step; "" = it is none of a step's, or cannot be read
	What     string             // the tool, or the name of what the called run executes
	Run      string             // that was called; "" = it is a call of a tool
	Version  string             // of what that run executes; "" = it has none
	Started  time.Time
	Attempts int    // that workers have taken up
	Activity string // ID of the last activity that makes it; "" = it has none
	Type     string // of that activity

	quick     bool // executed inside the workflow task
	completed bool
	kept      int64 // event that ended the called run, which has kept its outcome; 0 = none
}

// calls are those of a run, and which of them are under way.
type calls struct {
	pending[Call]
	last map[workflows.StepPath]*Call
	anew []CallStarted // calls of tools that were under way at the point of a reset
}

func newCalls() calls {
	return calls{pending: newPending[Call](), last: map[workflows.StepPath]*Call{}}
}

// started reads that an activity was put on its way, or that a run was called.
func (c *calls) started(codec codec, e *historypb.HistoryEvent, at time.Time) []Fact {
	var call *Call
	var input *commonpb.Payloads
	if e.EventType == enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED {
		a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		call, input = c.ofRun(codec, a, at), a.GetInput()
	} else {
		call, input = c.ofActivity(codec, e, at), e.GetActivityTaskScheduledEventAttributes().GetInput()
	}
	if call == nil {
		return nil
	}
	c.begin(e.EventId, call)
	return []Fact{CallStarted{call, input, codec}}
}

func (c *calls) ofActivity(codec codec, e *historypb.HistoryEvent, at time.Time) *Call {
	a := e.GetActivityTaskScheduledEventAttributes()
	path, what, _ := codec.summary(e)
	call := c.last[path]
	isOutcome := a.GetActivityType().GetName() == workflows.OutcomeName
	if call == nil || path == "" || !isOutcome && (!call.quick || call.completed) {
		call = c.add(&Call{Path: path, What: what, Started: at})
	}
	if call.quick { // it ended there, and begins again
		call.Started = at
	}
	if call.kept != 0 {
		c.end(call.kept)
	}
	call.quick, call.completed, call.kept = false, false, 0
	call.Activity, call.Type = a.GetActivityId(), a.GetActivityType().GetName()
	return call
}

// ofRun is nil if no step has called the run.
func (c *calls) ofRun(codec codec, a *historypb.StartChildWorkflowExecutionInitiatedEventAttributes, at time.Time) *Call {
	var in workflows.RunInput
	if codec.FromPayloads(a.GetInput(), &in) != nil || in.Parent == nil {
		return nil
	}
	return c.add(&Call{Path: in.Parent.StepPath, What: in.Definition.Name, Run: a.GetWorkflowId(), Version: in.Definition.Version, Started: at, Attempts: 1})
}

func (c *calls) add(call *Call) *Call {
	c.last[call.Path] = call
	return call
}

// tried reads that a worker has taken a call up.
func (c *calls) tried(codec codec, a *historypb.ActivityTaskStartedEventAttributes) []Fact {
	call := c.underWay[a.GetScheduledEventId()]
	if call == nil {
		return nil
	}
	number := max(int(a.GetAttempt()), 1)
	call.Attempts += number
	return []Fact{CallTried{call, number, Failure{codec, a.GetLastFailure()}}}
}

// quick reads a call that was executed inside the workflow task; false = it is none of a
// step's.
func (c *calls) quick(codec codec, e *historypb.HistoryEvent, at time.Time) (ended CallEnded, ok bool) {
	path, what, ok := codec.summary(e)
	if !ok {
		return CallEnded{}, false
	}
	a := e.GetMarkerRecordedEventAttributes()
	call := c.add(&Call{Path: path, What: what, Started: at, Attempts: 1, quick: true})
	end := callEnd{status: StepCompleted, result: a.GetDetails()["result"], failure: a.GetFailure()}
	if end.failure != nil {
		end.status = Failure{codec, end.failure}.status()
	}
	ended = end.of(codec, call)
	if result, err := ended.ToolResult(); err == nil {
		call.Started = at.Add(-result.Took)
	}
	return ended, true
}

// mayGoOn reports whether a read that failed inside the workflow task may be made again as
// an activity of its own.
func (c CallEnded) mayGoOn() bool {
	f := c.Failure.failure
	return f.GetTimeoutFailureInfo() != nil || f.GetApplicationFailureInfo() != nil && !f.GetApplicationFailureInfo().GetNonRetryable()
}

// ended reads that a call has come to its end.
func (c *calls) ended(codec codec, e *historypb.HistoryEvent) []Fact {
	end, ok := callEndOf(codec, e)
	if !ok {
		return nil
	}
	call := c.end(end.began)
	if call != nil && end.keeps(codec) { // until an activity has asked for it
		call.kept = e.EventId
		c.begin(e.EventId, call)
		return nil
	}
	if call == nil || end.nothing || (Failure{codec, end.failure}).byReset() {
		return nil
	}
	return []Fact{end.of(codec, call)}
}

// again reads an event that was read before the reset.
func (c *calls) again(codec codec, e *historypb.HistoryEvent) {
	if call := c.pending.again(e.EventId); call != nil && call.Type == workflows.CallToolName {
		c.anew = append(c.anew, CallStarted{call, e.GetActivityTaskScheduledEventAttributes().GetInput(), codec})
	}
	if end, ok := callEndOf(codec, e); ok {
		c.isNotAnew(c.end(end.began))
	}
}

func (c *calls) isNotAnew(call *Call) {
	c.anew = slices.DeleteFunc(c.anew, func(s CallStarted) bool { return s.Call == call })
}

// madeAnew are the calls that a reset has put on their way again, before the first event
// that does not say of one of them that the reset has given it up.
func (c *calls) madeAnew(codec codec, e *historypb.HistoryEvent) (facts []Fact) {
	if end, ok := callEndOf(codec, e); ok && (Failure{codec, end.failure}).byReset() {
		c.isNotAnew(c.underWay[end.began])
		return nil
	}
	for _, s := range c.anew {
		facts = append(facts, s)
	}
	c.anew = nil
	return facts
}

// keeps says whether a called run has ended that has kept its outcome.
func (end callEnd) keeps(c codec) bool {
	var result workflows.RunResult
	var failure workflows.Failure
	details := end.failure.GetApplicationFailureInfo().GetDetails()
	switch {
	case !end.ofRun:
		return false
	case end.result != nil:
		return c.FromPayloads(end.result, &result) == nil && result.Kept > 0
	case end.details != nil:
		details = end.details
	}
	return c.FromPayloads(details, &failure) == nil && failure.Kept > 0
}

// A callEnd is how an event says that a call has ended.
type callEnd struct {
	began   int64 // event that began the call
	status  string
	result  *commonpb.Payloads
	failure *failurepb.Failure
	why     string // for people, where there is no failure
	unsent  bool
	nothing bool               // the run that was to be called was there already
	ofRun   bool               // that was called
	details *commonpb.Payloads // of its cancellation
}

// callEndOf takes apart each of the events with which a call may end.
func callEndOf(c codec, e *historypb.HistoryEvent) (end callEnd, ok bool) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		return callEnd{began: a.GetScheduledEventId(), status: StepCompleted, result: a.GetResult()}, true
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		return callEnd{began: a.GetScheduledEventId(), status: StepFailed, failure: a.GetFailure()}, true
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		return callEnd{began: a.GetScheduledEventId(), status: Failure{c, a.GetFailure()}.status(), failure: a.GetFailure()}, true
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		a := e.GetActivityTaskCanceledEventAttributes()
		return callEnd{began: a.GetScheduledEventId(), status: StepCancelled, unsent: a.GetStartedEventId() == 0}, true
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		return callEnd{began: e.GetStartChildWorkflowExecutionFailedEventAttributes().GetInitiatedEventId(), nothing: true}, true
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		a := e.GetChildWorkflowExecutionCompletedEventAttributes()
		return callEnd{began: a.GetInitiatedEventId(), status: StepCompleted, result: a.GetResult(), ofRun: true}, true
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
		a := e.GetChildWorkflowExecutionFailedEventAttributes()
		return callEnd{began: a.GetInitiatedEventId(), status: StepFailed, failure: a.GetFailure(), ofRun: true}, true
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED:
		a := e.GetChildWorkflowExecutionCanceledEventAttributes()
		return callEnd{began: a.GetInitiatedEventId(), status: StepCancelled, details: a.GetDetails(), ofRun: true}, true
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED:
		return callEnd{began: e.GetChildWorkflowExecutionTerminatedEventAttributes().GetInitiatedEventId(), status: StepFailed, why: "the run was terminated"}, true
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
		return callEnd{began: e.GetChildWorkflowExecutionTimedOutEventAttributes().GetInitiatedEventId(), status: StepTimedOut}, true
	}
	return callEnd{}, false
}

// of says what the call has come to.
func (end callEnd) of(codec codec, call *Call) CallEnded {
	failure := Failure{codec, end.failure}
	ended := CallEnded{Call: call, Status: end.status, Failure: failure, Message: failure.Message(), Unsent: end.unsent, Quick: call.quick, result: end.result, codec: codec}
	switch failure.Reported().Category {
	case codes.CategoryCredentials:
		ended.Status = StepNeedsCredentials
	case codes.CategoryHeld:
		ended.Status = StepHeld
	}
	if outcome := ended.called(); outcome != nil {
		ended.Status, ended.Message = StepCompleted, ""
		if outcome.Failure != nil {
			ended.Status, ended.Message = StepFailed, outcome.Failure.Error.Message
		}
	}
	if ended.Message == "" {
		ended.Message = end.why
	}
	call.completed = ended.Status == StepCompleted
	return ended
}

// called is how the run has ended whose outcome an activity has asked for; nil =
// the call was none of those, or has failed.
func (c CallEnded) called() *workflows.ChildOutcome {
	if c.Call.Run == "" || c.Call.Activity == "" || c.result == nil {
		return nil
	}
	var outcome workflows.ChildOutcome
	_ = c.codec.FromPayloads(c.result, &outcome)
	return &outcome
}
