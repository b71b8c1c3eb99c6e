package runs

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/workflows"
)

// What a step's execution came to, as StepRecord.Status and Event.StepStatus
// say it.
const (
	stepRunning   = "running"
	stepCompleted = "completed"
	stepFailed    = "failed"
	stepCancelled = "cancelled"
	stepTimedOut  = "timed_out"
	// A call was not executed for lack of a credential; it is made again.
	stepNeedsCredentials = "needs_credentials"
)

// A Seq is made of the number of the execution in its chain, the ID of the
// history event, and the number of the event among those that it tells of.
const (
	seqEventBits = 12
	seqChainBits = 36
)

// A timeline reads the history of a run, event by event, and tells what it
// means. What it tells depends on nothing but the history.
type timeline struct {
	converter converter.DataConverter
	execution int64 // in the chain, from 0
	full      bool  // keep arguments and outputs in records
	answers   bool  // keep what was answered

	input   workflows.RunInput // of the first execution
	unread  error              // why input is empty; nil = it is not
	began   time.Time          // the first execution
	records []*StepRecord
	said    []Said
	heard   map[workflows.StepPath]bool // places of a script of which a line was told; it tells it again in an execution that continues
	whole   bool                        // the definition is a script
	far     far                         // such a one says it is
	outcome *Outcome
	// proven reports whether a process of the installation has sent a signal of
	// attendance to the run.
	proven func(workflows.Signal) bool
	next   string // Temporal's run ID of the execution that continues this one

	run     RunID
	keys    *signing.Keys     // that check what operators have decided about a quarantine; nil = that is not checked
	decided quarantine.Proven // of the execution that is read, with them

	plan     map[string]planStep
	calls    map[int64]*StepRecord // under way, by the event that scheduled them
	waits    map[int64]*StepRecord // waits for a time, by the event that began them
	under    map[string]int        // calls under way, by step ID
	done     map[string]bool       // by step ID
	gates    map[string]*gateRecord
	asked    []string                   // IDs of gates, in the order of opening
	given    map[string]json.RawMessage // contents of answers, by their IDs
	refused  []RefusedSignal
	record   *quarantine.Record // of the execution that is read
	held     bool               // the run is quarantined, and whoever follows it was told
	eventID  int64
	sequence int64 // of the next event of eventID
}

// A planStep is what the definition says of a step, as far as counting needs.
type planStep struct {
	ID        string               `json:"id"`
	Type      definitions.StepType `json:"type"`
	DependsOn []string             `json:"dependsOn"`

	OnUnknown definitions.OnUnknown `json:"onUnknown"`
	Probe     json.RawMessage       `json:"probe"`
}

// A gateRecord is an elicitation as the run last told of it.
type gateRecord struct {
	Elicitation
	record *StepRecord
}

// timelineOf is the timeline of a run of which nothing was read yet.
func (c *Client) timelineOf(id RunID) *timeline {
	t := newTimeline(c.converter)
	t.run, t.keys = id, c.keys
	return t
}

func newTimeline(c converter.DataConverter) *timeline {
	return &timeline{
		record:    quarantine.NewRecord("", nil),
		converter: c,
		proven:    func(workflows.Signal) bool { return false }, // who does not follow needs none
		plan:      map[string]planStep{},
		heard:     map[workflows.StepPath]bool{},
		under:     map[string]int{},
		done:      map[string]bool{},
		gates:     map[string]*gateRecord{},
		given:     map[string]json.RawMessage{},
		calls:     map[int64]*StepRecord{},
		waits:     map[int64]*StepRecord{},
	}
}

// reads says which execution, by Temporal's run ID, the events are of that follow.
func (t *timeline) reads(execution string) {
	t.decided = nil
	if t.keys != nil {
		t.decided = quarantine.ProvenBy(t.keys, &commonpb.WorkflowExecution{WorkflowId: string(t.run), RunId: execution})
	}
	t.record, t.held = quarantine.NewRecord(execution, t.decided), false
}

// nextExecution goes on with the execution that continues the last one.
func (t *timeline) nextExecution() {
	t.execution++
	t.next, t.outcome = "", nil
	t.calls, t.waits, t.under = map[int64]*StepRecord{}, map[int64]*StepRecord{}, map[string]int{}
}

