package runs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/quarantine"
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
	heard   map[string]bool // places of a script of which a line was told; it tells it again in an execution that continues
	whole   bool            // the definition is a script
	far     far             // such a one says it is
	outcome *Outcome
	// proven reports whether a process of the installation has sent a signal of
	// attendance to the run.
	proven func(workflows.Signal) bool
	next   string // Temporal's run ID of the execution that continues this one

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

func newTimeline(c converter.DataConverter) *timeline {
	return &timeline{
		record:    quarantine.NewRecord(""),
		converter: c,
		proven:    func(workflows.Signal) bool { return false }, // who does not follow needs none
		plan:      map[string]planStep{},
		heard:     map[string]bool{},
		under:     map[string]int{},
		done:      map[string]bool{},
		gates:     map[string]*gateRecord{},
		given:     map[string]json.RawMessage{},
		calls:     map[int64]*StepRecord{},
		waits:     map[int64]*StepRecord{},
	}
}

// reads says which execution, by Temporal's run ID, the events are of that follow.
func (t *timeline) reads(execution string) { t.record, t.held = quarantine.NewRecord(execution), false }

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

// scheduled tells that an activity was put on its way. Its summary says which
// step it belongs to; one without is none of a step's.
func (t *timeline) scheduled(e *historypb.HistoryEvent, at time.Time) []Event {
	path, what, ok := t.summary(e)
	if !ok {
		return nil
	}
	// A read that was given up inside the workflow task goes on as an activity, and
	// by one is asked for the outcome of a run that was called before.
	record := t.lastOf(path)
	isOutcome := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == workflows.OutcomeName
	if record == nil || !isOutcome && (!record.quick || record.Status == stepCompleted) {
		record = &StepRecord{Path: path, What: what, Started: at}
		t.records = append(t.records, record)
	}
	record.Status, record.Ended, record.Error, record.quick = stepRunning, nil, "", false
	if t.full {
		var call workflows.ToolCall
		if t.converter.FromPayloads(e.GetActivityTaskScheduledEventAttributes().GetInput(), &call) == nil {
			record.Arguments = call.Arguments
		}
	}
	record.activityID = e.GetActivityTaskScheduledEventAttributes().GetActivityId()
	t.calls[e.EventId] = record
	t.under[topLevel(path)]++
	t.begun(topLevel(path))
	return []Event{t.step(record, false)}
}

// waiting notes that a step, or a line of a script, waits for a time. In an
// execution that continues the run it is the same wait.
func (t *timeline) waiting(e *historypb.HistoryEvent, at time.Time) {
	path, what, ok := t.summary(e)
	if !ok || !strings.HasPrefix(what, workflows.WaitsUntil) {
		return
	}
	record := t.lastOf(path)
	if record == nil || record.What != what || record.Status != stepRunning {
		record = &StepRecord{Path: path, What: what, Status: stepRunning, Started: at}
		t.records = append(t.records, record)
	}
	t.waits[e.EventId] = record
}

func (t *timeline) waited(began int64, at time.Time, status string) {
	if record := t.waits[began]; record != nil {
		record.Status, record.Ended = status, &at
	}
}

// calledRun tells that a step has called another run.
func (t *timeline) calledRun(e *historypb.HistoryEvent, at time.Time) []Event {
	a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
	var in workflows.RunInput
	if t.converter.FromPayloads(a.GetInput(), &in) != nil || in.Parent == nil {
		return nil
	}
	record := &StepRecord{Path: in.Parent.StepPath, What: in.Definition.Name, Status: stepRunning, Started: at, Attempts: 1,
		Run: RunID(a.GetWorkflowId()), Version: in.Definition.Version}
	if t.full {
		record.Arguments = in.Arguments
	}
	t.records = append(t.records, record)
	t.calls[e.EventId] = record
	t.under[topLevel(record.Path)]++
	t.begun(topLevel(record.Path))
	return []Event{t.step(record, false)}
}

// outcomeOf is how a run has ended that was called before, and of which an
// activity has asked.
func (t *timeline) outcomeOf(result *commonpb.Payloads) (status, message string, output json.RawMessage) {
	var outcome workflows.ChildOutcome
	if t.converter.FromPayloads(result, &outcome) != nil || outcome.Failure == nil {
		if outcome.Result != nil {
			output = outcome.Result.Output
		}
		return stepCompleted, "", output
	}
	return stepFailed, outcome.Failure.Error.Message, nil
}

// ended tells that an activity, or a run that was called, came to its end.
func (t *timeline) ended(scheduled int64, at time.Time, status string, result *commonpb.Payloads, f *failurepb.Failure) []Event {
	record := t.calls[scheduled]
	if record == nil {
		return nil
	}
	delete(t.calls, scheduled)
	t.under[topLevel(record.Path)]--
	t.end(record, at, status, result, f)
	return []Event{t.step(record, true)}
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
	t.begun(topLevel(path))
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
	event.StepID, event.StepPath, event.What = topLevel(line.StepPath), line.StepPath, said.String()
	return []Event{event}
}

