package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A LogKind is the kind of a LogEntry.
type LogKind string

// The kinds of log entries.
const (
	LogStarted     LogKind = "run_started"
	LogContinued   LogKind = "run_continued" // in a new execution, as its history had grown long
	LogResumed     LogKind = "run_resumed"   // after it had ended
	LogReset       LogKind = "run_reset"     // reset by Temporal's reset
	LogCancel      LogKind = "cancel_requested"
	LogEnded       LogKind = "run_ended"
	LogCall        LogKind = "call_started"
	LogAttempt     LogKind = "call_attempt" // the second or a later one, as the one before has failed
	LogCalled      LogKind = "call_ended"
	LogWaits       LogKind = "step_waits"
	LogSaid        LogKind = "script_said" // a line of a script's log, or how far it is
	LogAsks        LogKind = "question_opened"
	LogNotAnswered LogKind = "question_not_answered" // it was shown and not answered; the question is still open
	LogAnswered    LogKind = "question_closed"
	LogDecided     LogKind = "decided"          // by an operator: what became of a call, or of undoing a step, or that a credential is there
	LogUntaken     LogKind = "answer_not_taken" // it came too late, or does not fit
	LogRefused     LogKind = "signal_refused"   // without proof that perdure has sent it
	LogUnchecked   LogKind = "signal_unchecked" // it waits for a worker that has the key with which it was signed
	LogFailed      LogKind = "task_failed"      // a worker could not execute the run
	LogLost        LogKind = "worker_lost"      // with the workflow task of the run that it executed
	LogAlone       LogKind = "executed_alone"   // by a worker that executes no other run meanwhile
	LogHeldBack    LogKind = "run_quarantined"
	LogReleased    LogKind = "run_released"
)

// A LogEntry is one thing that happened to a run.
type LogEntry struct {
	At      time.Time          `json:"at"`
	Kind    LogKind            `json:"kind"`
	Step    workflows.StepPath `json:"step,omitempty"`    // step path
	Tool    string             `json:"tool,omitempty"`    // of a call
	Attempt int                `json:"attempt,omitempty"` // of a call
	Status  string             `json:"status,omitempty"`  // of a call or a run that has ended, of a question that is closed
	By      string             `json:"by,omitempty"`      // who called, answered or resumed; of a rejected signal, the claimed sender

	// Of a question that was answered.
	Action   string          `json:"action,omitempty"`
	Content  json.RawMessage `json:"content,omitempty"`
	Via      Channel         `json:"via,omitempty"`
	Decision Meaning         `json:"decision,omitempty"` // where that is more than the action
	Unproven bool            `json:"unproven,omitempty"`

	Text string `json:"text"` // all of it, for people; without time and step
}

// Logs read the events of runs for people.
type logs struct{ *archive }

// Log returns the events of a run in the order of time. With follow it continues with
// new ones until the run has ended.
//
// Of the attempts of a call, Temporal keeps the last one and why the one before
// it failed.
func (l logs) Log(ctx context.Context, id RunID, follow bool) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		var err error
		if follow {
			err = l.logLive(ctx, id, yield)
		} else {
			err = l.logSoFar(ctx, id, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(LogEntry{}, failure(ctx, "reading", id, err))
		}
	}
}

// errEnough reports that the reader wants no more.
var errEnough = errors.New("enough")

func (l logs) logLive(ctx context.Context, id RunID, yield func(LogEntry, error) bool) error {
	var b logbook
	for m, err := range l.live(ctx, id, AllEvents) {
		if err != nil {
			return err
		}
		for _, entry := range b.entries(m.Moment) {
			if !yield(entry, nil) {
				return errEnough
			}
		}
	}
	return b.unreadable(id)
}

// logSoFar returns all entries in the order of time: history has an attempt only when
// its call has ended.
func (l logs) logSoFar(ctx context.Context, id RunID, yield func(LogEntry, error) bool) error {
	var b logbook
	var entries []LogEntry
	var err error
	for m, failed := range l.all(ctx, id) {
		if err = failed; err != nil {
			break
		}
		entries = append(entries, b.entries(m)...)
	}
	if err = cmp.Or(err, b.unreadable(id)); err == nil {
		entries, err = l.withPending(ctx, id, entries)
	}
	slices.SortStableFunc(entries, func(a, b LogEntry) int { return a.At.Compare(b.At) })
	for _, entry := range entries {
		if !yield(entry, nil) {
			return errEnough
		}
	}
	return err
}

// withPending adds what history does not hold yet: the attempts of calls that
// are under way.
func (l logs) withPending(ctx context.Context, id RunID, entries []LogEntry) ([]LogEntry, error) {
	d, err := l.describe(ctx, id)
	if err != nil || !isOpen(d.WorkflowExecutionInfo.Status) {
		return entries, err
	}
	for _, p := range d.PendingActivities {
		if p.Attempt > 1 || p.LastFailure != nil {
			entries = append(entries, l.pendingAttempt(p))
		}
	}
	return entries, nil
}

func (l logs) pendingAttempt(p *workflowpb.PendingActivityInfo) LogEntry {
	at := p.GetLastStartedTime()
	if next := p.GetScheduledTime(); next != nil && p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
		at = next
	}
	entry := LogEntry{At: at.AsTime(), Kind: LogAttempt, Attempt: int(p.Attempt)}
	var progress workflows.StepProgress
	if l.converter.FromPayloads(p.HeartbeatDetails, &progress) == nil {
		entry.Step = progress.StepPath
	}
	entry.Text = attemptText(int(p.Attempt), history.NewFailure(l.converter, p.LastFailure))
	if p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
		entry.Text += "; it waits for its time, or for a worker"
	}
	return entry
}

func attemptText(n int, before history.Failure) string {
	text := fmt.Sprintf("attempt %d", n)
	if !before.None() {
		text += fmt.Sprintf(", as attempt %d failed: %s", n-1, before.Message())
	}
	return text
}
