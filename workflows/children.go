package workflows

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Children are the runs that a run calls.
type children struct {
	*origin
	tasks      *tasks
	journal    *record.Journal
	budget     *budget
	gates      *gates
	signals    *signals
	references *references
	results    *results

	tree   Tree                 // with the calls of this execution
	slots  workflow.Semaphore   // each called run takes one
	called map[StepPath]*called // that have not ended, by step path
	failed []failedBelow        // that did not complete, in the order of their ends
	early  []ChildReport        // of runs that no step listens to yet
}

// A ChildReport is what a called run reports to its caller.
type ChildReport struct {
	RunID       string       `json:"runId"`                 // the sender
	StepPath    StepPath     `json:"stepPath"`              // of the step that has called it
	Elicitation *Elicitation `json:"elicitation,omitempty"` // that has opened or closed, as its own state has it
	Ends        bool         `json:"ends,omitempty"`        // the run ends
}

// readReport hands on the reports of called runs, also when the run has failed and waits
// for them to end. A report about a step that has not been reached is kept until it is.
func (cs *children) readReport(_ workflow.Context, s Signal, _ bool) reading {
	var report ChildReport
	unreadable := json.Unmarshal(s.Body, &report) != nil
	return reading{take: func(ctx workflow.Context, _ Ruling) {
		switch call := cs.called[report.StepPath]; {
		case unreadable:
		case call != nil:
			cs.takeReport(ctx, call, report)
		default:
			cs.early = append(cs.early, report)
		}
	}}
}

// expect begins to listen to a called run. What it had asked when this one
// continued as new is open again.
func (cs *children) expect(ctx workflow.Context, call *called) {
	cs.called[call.path] = call
	cs.gates.reopenBelow(ctx, call)
	early := cs.early
	cs.early = nil
	for _, report := range early {
		if report.StepPath == call.path {
			cs.takeReport(ctx, call, report)
		} else {
			cs.early = append(cs.early, report)
		}
	}
}

// dismiss ends that: the run has ended, and asks nothing any more.
func (cs *children) dismiss(ctx workflow.Context, call *called) {
	if cs.called[call.path] != call {
		return
	}
	delete(cs.called, call.path)
	cs.gates.dropBelow(ctx, call)
}

func (cs *children) takeReport(ctx workflow.Context, call *called, report ChildReport) {
	if report.RunID != call.id {
		return // which the step had called before
	}
	call.over = call.over || report.Ends
	if report.Elicitation == nil {
		return
	}
	e := *report.Elicitation
	e.ID, e.StepPath, e.StepID = call.path.RelayedID(e.ID), call.path.Below(e.StepPath), call.path.Top()
	e.Run, e.Askings = cmp.Or(e.Run, call.id), nil
	cs.gates.updateBelow(ctx, call, e)
}

// passOn gives an answer to the called run that asks.
func (cs *children) passOn(ctx workflow.Context, call *called, a Answer) {
	if own, ok := call.path.CalledID(a.ElicitationID); ok {
		a.ElicitationID = own
	}
	cs.signals.send(ctx, call.id, AnswerSignal, a, func(err error) {
		if err != nil {
			workflow.GetLogger(ctx).Warn("an answer could not be passed on", "run", call.id, "elicitation", a.ElicitationID, "error", err.Error())
		}
	})
}

// childBefore is a run that a step has called and that has completed, or what a person has
// given instead, if that counts for a digest of arguments.
func (cs *children) childBefore(path StepPath, digest string) (record.Child, bool) {
	if given, ok := record.Found[record.Given](cs.journal, path, digest); ok {
		return record.Child{Output: given.Output, Effects: given.Effects}, true
	}
	return record.Found[record.Child](cs.journal, path, digest)
}

// noteEffects keeps the effects of a called run that has ended. A terminated one has
// not reported them, so they are unknown.
func (cs *children) noteEffects(end childEnd) {
	path := end.call.path
	child, ok := cs.journal.At(path).Kind.(record.Child)
	if !ok || end.Result != nil { // that is kept with the result
		return
	}
	if f := end.Failure; f == nil || f.Error.BrokeDown() {
		child.OutcomeUnknown = true
	} else {
		child.Effects = f.Effects
	}
	cs.journal.Amend(path, child)
}

// leave notes that it is not known what a called run has done that has ended.
func (cs *children) leave(path StepPath) {
	if child, ok := cs.journal.At(path).Kind.(record.Child); ok {
		child.OutcomeUnknown = true
		cs.journal.Amend(path, child)
	}
}

// undone adds what the runs that did not complete have undone, and what they have not, as
// far as there is room.
func (cs *children) undone(f *Failure) {
	room := maxUndoneBelow
	for _, below := range cs.failed {
		f.Uncompensated = append(f.Uncompensated, fitting(below.seen(below.Uncompensated), &room)...)
		f.Compensated = append(f.Compensated, fitting(below.seen(below.Compensated), &room)...)
	}
}

// partial adds the outputs of their steps that have completed.
func (cs *children) partial(p *partial) {
	for _, below := range slices.SortedStableFunc(slices.Values(cs.failed), func(a, b failedBelow) int { return cmp.Compare(a.path, b.path) }) {
		for _, id := range slices.Sorted(maps.Keys(below.Partial)) {
			p.add(below.path.Below(id), below.Partial[id])
		}
		p.omit(below.seen(below.Omitted)...)
	}
}
