// Package quarantine keeps a run that takes its worker down from taking down
// every worker. Temporal hands a workflow task out again when the worker that
// executed it is gone, and again after each restart; who executed it cannot say
// what happened. So a task that was lost is executed alone, with a mark in the
// history of the run, and a run that was lost alone is not executed any more.
package quarantine

import (
	"encoding/json"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// Signals that leave marks in the history of a run. No workflow code reads them.
// Those of operators count with their proof only. Those of workers have none:
// whoever can send one can pause and unpause a run as well.
const (
	// BegunSignal: a worker is about to execute the pending task alone.
	BegunSignal = "perdure-alone-begun"
	// SurvivedSignal: it has executed it, and is still there.
	SurvivedSignal = "perdure-alone-survived"
	// ReleaseSignal: an operator lets the run be executed again.
	ReleaseSignal = "perdure-release"
	// FailSignal: an operator has the run fail, with the details that it brings,
	// without being executed. It means a quarantined run only.
	FailSignal = "perdure-fail"
)

// Identity is that of the answer to a workflow task that no workflow code has
// made, and failureType the type of the failure of one that is not executed.
const (
	Identity    = "perdure-quarantine"
	failureType = "quarantined"
)

// Reason is that of the pause of a quarantined run, by which it is found: the
// search attribute TemporalPauseInfo has it, with "Reason:" before it.
const Reason = "quarantined: it takes its worker down"

// A Loss is a workflow task that was lost with its worker.
type Loss struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker,omitempty"` // its identity: process@host
	Alone  bool      `json:"alone"`            // the worker executed no other run at the time
}

// A Record is what the history of an execution says of the losses of the workflow
// task that is pending. Of several attempts in a row Temporal records the first
// one, and the marks tell of those that were executed alone.
type Record struct {
	Losses []Loss
	Since  time.Time // when the run was quarantined; zero = it is not
	Paused bool      // by Temporal; else workers that are given a task of the quarantined run refuse it

	execution string // Temporal's run ID
	after     int64  // started event of the last task that was completed, which is as far as the run has come
	alone     int    // marks of executions of which the worker has not said that it survived, since the last release
	suspected bool   // it was lost since it was last survived
	survived  bool
	refused   string             // last signal of an operator that has no proof
	proven    Proven             // nil = every signal is
	fail      *commonpb.Payloads // details of the failure with which an operator has the run end; nil = nobody has

	worker  string    // that has started the last task
	started time.Time // the last task
}

// A mark is the content of the signals, which says which task they mean. A reset
// repeats signals in an execution that they do not mean.
type mark struct {
	Execution string `json:"execution"`
	After     int64  `json:"after"`
}

func (m mark) payloads() *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{plain(m)}}
}

// NewRecord is that of an execution, by Temporal's run ID, of which no event was
// added yet. Proven says which signals of operators count; nil = all, for who looks
// on and has no keys.
func NewRecord(execution string, proven Proven) *Record {
	return &Record{execution: execution, proven: proven}
}

// Add takes the next event of the execution's history. The first one may be any
// that is not after the completion of the last workflow task that was completed.
func (r *Record) Add(e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		if executed(e) {
			*r = Record{execution: r.execution, proven: r.proven, after: e.GetWorkflowTaskCompletedEventAttributes().GetStartedEventId()}
		}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		if e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetApplicationFailureInfo().GetType() == failureType && r.Since.IsZero() {
			r.Since = at
		}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		r.worker, r.started = e.GetWorkflowTaskStartedEventAttributes().GetIdentity(), at
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		if e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE {
			r.suspected, r.survived = true, false
			r.Losses = append(r.Losses, Loss{At: at, Worker: r.worker})
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		r.signalled(e.GetWorkflowExecutionSignaledEventAttributes(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_PAUSED:
		if e.GetWorkflowExecutionPausedEventAttributes().GetReason() == Reason {
			r.Paused = true
			if r.Since.IsZero() {
				r.Since = at
			}
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UNPAUSED:
		r.released()
	}
}

func (r *Record) signalled(a *historypb.WorkflowExecutionSignaledEventAttributes, at time.Time) {
	switch name := a.GetSignalName(); {
	case IsDecision(name) && !r.believes(a):
		r.refused = name
		return
	case name == ReleaseSignal:
		r.released()
		return
	case name == FailSignal:
		if r.alone > 0 {
			r.fail = &commonpb.Payloads{Payloads: a.GetInput().GetPayloads()[:min(1, len(a.GetInput().GetPayloads()))]}
		}
		return
	case name != BegunSignal && name != SurvivedSignal:
		return
	}
	var m mark
	for _, p := range a.GetInput().GetPayloads() {
		_ = json.Unmarshal(p.GetData(), &m) // what is none means no task of this run
	}
	if m != r.mark() {
		return
	}
	if a.GetSignalName() == SurvivedSignal {
		r.alone, r.suspected, r.survived = 0, false, true
		r.Losses = nil
		return
	}
	r.alone++
	r.suspected, r.survived = true, false
	loss := Loss{At: at, Worker: a.GetIdentity(), Alone: true}
	// Temporal tells of a signal to a task under way when that is over, so the loss
	// of this very task may be there already.
	if last := len(r.Losses) - 1; last >= 0 && !at.Before(r.started) && !at.After(r.Losses[last].At) {
		r.Losses[last] = loss
		return
	}
	r.Losses = append(r.Losses, loss)
}

// IsDecision reports whether a signal is one of an operator.
func IsDecision(signal string) bool { return signal == ReleaseSignal || signal == FailSignal }

func (r *Record) believes(a *historypb.WorkflowExecutionSignaledEventAttributes) bool {
	return r.proven == nil || r.proven(a.GetSignalName(), a.GetInput())
}

func (r *Record) released() {
	if r.fail == nil { // else it is executed no more
		r.alone, r.Since, r.Paused = 0, time.Time{}, false
	}
}

// executed reports whether the completion of a workflow task says that its run was
// executed.
func executed(completed *historypb.HistoryEvent) bool {
	return completed.GetWorkflowTaskCompletedEventAttributes().GetIdentity() != Identity
}

func (r *Record) mark() mark { return mark{r.execution, r.after} }

// suspect reports whether a task that is handed out for the given time may have
// taken its worker down. One that has failed before is, too, as only the first
// failure in a row is recorded; it is cleared by being executed alone once.
func (r *Record) suspect(attempt int32) bool { return r.suspected || attempt > 1 && !r.survived }

// Guilty reports whether the pending task was lost with its worker for the given
// number of times, all but the first of them alone.
func (r *Record) Guilty(limit int) bool { return r.alone >= max(limit-1, 1) }

// Why says for people why the run is quarantined.
func (r *Record) Why() string {
	text := "its workflow task was lost with its worker, and again where that executed nothing else"
	for _, loss := range r.Losses {
		if loss.Alone {
			text += fmt.Sprintf(": worker %s at %s", loss.Worker, loss.At.UTC().Format(time.RFC3339))
		}
	}
	return text
}
