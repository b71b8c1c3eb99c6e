package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/perdure/perdure/workflows"
)

// A LogKind says what a LogEntry tells.
type LogKind string

// The kinds of log entries.
const (
	LogStarted   LogKind = "run_started"
	LogContinued LogKind = "run_continued" // in a new execution, as its history had grown long
	LogRepaired  LogKind = "run_repaired"  // somebody has retried it
	LogReset     LogKind = "run_reset"     // somebody has used Temporal's reset
	LogCancel    LogKind = "cancel_requested"
	LogEnded     LogKind = "run_ended"
	LogCall      LogKind = "call_started"
	LogAttempt   LogKind = "call_attempt" // the second or a later one, as the one before has failed
	LogCalled    LogKind = "call_ended"
	LogWaits     LogKind = "step_waits"
	LogSaid      LogKind = "script_said" // a line of a script's log, or how far it is
	LogAsks      LogKind = "question_opened"
	LogUnheard   LogKind = "question_not_answered" // somebody was asked and did not answer; the question is still open
	LogAnswered  LogKind = "question_closed"
	LogDecided   LogKind = "decided"          // by an operator: what became of a call, or of undoing a step, or that a credential is there
	LogUntaken   LogKind = "answer_not_taken" // it came too late, or does not fit
	LogRefused   LogKind = "signal_refused"   // nobody has proved that perdure has sent it
	LogUnchecked LogKind = "signal_unchecked" // it waits for a worker that has the key with which it was signed
	LogLost      LogKind = "worker_lost"      // with the workflow task of the run that it executed
	LogAlone     LogKind = "executed_alone"   // by a worker that executes no other run meanwhile
	LogHeldBack  LogKind = "run_quarantined"
	LogReleased  LogKind = "run_released"
)

// A LogEntry is one thing that happened to a run.
type LogEntry struct {
	At      time.Time          `json:"at"`
	Kind    LogKind            `json:"kind"`
	Step    workflows.StepPath `json:"step,omitempty"`    // step path
	Tool    string             `json:"tool,omitempty"`    // of a call
	Attempt int                `json:"attempt,omitempty"` // of a call
	Status  string             `json:"status,omitempty"`  // of a call or a run that has ended, of a question that is closed
	By      string             `json:"by,omitempty"`      // who called, answered or repaired; of what is refused, who it says it is

	// Of a question that was answered.
	Action   string          `json:"action,omitempty"`
	Content  json.RawMessage `json:"content,omitempty"`
	Via      Channel         `json:"via,omitempty"`
	Decision Meaning         `json:"decision,omitempty"` // where that is more than the action
	Unproven bool            `json:"unproven,omitempty"`

	Text string `json:"text"` // all of it, for people; without time and step
}

// Log tells what has happened to a run, in the order of time. With follow it
// goes on with what happens, as it happens, until the run has ended.
//
// Of the attempts of a call, Temporal keeps the last one and why the one before
// it failed.
func (c *Client) Log(ctx context.Context, id RunID, follow bool) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		var entries []LogEntry
		b := &logbook{timeline: c.timelineOf(id)}
		b.timeline.answers = true
		f := &follower{client: c, id: id, timeline: b.timeline, once: !follow}
		f.each = func(e *historypb.HistoryEvent, events []Event, _ bool) bool {
			for _, entry := range b.entries(e, events) {
				if !follow {
					entries = append(entries, entry)
				} else if !yield(entry, nil) {
					return false
				}
			}
			return true
		}
		err := f.run(ctx)
		if err == nil && b.timeline.unread != nil {
			err = fmt.Errorf("reading the input of run %s: %w", id, b.timeline.unread)
		}
		if err == nil && !follow {
			entries, err = c.withPending(ctx, id, entries)
		}
		slices.SortStableFunc(entries, func(a, b LogEntry) int { return a.At.Compare(b.At) })
		for _, entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
		if err != nil && !f.stopped {
			yield(LogEntry{}, failure(ctx, "reading", id, err))
		}
	}
}

