package workflows

import (
	"cmp"
	"encoding/json"
	"strings"

	"go.temporal.io/sdk/workflow"
)

// Relay shows the elicitations of called runs as those of this run, and passes the
// answers on.
type relay struct {
	gates   *gates
	signals *signals

	called map[StepPath]*called // that have not ended, by step path
	early  []ChildReport        // of runs that no step listens to yet
}

// A ChildReport is what a called run reports to its caller.
type ChildReport struct {
	RunID       string       `json:"runId"`                 // the sender
	StepPath    StepPath     `json:"stepPath"`              // of the step that has called it
	Elicitation *Elicitation `json:"elicitation,omitempty"` // that has opened or closed, as its own state has it
	Ends        bool         `json:"ends,omitempty"`        // the run ends
	Round       string       `json:"round,omitempty"`       // RunInput.Round of the sender
}

// readReport hands on the reports of called runs, also when the run has failed and waits
// for them to end. A report about a step that has not been reached is kept until it is.
func (rl *relay) readReport(_ workflow.Context, s Signal, _ bool) reading {
	var report ChildReport
	unreadable := json.Unmarshal(s.Body, &report) != nil
	return reading{take: func(ctx workflow.Context, _ Ruling) {
		switch call := rl.called[report.StepPath]; {
		case unreadable:
		case call != nil:
			rl.takeReport(ctx, call, report)
		default:
			rl.early = append(rl.early, report)
		}
	}}
}

// expect begins to listen to a called run. What it had asked when this one
// continued as new is open again.
func (rl *relay) expect(ctx workflow.Context, call *called) {
	rl.called[call.path] = call
	rl.gates.reopenBelow(ctx, call)
	early := rl.early
	rl.early = nil
	for _, report := range early {
		if report.StepPath == call.path {
			rl.takeReport(ctx, call, report)
		} else {
			rl.early = append(rl.early, report)
		}
	}
}

// dismiss ends that: the run has ended, and asks nothing any more.
func (rl *relay) dismiss(ctx workflow.Context, call *called) {
	if rl.called[call.path] != call {
		return
	}
	delete(rl.called, call.path)
	rl.gates.dropBelow(ctx, call, func(Elicitation) bool { return true })
}

func (rl *relay) takeReport(ctx workflow.Context, call *called, report ChildReport) {
	if report.RunID != call.id {
		return // which the step had called before
	}
	if !call.hears(report.Round) {
		return
	}
	rl.gates.dropBelow(ctx, call, func(e Elicitation) bool { return !strings.Contains(e.Round, report.Round) })
	call.over = call.over || report.Ends
	if report.Elicitation == nil {
		return
	}
	e := *report.Elicitation
	e.ID, e.StepPath, e.StepID = call.path.RelayedID(e.ID), call.path.Below(e.StepPath), call.path.Top()
	e.Run, e.Questions = cmp.Or(e.Run, call.id), nil
	rl.gates.updateBelow(ctx, call, e)
}

// passOn gives an answer to the called run that asks. One that takes none has ended: as it was
// terminated before this run was reset, nothing else reports that.
func (rl *relay) passOn(ctx workflow.Context, call *called, a Answer) {
	if own, ok := call.path.CalledID(a.ElicitationID); ok {
		a.ElicitationID = own
	}
	rl.signals.send(ctx, call.id, AnswerSignal, a, func(err error) {
		if err != nil {
			workflow.GetLogger(ctx).Warn("an answer could not be passed on", "run", call.id, "elicitation", a.ElicitationID, "error", err.Error())
			call.over = true
		}
	})
}