// A far is how far a script says it is. One that begins to count anew goes on
// after what it has counted.
type far struct {
	before, done, total float64 // total 0 = unknown
}

func (f *far) tell(line workflows.Told) {
	if line.Done <= 0 && line.Total <= 0 { // a line of its log
		return
	}
	if line.Done < f.done {
		f.before += f.done
	}
	f.done, f.total = line.Done, line.Total
}

// all is what there is to do; 0 = unknown.
func (f *far) all() float64 {
	if f.total < f.done {
		return 0
	}
	return f.before + f.total
}

func statusOf(f *failurepb.Failure) string {
	switch {
	case lostWorker(f):
		return stepFailed
	case f.GetTimeoutFailureInfo() != nil:
		return stepTimedOut
	case f.GetCanceledFailureInfo() != nil:
		return stepCancelled
	}
	return stepFailed
}

const lostWords = "the worker that made the call is gone"

// lostWorker says whether a call ended with the worker that made it.
func lostWorker(f *failurepb.Failure) bool {
	return f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT
}

func (t *timeline) end(r *StepRecord, at time.Time, status string, result *commonpb.Payloads, f *failurepb.Failure) {
	r.Status, r.Ended = status, &at
	if f != nil {
		r.Error = t.message(f)
	}
	switch t.category(f) {
	case workflows.CategoryCredentials:
		r.Status = stepNeedsCredentials
		return
	case workflows.CategoryHeld:
		r.Status = StepHeld
		return
	}
	if r.Run != "" && r.activityID != "" && result != nil {
		r.Status, r.Error, r.Output = t.outcomeOf(result)
	} else if t.full && result != nil {
		var output workflows.ToolResult
		if t.converter.FromPayloads(result, &output) == nil {
			r.Output = output.Output
		}
	}
	if !t.mayGoOn(r, f) {
		t.finished(topLevel(r.Path))
	}
}

// mayGoOn says whether more may come of a step after a call: it was that of a
// probe, or nobody knows whether it was executed and the run finds out.
func (t *timeline) mayGoOn(r *StepRecord, f *failurepb.Failure) bool {
	if strings.Contains(r.Path, "/probe#") {
		return true
	}
	known := f == nil || f.GetApplicationFailureInfo() != nil && t.detail(f).Category != workflows.CategoryOutcomeUnknown
	step, tool := t.plan[topLevel(r.Path)], t.input.Tools[r.What]
	asks := cmp.Or(step.OnUnknown, tool.OnUnknown) == definitions.Ask
	return !known && !workflows.Repeatable(tool.Effect) && (asks || step.Probe != nil || tool.Probe != nil)
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
func (t *timeline) category(f *failurepb.Failure) workflows.Category {
	if f == nil {
		return ""
	}
	return t.detail(f).Category
}

// lastOf is the last record of a step path; nil if there is none.
func (t *timeline) lastOf(path string) *StepRecord {
	for i := len(t.records) - 1; i >= 0; i-- {
		if t.records[i].Path == path {
			return t.records[i]
		}
	}
	return nil
}

func (t *timeline) summary(e *historypb.HistoryEvent) (path, what string, ok bool) {
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

// begun notes that a step has started, so that those before it are done. It
// counts those that left no trace of their own, because they were skipped, and
// those of which history does not say that nothing more will come (forEach, and
// calls of unknown outcome).
func (t *timeline) begun(id string) {
	for _, before := range t.plan[id].DependsOn {
		if _, known := t.plan[before]; known && !t.done[before] {
			t.done[before] = true
			t.begun(before)
		}
	}
}

// finished notes that work of a step has ended.
func (t *timeline) finished(id string) {
	s, known := t.plan[id]
	if known && s.Type != definitions.ForEachStep && s.Type != definitions.ScriptStep && t.under[id] <= 0 {
		t.done[id] = true
	}
}

func (t *timeline) step(r *StepRecord, ended bool) Event {
	e := t.event(EventStep)
	e.StepID, e.StepPath, e.What, e.StepEnded = topLevel(r.Path), r.Path, r.What, ended
	if ended {
		e.StepStatus = r.Status
	}
	return e
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

// topLevel is the ID of the step of the definition to which a path belongs.
func topLevel(path string) string {
	if i := strings.IndexAny(path, "[/"); i >= 0 {
		return path[:i]
	}
	return path
}

// indented is JSON for people; what is not JSON stays as it is.
func indented(raw json.RawMessage) string {
	v, err := template.DecodeValue(raw)
	if err != nil {
		return string(raw)
	}
	b, err := template.EncodeValue(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
