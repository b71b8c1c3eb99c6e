// Package quarantine keeps a run that takes its worker down from taking down every
// worker. Temporal gives out a workflow task again when its worker is gone, and again
// after each restart; the lost worker cannot report what happened. So a lost task is
// executed alone, with a mark in the history of the run, and a run with which several
// workers were lost alone is no longer executed.
package quarantine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// Signals that leave marks in the history of a run. No workflow code reads them.
// Those of operators count only with a proof. Those of workers have none: a sender who
// can forge one can pause and unpause runs anyway.
const (
	// BegunSignal: a worker is about to execute the pending task alone.
	BegunSignal = "perdure-alone-begun"
	// SurvivedSignal: it has executed it, and still works.
	SurvivedSignal = "perdure-alone-survived"
	// ReleaseSignal: an operator lets the run be executed again.
	ReleaseSignal = "perdure-release"
	// FailSignal: an operator lets the run fail with these details, without executing
	// it. It has no effect on a run that was executed since its last loss.
	FailSignal = "perdure-fail"
)

// Signals are all of these.
var Signals = []string{BegunSignal, SurvivedSignal, ReleaseSignal, FailSignal}

// identity is the sender of answers to workflow tasks that were not executed, and
// failureType the type of their failures.
const (
	identity    = "perdure-quarantine"
	failureType = "quarantined"
)

// Reason is the reason of a quarantined run's pause. The search attribute
// TemporalPauseInfo has it, after "Reason:", so that lists find the run.
const Reason = "quarantined: it takes its worker down"

// A Loss is a workflow task that was lost with its worker.
type Loss struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker,omitempty"` // its identity: process@host
	Alone  bool      `json:"alone"`            // the worker executed no other run at the time
}

// A Record has the losses of the pending workflow task, from the history of an
// execution. Temporal records only the first of several attempts; the marks record
// those that were executed alone.
type Record struct {
	Losses []Loss
	Since  time.Time // when the run was quarantined; zero = it is not
	Paused bool      // by Temporal; else workers refuse tasks of the quarantined run

	execution string // Temporal's run ID
	after     int64  // started event of the last completed task
	begun     []try  // executions alone without a survived mark, since the last release
	suspected bool   // it was lost since the last survived mark
	survived  bool
	refused   string             // last signal of an operator without a valid proof
	proven    Proven             // nil = every signal is
	fail      *commonpb.Payloads // details of the failure by an operator; nil = none

	worker  string    // of the last task
	started time.Time // of the last task
}

// A mark is the content of a signal.
type mark struct {
	task
	try
}

// A task is the one that a mark means. After a reset, signals are also in an execution
// that they do not mean.
type task struct {
	Execution string `json:"execution"`
	After     int64  `json:"after"`
}

// A try is an execution alone: the process, by a random name, and which of its tries.
type try struct {
	Process string `json:"process"`
	Number  int    `json:"number"`
}

func (m mark) payloads() *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{plain(m)}}
}

// NewRecord is an empty record of an execution, by Temporal's run ID. Proven says which
// signals of operators count; nil = all, for observers without keys.
func NewRecord(execution string, proven Proven) *Record {
	return &Record{execution: execution, proven: proven}
}

// Add takes the next event of the execution's history. The first one may be any up to
// the completion of the last completed workflow task.
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
		if r.suspected { // also of a run that was released and not executed since
			r.fail = &commonpb.Payloads{Payloads: a.GetInput().GetPayloads()[:min(1, len(a.GetInput().GetPayloads()))]}
			r.Since = cmp.Or(r.Since, at)
		}
		return
	case name != BegunSignal && name != SurvivedSignal:
		return
	}
	var m mark
	for _, p := range a.GetInput().GetPayloads() {
		_ = json.Unmarshal(p.GetData(), &m) // an invalid mark means no task of this run
	}
	if m.task != r.task() {
		return
	}
	if a.GetSignalName() == SurvivedSignal {
		r.begun, r.suspected, r.survived = nil, false, true
		r.Losses = nil
		return
	}
	r.begun = append(r.begun, m.try)
	r.suspected, r.survived = true, false
	loss := Loss{At: at, Worker: a.GetIdentity(), Alone: true}
	// Temporal records a signal during a task after the task, so the loss of this task
	// may be recorded already.
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
	if r.fail == nil { // else it is no longer executed
		r.begun, r.Since, r.Paused = nil, time.Time{}, false
	}
}

// executed reports whether a completed workflow task was really executed.
func executed(completed *historypb.HistoryEvent) bool {
	return completed.GetWorkflowTaskCompletedEventAttributes().GetIdentity() != identity
}

func (r *Record) task() task { return task{r.execution, r.after} }

// suspect reports whether a task with this attempt may have taken its worker down. One
// that has failed before counts, too, since only the first failure in a row is
// recorded; executing it alone once clears it.
func (r *Record) suspect(attempt int32) bool { return r.suspected || attempt > 1 && !r.survived }

// lost is how many processes were lost with the pending task while they executed it
// alone. Of its own tries, a process knows which count; another is lost once, as it has
// survived all its tries but the last.
func (r *Record) lost(process string, counts func(number int) bool) int {
	own, others := 0, map[string]bool{}
	for _, b := range r.begun {
		switch {
		case b.Process != process:
			others[b.Process] = true
		case counts(b.Number):
			own++
		}
	}
	return own + len(others)
}

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