// add reads one history event and returns what it tells, in order.
func (t *timeline) add(e *historypb.HistoryEvent) []Event {
	t.eventID, t.sequence = e.EventId, 0
	at := e.EventTime.AsTime()
	if events := t.quarantined(e); events != nil {
		return events
	}
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return t.started(e.GetWorkflowExecutionStartedEventAttributes(), at)

	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return t.scheduled(e, at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if r := t.calls[a.GetScheduledEventId()]; r != nil {
			r.Attempts += max(int(a.GetAttempt()), 1)
		}
		return nil
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		return t.ended(a.GetScheduledEventId(), at, stepCompleted, a.GetResult(), nil)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		return t.ended(a.GetScheduledEventId(), at, stepFailed, nil, a.GetFailure())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		return t.ended(a.GetScheduledEventId(), at, statusOf(a.GetFailure()), nil, a.GetFailure())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		a := e.GetActivityTaskCanceledEventAttributes()
		return t.ended(a.GetScheduledEventId(), at, stepCancelled, nil, nil)
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		return t.marker(e, at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return t.signalled(e.GetWorkflowExecutionSignaledEventAttributes(), at)

	case enumspb.EVENT_TYPE_TIMER_STARTED:
		t.waiting(e, at)
		return nil
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		t.waited(e.GetTimerFiredEventAttributes().GetStartedEventId(), at, stepCompleted)
		return nil
	case enumspb.EVENT_TYPE_TIMER_CANCELED:
		t.waited(e.GetTimerCanceledEventAttributes().GetStartedEventId(), at, stepCancelled)
		return nil

	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return t.calledRun(e, at)
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		delete(t.calls, e.GetStartChildWorkflowExecutionFailedEventAttributes().GetInitiatedEventId()) // it was there already
		return nil
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		a := e.GetChildWorkflowExecutionCompletedEventAttributes()
		return t.ended(a.GetInitiatedEventId(), at, stepCompleted, a.GetResult(), nil)
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
		a := e.GetChildWorkflowExecutionFailedEventAttributes()
		return t.ended(a.GetInitiatedEventId(), at, stepFailed, nil, a.GetFailure())
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED:
		return t.ended(e.GetChildWorkflowExecutionCanceledEventAttributes().GetInitiatedEventId(), at, stepCancelled, nil, nil)
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED:
		return t.ended(e.GetChildWorkflowExecutionTerminatedEventAttributes().GetInitiatedEventId(), at, stepCancelled, nil, nil)
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
		return t.ended(e.GetChildWorkflowExecutionTimedOutEventAttributes().GetInitiatedEventId(), at, stepTimedOut, nil, nil)

	case enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
		return t.memo(e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo(), at)

	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		t.next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		return nil
	}
	if outcome := closing(t.converter, e); outcome != nil {
		return t.closed(outcome, at)
	}
	return nil
}

func (t *timeline) started(a *historypb.WorkflowExecutionStartedEventAttributes, at time.Time) []Event {
	if t.execution == 0 {
		t.began = at
		t.unread = t.converter.FromPayloads(a.GetInput(), &t.input) // without it nothing is counted
		var source struct {
			Steps []planStep `json:"steps"`
		}
		_ = json.Unmarshal(t.input.Definition.Source, &source)
		if len(source.Steps) == 0 {
			t.whole = true
			source.Steps = []planStep{{ID: definitions.ScriptID, Type: definitions.ScriptStep}}
		}
		for _, s := range source.Steps {
			t.plan[s.ID] = s
		}
	} else if events := t.repaired(a); events != nil {
		return events
	}
	return t.memo(a.GetMemo(), at) // of the execution that this one continues
}

// repaired tells that questions are not asked any more which were open when the
// run ended without a word; the execution that repairs it asks anew.
func (t *timeline) repaired(a *historypb.WorkflowExecutionStartedEventAttributes) []Event {
	var in workflows.RunInput
	if t.converter.FromPayloads(a.GetInput(), &in) != nil || in.Repair == nil || a.GetContinuedExecutionRunId() != "" {
		return nil
	}
	var events []Event
	for _, id := range slices.Sorted(maps.Keys(t.gates)) {
		if g := t.gates[id]; g.State == workflows.ElicitationOpen {
			g.State, g.Schema = workflows.ElicitationDropped, nil
			event := t.event(EventClosed)
			asked := g.Elicitation
			event.Elicitation = &asked
			events = append(events, event)
		}
	}
	return events
}

// marker tells of a local activity, which is in history only when it ended.
func (t *timeline) marker(e *historypb.HistoryEvent, at time.Time) []Event {
	a := e.GetMarkerRecordedEventAttributes()
	if a.GetMarkerName() == "SideEffect" {
		t.ruled(a.GetDetails()["data"], at)
		return t.told(a.GetDetails()["data"], at)
	}
	if a.GetMarkerName() != "LocalActivity" {
		return nil
	}
	path, what, ok := t.summary(e)
	if !ok {
		return nil
	}
	record := &StepRecord{Path: path, What: what, Started: at, Attempts: 1, quick: true}
	t.records = append(t.records, record)
	t.begun(path.Top())
	status := stepCompleted
	if a.GetFailure() != nil {
		status = statusOf(a.GetFailure())
	}
	t.end(record, at, status, a.GetDetails()["result"], a.GetFailure())
	return []Event{t.step(record, true)}
}

// told reads what a script says of its work.
func (t *timeline) told(data *commonpb.Payloads, at time.Time) []Event {
	var line workflows.Told
	if t.converter.FromPayloads(data, &line) != nil || line.StepPath == "" || t.heard[line.StepPath] {
		return nil
	}
	t.heard[line.StepPath] = true
	said := Said{At: at, StepPath: line.StepPath, Message: line.Message, Done: line.Done, Total: line.Total}
	t.said = append(t.said, said)
	t.far.tell(line)
	event := t.event(EventSaid)
	event.StepID, event.StepPath, event.What = line.StepPath.Top(), line.StepPath, said.String()
	return []Event{event}
}

// message is what a failed call says to people.
func (t *timeline) message(f *failurepb.Failure) string {
	e := t.detail(f)
	switch {
	case lostWorker(f) && e.Message != "":
		return lostWords + "; the attempt before failed: " + e.Message
	case lostWorker(f):
		return lostWords
	case e.Message != "":
		return e.Message
	}
	return failureMessage(t.converter, f)
}

// failureMessage is the message of a failure, sealed or not.
func failureMessage(c converter.DataConverter, f *failurepb.Failure) string {
	converter.DecodeCommonFailureAttributes(c, f)
	return f.GetMessage()
}

// detail is what the activity reported; the zero Error if it did not.
func (t *timeline) detail(f *failurepb.Failure) (e Error) {
	app := f.GetApplicationFailureInfo()
	if app == nil {
		app = f.GetCause().GetApplicationFailureInfo()
	}
	if app == nil || t.converter.FromPayloads(app.Details, &e) != nil {
		return Error{}
	}
	var ended Failure // of a run that was called
	if e.Code == "" && t.converter.FromPayloads(app.Details, &ended) == nil {
		return ended.Error
	}
	return e
}

// category is that of what the activity reported; "" if it did not.
func (t *timeline) category(f *failurepb.Failure) codes.Category {
	if f == nil {
		return ""
	}
	return t.detail(f).Category
}

func (t *timeline) summary(e *historypb.HistoryEvent) (path workflows.StepPath, what string, ok bool) {
	var text string
	if s := e.GetUserMetadata().GetSummary(); s == nil || t.converter.FromPayload(s, &text) != nil {
		return "", "", false
	}
	return workflows.ReadSummary(text)
}

func (t *timeline) closed(outcome *Outcome, at time.Time) []Event {
	t.outcome = outcome
	if outcome.Status == workflows.Completed {
		for id := range t.plan {
			t.done[id] = true
		}
	}
	for _, r := range t.records {
		if r.Status == stepRunning { // nothing of a run outlives it
			r.Status, r.Ended = stepCancelled, &at
		}
	}
	event := t.event(EventDone)
	event.Outcome = outcome
	return []Event{event}
}

func (t *timeline) event(kind EventKind) Event {
	e := Event{
		Seq:      t.execution<<seqChainBits | t.eventID<<seqEventBits | t.sequence,
		Kind:     kind,
		Done:     float64(len(t.done)),
		Total:    float64(len(t.plan)),
		ByScript: t.whole,
	}
	if t.whole {
		e.Done, e.Total = t.far.before+t.far.done, t.far.all()
	}
	t.sequence++
	return e
}
