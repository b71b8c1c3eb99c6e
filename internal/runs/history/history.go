// Package history reads what happened to a run from the history that Temporal keeps
// of it, and plans from the record of an ended run how that run is resumed.
//
// A [Fold] reads a history: executions and their events in, facts out. The stream of
// events, the log, the state of a run, and the look back before a call is repeated are
// made of these facts. [PlanResume] decides what of a record counts, and what is
// executed again.
//
// The package does no I/O and reads no clock.
package history

import (
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/workflows"
)

// A Fold reads the history of a run, event by event, execution by execution, the
// first one first.
type Fold struct {
	codec     codec
	execution execution
	calls     calls
	waits     waits
	gates     gates
	guard     guard
	said      map[workflows.StepPath]bool // places of a script whose line was given; it says it again in an execution that continues
	kept      *workflows.ChildOutcome     // that the event before has kept; nil = none
	undecided []CallEnded                 // reads that failed in the workflow task before, and may go on as activities
}

// An execution is the one that is read.
type execution struct {
	number int64 // in the chain, from 0
	runID  string
	copied int64 // events up to this one are copies of its predecessor's; 0 = none
}

// A Moment is what one event of history says.
type Moment struct {
	Execution int64  // number of the execution in the chain, from 0
	RunID     string // Temporal's, of the execution
	EventID   int64
	At        time.Time
	Facts     []Fact // in order; often none
}

// New makes a Fold of a run that has no execution yet; see Begin. Decided gives, for
// an execution by Temporal's run ID, which signals of operators about a quarantine
// are believed; nil = all are.
func New(c converter.DataConverter, decided func(execution string) quarantine.Proven) *Fold {
	if decided == nil {
		decided = func(string) quarantine.Proven { return nil }
	}
	return &Fold{
		guard:     guard{decided: decided},
		codec:     codec{c},
		execution: execution{number: -1},
		calls:     newCalls(),
		waits:     newWaits(),
		gates:     newGates(),
		said:      map[workflows.StepPath]bool{},
	}
}

// Begin says that the events that follow are of the next execution, and which run
// ID Temporal has given it. The events up to copied are copies of those of the
// execution before, which has been reset: what they say has been said.
func (f *Fold) Begin(runID string, copied int64) {
	f.kept, f.undecided = nil, nil
	f.execution = execution{number: f.execution.number + 1, runID: runID, copied: copied}
	f.calls.next(copied > 0)
	f.waits.next(copied > 0)
	f.gates.next(copied > 0)
	f.guard.next(runID)
}

// Add reads the next event of the execution.
func (f *Fold) Add(e *historypb.HistoryEvent) Moment {
	m := Moment{Execution: f.execution.number, RunID: f.execution.runID, EventID: e.EventId, At: f.codec.happened(e)}
	switch {
	case e.EventId < f.execution.copied:
		f.again(e)
		f.guard.add(f.codec, e)
	case e.EventId == f.execution.copied:
		f.guard.add(f.codec, e)
		m.Facts = append(wasReset(e), f.gates.regained()...)
	default:
		m.Facts = slices.Concat(f.calls.madeAnew(f.codec, e), f.decided(e), f.facts(e, m.At), f.guard.add(f.codec, e))
	}
	return m
}

// happened is the time of an event. That of a local activity has the time when its
// workflow task ended, and in its data when the activity did.
func (c codec) happened(e *historypb.HistoryEvent) time.Time {
	var data struct{ ReplayTime time.Time }
	a := e.GetMarkerRecordedEventAttributes()
	if a.GetMarkerName() == localActivity && c.FromPayloads(a.GetDetails()["data"], &data) == nil && !data.ReplayTime.IsZero() {
		return data.ReplayTime
	}
	return e.EventTime.AsTime()
}

// again reads an event that was read in the execution before.
func (f *Fold) again(e *historypb.HistoryEvent) {
	f.calls.again(f.codec, e)
	f.waits.again(e)
	f.gates.copy(f.codec, e)
}

