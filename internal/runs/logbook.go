package runs

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A logbook makes log entries of what has happened to a run.
type logbook struct {
	unread error // why the input of the run was not read; nil = it was
}

// unreadable reports that the input of a run was not read; nil = it was.
func (b *logbook) unreadable(id RunID) error {
	if b.unread == nil {
		return nil
	}
	return fmt.Errorf("reading the input of run %s: %w", id, b.unread)
}

func (b *logbook) entries(m history.Moment) (entries []LogEntry) {
	for _, fact := range m.Facts {
		if f, ok := fact.(history.Began); ok && m.Execution == 0 {
			b.unread = f.Unread
		}
		if entry := entryOf(fact); entry.Kind != "" {
			entry.At = m.At
			entries = append(entries, entry)
		}
	}
	return entries
}

// entryOf is the log entry of a fact; one without a kind is not logged.
func entryOf(fact history.Fact) LogEntry {
	switch f := fact.(type) {
	case history.Began:
		return began(f)
	case history.Reset:
		return LogEntry{Kind: LogReset, By: f.By, Text: "the run was reset: " + cmp.Or(f.Reason, "no reason given")}
	case history.CancelRequested:
		return LogEntry{Kind: LogCancel, Text: withReason("cancellation requested", f.Reason)}
	case history.CallStarted, history.CallTried, history.CallEnded:
		return callEntry(f)
	case history.WaitStarted:
		return LogEntry{Kind: LogWaits, Step: f.Wait.Path, Text: f.Wait.What}
	case history.Said:
		return LogEntry{Kind: LogSaid, Step: f.StepPath, Text: said(f, time.Time{}).String()}
	case history.ElicitationChanged:
		return elicitationEntry(f)
	case history.Ruled:
		return ruled(f)
	case history.Ended:
		return ending(f.Outcome)
	}
	return guardEntry(fact)
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// began logs how an execution started. If its input cannot be read, the names are
// missing.
func began(f history.Began) LogEntry {
	in := f.Input
	switch f.How {
	case history.Continued:
		return LogEntry{Kind: LogContinued, Text: "continues in a new execution, as its history has grown long"}
	case history.Resumed:
		return LogEntry{Kind: LogResumed, By: in.Resumption.By, Text: fmt.Sprintf("resumption %d by %s: resumed", in.Resumption.Number, cmp.Or(in.Resumption.By, "unknown"))}
	}
	return LogEntry{Kind: LogStarted, By: in.Caller.Subject, Text: fmt.Sprintf("%s %s was called by %s", in.Definition.Name, cmp.Or(in.Definition.Version, shortDigest(in.Definition.Digest)), callerName(in.Caller))}
}

// callEntry is an event of a call; the first attempt is not logged.
func callEntry(fact history.Fact) LogEntry {
	var call *history.Call
	entry := LogEntry{Kind: LogCall}
	switch f := fact.(type) {
	case history.CallStarted:
		call, entry.Text = f.Call, "calls "+f.Call.What
	case history.CallTried:
		if f.Number < 2 {
			return LogEntry{}
		}
		call, entry.Kind, entry.Attempt, entry.Text = f.Call, LogAttempt, f.Number, attemptText(f.Number, f.Before)
	case history.CallEnded:
		call, entry.Kind, entry.Attempt, entry.Status = f.Call, LogCalled, f.Call.Attempts, f.Status
		entry.Text = withReason(f.Call.What+" "+f.Status, f.Message)
	}
	if call.Path == "" {
		return LogEntry{}
	}
	entry.Step, entry.Tool = call.Path, call.What
	return entry
}

// ruled logs a rejected signal.
func ruled(f history.Ruled) LogEntry {
	entry := LogEntry{Step: f.Path, By: f.By, Action: f.Action}
	says := "signal " + f.Signal
	if f.Signal == workflows.AnswerSignal {
		says = fmt.Sprintf("answer %s, claims to be from %s", f.Action, cmp.Or(f.By, "nobody"))
	}
	switch {
	case f.Verdict == workflows.VerdictRefused:
		entry.Kind, entry.Text = LogRefused, fmt.Sprintf("refused: %s: %s", says, f.Reason)
	case f.Verdict == workflows.VerdictHeld && !f.Again:
		entry.Kind, entry.Text = LogUnchecked, fmt.Sprintf("not checked yet: %s: no worker has had its signing key %s", says, f.Key)
	case f.Verdict == workflows.VerdictUntaken:
		entry.Kind, entry.Text = LogUntaken, fmt.Sprintf("%s answers %s, which is not taken: %s", cmp.Or(f.By, "somebody"), f.Action, f.Reason)
	}
	return entry
}

// elicitationEntry is what became of a question.
func elicitationEntry(f history.ElicitationChanged) LogEntry {
	q := f.Elicitation
	entry := LogEntry{Step: q.StepPath, By: q.By, Status: string(q.State)}
	switch f.Change {
	case history.Opened:
		entry.Kind, entry.Text = LogAsks, "asks: "+q.Message
		if !q.Expires.IsZero() {
			entry.Text += " (until " + q.Expires.UTC().Format(time.RFC3339) + ")"
		}
	case history.Asked:
		entry.Kind, entry.By = LogNotAnswered, ""
		entry.Text = withReason("the client was asked and did not answer: "+string(f.Question.Outcome), f.Question.Reason)
	default:
		entry.Kind, entry.Text = LogAnswered, Decided(q)
		if q.Decision != "" {
			entry.Kind = LogDecided
		}
		entry.Action, entry.Content, entry.Via, entry.Decision, entry.Unproven = q.Action, q.Content, q.Via, q.Decision, q.Unproven
	}
	return entry
}

// guardEntry logs a quarantine, and what precedes and follows it.
func guardEntry(fact history.Fact) LogEntry {
	switch f := fact.(type) {
	case history.TaskFailed:
		return LogEntry{Kind: LogFailed, By: f.Worker, Text: notExecuted(f)}
	case history.WorkerLost:
		return LogEntry{Kind: LogLost, Text: "the worker that executed the run was lost, or took too long"}
	case history.Alone:
		return LogEntry{Kind: LogAlone, By: f.Worker, Text: "worker " + f.Worker + " executes the run and nothing else, as a worker may have been lost with it"}
	case history.Quarantined:
		return LogEntry{Kind: LogHeldBack, Text: "quarantined, and not executed until an operator releases it: " + f.Reason}
	case history.Released:
		return LogEntry{Kind: LogReleased, Text: strings.TrimSpace("released " + byWhom(f))}
	}
	return LogEntry{}
}

// notExecuted says which worker could not execute a run, and why.
func notExecuted(f history.TaskFailed) string {
	return fmt.Sprintf("worker %s cannot execute the run, which waits for one that can: %s", f.Worker, f.Failure.Message())
}

func ending(o *Outcome) LogEntry {
	entry := LogEntry{Kind: LogEnded, Status: string(o.Status), Text: string(o.Status)}
	if o.Failure != nil {
		entry.Text = withReason(entry.Text, o.Failure.Error.Message)
	}
	return entry
}
