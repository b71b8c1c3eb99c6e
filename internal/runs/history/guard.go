package history

import (
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/workflows"
)

// A guard reads whether the run is kept from taking its workers down.
type guard struct {
	decided func(execution string) quarantine.Proven
	proven  quarantine.Proven // of the execution that is read; nil = every signal is
	record  *quarantine.Record
	held    bool // it is quarantined, and that was said
}

func (g *guard) next(execution string) {
	g.proven, g.held = g.decided(execution), false
	g.record = quarantine.NewRecord(execution, g.proven)
}

func (g *guard) add(c codec, e *historypb.HistoryEvent) []Fact {
	g.record.Add(e)
	if a := e.GetWorkflowExecutionSignaledEventAttributes(); g.proven != nil && quarantine.IsDecision(a.GetSignalName()) && !g.proven(a.GetSignalName(), a.GetInput()) {
		return []Fact{Ruled{Ruling: workflows.Ruling{Signal: a.GetSignalName(), Verdict: workflows.VerdictRefused, Reason: "it has no proof that perdure has sent it"}}}
	}
	if held := !g.record.Since.IsZero(); held != g.held {
		g.held = held
		if held {
			return []Fact{Quarantined{Since: g.record.Since, Reason: g.record.Why(), Losses: g.record.Losses}}
		}
		var by Released
		_ = c.FromPayloads(e.GetWorkflowExecutionSignaledEventAttributes().GetInput(), &by)
		return []Fact{by}
	}
	return lost(c, e)
}

// lost says that a worker did not execute the run, or executes nothing else.
func lost(c codec, e *historypb.HistoryEvent) []Fact {
	switch failed := e.GetWorkflowTaskFailedEventAttributes(); failed.GetCause() {
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE, enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR:
		return []Fact{TaskFailed{Worker: failed.GetIdentity(), Failure: Failure{c, failed.GetFailure()}}}
	}
	switch a := e.GetWorkflowExecutionSignaledEventAttributes(); {
	case e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE:
		return []Fact{WorkerLost{}}
	case a.GetSignalName() == quarantine.BegunSignal:
		return []Fact{Alone{Worker: a.GetIdentity()}}
	}
	return nil
}