// facts are what an event says that is no copy.
func (f *Fold) facts(e *historypb.HistoryEvent, at time.Time) []Fact {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return f.began(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return f.calls.started(f.codec, e, at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		return f.calls.tried(f.codec, e.GetActivityTaskStartedEventAttributes())
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		return f.marker(e, at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return f.signalled(e.GetWorkflowExecutionSignaledEventAttributes())
	case enumspb.EVENT_TYPE_TIMER_STARTED, enumspb.EVENT_TYPE_TIMER_FIRED, enumspb.EVENT_TYPE_TIMER_CANCELED:
		return f.waits.add(f.codec, e)
	case enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
		return f.gates.stated(f.codec, e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		return []Fact{CancelRequested{Reason: e.GetWorkflowExecutionCancelRequestedEventAttributes().GetCause()}}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		return wasReset(e)
	}
	if outcome := outcomeOf(f.codec, e); outcome != nil {
		f.waits.ended()
		kept := f.kept
		return []Fact{Ended{outcome.complete(kept), func() *Outcome { return outcomeOf(f.codec, e).complete(kept) }}}
	}
	return f.calls.ended(f.codec, e)
}

// began says how the execution came about, and what it has taken over.
func (f *Fold) began(a *historypb.WorkflowExecutionStartedEventAttributes) []Fact {
	began := Began{How: Called}
	began.Unread = f.codec.FromPayloads(a.GetInput(), &began.Input)
	switch {
	case a.GetContinuedExecutionRunId() != "":
		began.How = Continued
	case began.Input.Resumption != nil:
		began.How = Resumed
	}
	facts := []Fact{began}
	if began.How == Resumed {
		return append(facts, f.gates.dropped()...)
	}
	return append(facts, f.gates.stated(f.codec, a.GetMemo())...)
}

// The names of markers.
const (
	sideEffect    = "SideEffect"
	localActivity = "LocalActivity"
)

// marker reads a local activity, which is in history only when it has ended, or
// what the run has noted of a signal or of a script.
func (f *Fold) marker(e *historypb.HistoryEvent, at time.Time) []Fact {
	switch a := e.GetMarkerRecordedEventAttributes(); a.GetMarkerName() {
	case localActivity:
		return f.quick(e, at)
	case sideEffect:
		if f.kept = f.codec.kept(e); f.kept != nil {
			return nil
		}
		return f.noted(a.GetDetails()["data"])
	}
	return nil
}

// quick reads a call that was executed inside the workflow task. The event of an activity
// of its own, with which a read may go on, is of the same workflow task.
func (f *Fold) quick(e *historypb.HistoryEvent, at time.Time) []Fact {
	ended, ok := f.calls.quick(f.codec, e, at)
	switch {
	case !ok:
		return nil
	case ended.mayGoOn():
		ended.before = at
		f.undecided = append(f.undecided, ended)
		return nil
	}
	return []Fact{ended}
}

// decided are the reads that have failed in the workflow task before an event, and did not
// go on as activities.
func (f *Fold) decided(e *historypb.HistoryEvent) (facts []Fact) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		path, _, _ := f.codec.summary(e)
		f.undecided = slices.DeleteFunc(f.undecided, func(c CallEnded) bool { return c.Call.Path == path })
		return nil
	case enumspb.EVENT_TYPE_MARKER_RECORDED, enumspb.EVENT_TYPE_TIMER_STARTED, enumspb.EVENT_TYPE_TIMER_CANCELED,
		enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
		enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
		enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, enumspb.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		return nil // of the same workflow task
	}
	for _, c := range f.undecided {
		facts = append(facts, c)
	}
	f.undecided = nil
	return facts
}

// wasReset says that an execution was made by resetting the one before.
func wasReset(e *historypb.HistoryEvent) []Fact {
	a := e.GetWorkflowTaskFailedEventAttributes()
	if a.GetCause() != enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
		return nil
	}
	return []Fact{Reset{By: a.GetIdentity(), Reason: a.GetFailure().GetMessage()}}
}

// A RunID names a run: NAME/SUFFIX. It is the Temporal workflow ID.
type RunID string