// withPending adds what history does not hold yet: the attempts of calls that
// are under way.
func (c *Client) withPending(ctx context.Context, id RunID, entries []LogEntry) ([]LogEntry, error) {
	d, err := c.describe(ctx, id)
	if err != nil || !isOpen(d.WorkflowExecutionInfo.Status) {
		return entries, err
	}
	t := newTimeline(c.converter)
	for _, p := range d.PendingActivities {
		if p.Attempt > 1 || p.LastFailure != nil {
			entries = append(entries, t.pendingAttempt(p))
		}
	}
	return entries, nil
}

func (t *timeline) pendingAttempt(p *workflowpb.PendingActivityInfo) LogEntry {
	at := p.GetLastStartedTime()
	if next := p.GetScheduledTime(); next != nil && p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
		at = next
	}
	entry := LogEntry{At: at.AsTime(), Kind: LogAttempt, Attempt: int(p.Attempt)}
	var progress StepProgress
	if t.converter.FromPayloads(p.HeartbeatDetails, &progress) == nil {
		entry.Step = progress.StepPath
	}
	entry.Text = attemptText(int(p.Attempt), p.LastFailure != nil, t.message(p.LastFailure))
	if p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
		entry.Text += "; it waits for its time, or for a worker"
	}
	return entry
}

func attemptText(n int, failed bool, why string) string {
	text := fmt.Sprintf("attempt %d", n)
	if failed {
		text += fmt.Sprintf(", as attempt %d failed: %s", n-1, why)
	}
	return text
}

// A logbook makes log entries of what happens in history.
type logbook struct {
	timeline *timeline
}

// entries are what one event of history and the events that the timeline has
// made of it tell.
func (b *logbook) entries(e *historypb.HistoryEvent, events []Event) []LogEntry {
	at := e.GetEventTime().AsTime()
	var told []LogEntry
	if entry, ok := b.entry(e); ok {
		told = append(told, entry)
	}
	for _, event := range events {
		told = append(told, b.told(event))
	}
	for i := range told {
		told[i].At = at
	}
	return told
}

// entry is what an event of history tells that is none of the timeline's.
func (b *logbook) entry(e *historypb.HistoryEvent) (LogEntry, bool) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return b.began(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		a := e.GetWorkflowTaskFailedEventAttributes()
		if a.GetCause() != enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			return LogEntry{}, false
		}
		return LogEntry{Kind: LogReset, By: a.GetIdentity(), Text: "the run was reset: " + cmp.Or(a.GetFailure().GetMessage(), "no reason given")}, true
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		a := e.GetWorkflowExecutionCancelRequestedEventAttributes()
		return LogEntry{Kind: LogCancel, Text: withReason("cancellation requested", a.GetCause())}, true
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		r := b.timeline.calls[a.GetScheduledEventId()]
		if r == nil || a.GetAttempt() < 2 {
			return LogEntry{}, false
		}
		return LogEntry{Kind: LogAttempt, Step: r.Path, Tool: r.What, Attempt: int(a.GetAttempt()),
			Text: attemptText(int(a.GetAttempt()), a.GetLastFailure() != nil, b.timeline.message(a.GetLastFailure()))}, true
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		path, what, ok := b.timeline.summary(e)
		if !ok || !strings.HasPrefix(what, "waits ") || what == workflows.WaitsForAnswer {
			return LogEntry{}, false
		}
		return LogEntry{Kind: LogWaits, Step: path, Text: what}, true
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		if a := e.GetMarkerRecordedEventAttributes(); a.GetMarkerName() == "SideEffect" {
			return b.ruled(a.GetDetails()["data"])
		}
	}
	return b.lost(e)
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// began tells how an execution came about.
func (b *logbook) began(a *historypb.WorkflowExecutionStartedEventAttributes) (LogEntry, bool) {
	var in workflows.RunInput
	_ = b.timeline.converter.FromPayloads(a.GetInput(), &in) // what cannot be read is told without its names
	switch {
	case a.GetContinuedExecutionRunId() != "":
		return LogEntry{Kind: LogContinued, Text: "goes on in a new execution, as its history has grown long"}, true
	case in.Repair != nil:
		return LogEntry{Kind: LogRepaired, By: in.Repair.By, Text: fmt.Sprintf("repair %d by %s: resumed", in.Repair.Time, cmp.Or(in.Repair.By, "unknown"))}, true
	}
	return LogEntry{Kind: LogStarted, By: in.Caller.Subject, Text: fmt.Sprintf("%s %s was called by %s", in.Definition.Name, cmp.Or(in.Definition.Version, shortDigest(in.Definition.Digest)), callerName(in.Caller))}, true
}

// ruled tells of a signal that was not taken.
func (b *logbook) ruled(data *commonpb.Payloads) (LogEntry, bool) {
	made, ok := b.timeline.ruling(data)
	entry := LogEntry{Step: workflows.StepPath(made.ElicitationID), By: made.By, Action: made.Action}
	if g := b.timeline.gates[made.ElicitationID]; g != nil {
		entry.Step = g.StepPath
	}
	says := "signal " + made.Signal
	if made.Signal == workflows.AnswerSignal {
		says = fmt.Sprintf("answer %s, claims to be from %s", made.Action, cmp.Or(made.By, "nobody"))
	}
	switch {
	case !ok:
		return entry, false
	case made.Verdict == workflows.VerdictRefused:
		entry.Kind, entry.Text = LogRefused, fmt.Sprintf("refused: %s: %s", says, made.Reason)
	case made.Verdict == workflows.VerdictHeld && !made.Again:
		entry.Kind, entry.Text = LogUnchecked, fmt.Sprintf("not checked yet: %s: no worker has had its signing key %s", says, made.Key)
	case made.Verdict == workflows.VerdictUntaken:
		entry.Kind, entry.Text = LogUntaken, fmt.Sprintf("%s answers %s, which is not taken: %s", cmp.Or(made.By, "somebody"), made.Action, made.Reason)
	default:
		return entry, false
	}
	return entry, true
}

// told is what an event of the timeline tells.
func (b *logbook) told(e Event) LogEntry {
	switch e.Kind {
	case EventStep:
		return b.call(e)
	case EventSaid:
		return LogEntry{Kind: LogSaid, Step: e.StepPath, Text: e.What}
	case EventDone:
		return ending(e.Outcome)
	case EventQuarantined:
		return LogEntry{Kind: LogHeldBack, Text: "quarantined, and not executed until somebody releases it: " + e.What}
	case EventReleased:
		return LogEntry{Kind: LogReleased, Text: strings.TrimSpace("released " + e.What)}
	}
	return b.asked(e)
}

// asked is what became of a question.
func (b *logbook) asked(e Event) LogEntry {
	q := e.Elicitation
	entry := LogEntry{Step: q.StepPath, By: q.By, Status: string(q.State)}
	switch e.Kind {
	case EventOpened:
		entry.Kind, entry.Text = LogAsks, "asks: "+q.Message
		if !q.Expires.IsZero() {
			entry.Text += " (until " + q.Expires.UTC().Format(time.RFC3339) + ")"
		}
	case EventAsked:
		entry.Kind, entry.By = LogUnheard, ""
		entry.Text = withReason("the client was asked and did not answer: "+string(e.Asking.Outcome), e.Asking.Reason)
	default:
		entry.Kind, entry.Text = LogAnswered, Decided(*q)
		if q.Decision != "" {
			entry.Kind = LogDecided
		}
		entry.Action, entry.Content, entry.Via, entry.Decision, entry.Unproven = q.Action, q.Content, q.Via, q.Decision, q.Unproven
	}
	return entry
}

func (b *logbook) call(e Event) LogEntry {
	entry := LogEntry{Kind: LogCall, Step: e.StepPath, Tool: e.What, Text: "calls " + e.What}
	if !e.StepEnded {
		return entry
	}
	entry.Kind, entry.Status = LogCalled, e.StepStatus
	entry.Text = e.What + " " + e.StepStatus
	if r := b.timeline.lastOf(e.StepPath); r != nil {
		entry.Attempt, entry.Text = r.Attempts, withReason(entry.Text, r.Error)
	}
	return entry
}

func ending(o *Outcome) LogEntry {
	entry := LogEntry{Kind: LogEnded, Status: string(o.Status), Text: string(o.Status)}
	if o.Failure != nil {
		entry.Text = withReason(entry.Text, o.Failure.Error.Message)
	}
	return entry
}
