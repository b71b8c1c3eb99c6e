package workflows

import (
	"fmt"
	"maps"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/visible"
	"github.com/perdure/perdure/workflows/record"
)

var (
	statusKey  = temporal.NewSearchAttributeKeyKeyword(AttrStatus)
	waitingKey = temporal.NewSearchAttributeKeyKeyword(AttrWaiting)
)

// publish tells the world where the run stands: the memo for those who follow
// it, search attributes for those who look for it, current details for those
// who read it in the Web UI.
func (r *run) publish(ctx workflow.Context, status Status) {
	logger := workflow.GetLogger(ctx)
	held := ""
	if status == Running {
		held = r.heldBy()
	}
	waiting := holdUpdate(held)
	if status != Waiting && status != Running {
		r.takeBack(ctx)
	}
	switch {
	case status == Waiting:
		waiting = waitingKey.ValueSet(r.waitsFor())
	case len(r.gates.state.Elicitations) == 0 && r.holds.shown == held:
		// A run that never waited has nothing to take back.
		if err := workflow.UpsertTypedSearchAttributes(ctx, statusKey.ValueSet(string(status))); err != nil {
			logger.Error("publishing the status", "error", err)
		}
		r.showDetails(ctx)
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, statusKey.ValueSet(string(status)), waiting); err != nil {
		logger.Error("publishing the status", "error", err)
	}
	r.holds.shown = held
	r.publishState(ctx)
	r.showDetails(ctx)
}

// takeBack drops what the execution before has asked and this one, which ends,
// has not come to ask again.
func (r *run) takeBack(ctx workflow.Context) {
	for _, e := range r.in.Open {
		if r.gates.asked(e.ID) {
			continue
		}
		e.State, e.Schema, e.Call, e.Askings = ElicitationDropped, nil, nil, nil
		r.gates.state.Elicitations = append(r.gates.state.Elicitations, e)
	}
}

// publishNow publishes what changed while the run goes on.
func (r *run) publishNow(ctx workflow.Context) {
	if len(r.gates.waiting()) > 0 {
		r.publish(ctx, Waiting)
	} else {
		r.publish(ctx, Running)
	}
}

// publishState puts the state into the memo.
func (r *run) publishState(ctx workflow.Context) {
	for !r.tasks.fits(ctx, r.gates.state.fit()) { // others may change the state meanwhile
		r.tasks.next(ctx)
	}
	r.gates.state.Unchecked = r.signals.shown()
	r.tasks.carries(ctx)
	if err := workflow.UpsertMemo(ctx, map[string]any{MemoState: r.gates.state}); err != nil {
		workflow.GetLogger(ctx).Error("publishing the state", "error", err)
	}
	r.tellParent(ctx)
}

// size is how many bytes the memo has of the state.
func (s *State) size() (total int) {
	for _, e := range s.Elicitations {
		total += openBytes(e)
	}
	return total
}

// waitsFor names what an open elicitation means for the run; what operators
// must do comes first.
func (r *run) waitsFor() string {
	if len(r.signals.unchecked) > 0 {
		return HeldByKey
	}
	for _, e := range r.gates.waiting() {
		if e.Kind != Question {
			return string(e.Kind)
		}
	}
	return WaitsFor(Question)
}

// WaitsFor names what a run waits for while an elicitation of the kind is open.
func WaitsFor(kind ElicitationKind) string {
	if kind == Question {
		return "approval"
	}
	return string(kind)
}

// showDetails writes the table of steps that the Web UI shows.
func (r *run) showDetails(ctx workflow.Context) {
	var b strings.Builder
	for _, e := range r.gates.waiting() {
		until := ""
		if !e.Expires.IsZero() {
			until = " until " + e.Expires.UTC().Format("2006-01-02 15:04 MST")
		}
		fmt.Fprintf(&b, "**%s waits for an answer**%s: %s\n\n", e.StepPath, until, oneLine(e.Message))
	}
	for _, u := range r.signals.unchecked {
		fmt.Fprintf(&b, "**a signal waits for a worker that has the key %s**, with which it was signed: %s %s\n\n", oneLine(u.Key), u.Name, oneLine(u.ElicitationID))
	}
	for _, line := range r.holds.details() {
		b.WriteString(line + "\n\n")
	}
	for _, path := range workflow.DeterministicKeys(r.scripts.running) {
		for i, w := range r.scripts.running[path].waiting {
			if i == maxShownWaits {
				fmt.Fprintf(&b, "… and %d more places\n\n", len(r.scripts.running[path].waiting)-i)
				break
			}
			fmt.Fprintf(&b, "**%s, line %d of %s**: %s\n\n", path, w.site.Line, w.site.File, oneLine(w.what))
		}
	}
	b.WriteString("| step | does | status |\n|---|---|---|\n")
	for _, n := range r.program.Steps {
		s := r.steps[n.ID]
		status := string(s.status)
		if s.err != "" {
			status += ": " + oneLine(s.err)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", n.ID, r.does(n), status)
	}
	if r.failure != nil {
		fmt.Fprintf(&b, "\n**%s**\n", oneLine(r.failure.Message))
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

// does names what a step does, and of a tool what calling it may do.
func (r *run) does(n *definitions.Node) string {
	s, each := n.Step, ""
	if s.Step != nil {
		s, each = s.Step, "forEach "
	}
	switch {
	case s.Workflow != "":
		return each + s.Workflow
	case s.Tool == "":
		return each + string(s.Type)
	}
	return each + s.Tool + effectMark(r.in.Tools[s.Tool].Effect)
}

// oneLine makes text fit into a cell of a table.
func oneLine(s string) string {
	const limit = 300
	s = strings.ReplaceAll(visible.Line(s), "|", "\\|")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// unfinished names the steps that have not ended, for a message.
func (r *run) unfinished() string {
	var ids []string
	for _, n := range r.program.Steps {
		if s := r.steps[n.ID]; s.started && (s.status == stepRunning || s.status == stepStopped) {
			id := n.ID
			if h := r.scripts.running[StepPath(id)]; h != nil {
				id += h.waits()
			}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return " in step " + strings.Join(ids, ", ")
}

// draining says that the history is so long that the run should go on in a
// new execution, which must fit into one payload. A run that fails or skips
// the rest starts nothing more, so it ends in this one. Nor does one go on whose
// history is mostly the questions that were open when it began: the next would
// be as long at once, and so on for ever.
func (r *run) draining(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return r.failure == nil && !r.skipping && info.GetContinueAsNewSuggested() &&
		info.GetCurrentHistorySize() >= 2*r.gates.reopened && r.journal.Bytes() < r.maxJournal()
}

// drained says that a draining run has nothing under way but people, none of
// whom has just answered, and runs that it has called.
func (r *run) drained(ctx workflow.Context) bool {
	return r.calls.underWay == 0 && !r.signals.arrived() && ctx.Err() == nil && r.draining(ctx)
}

// waitWhileDraining holds a call back that the next execution will make. What
// is under way meanwhile may leave too little room for that one.
func (r *run) waitWhileDraining(ctx workflow.Context) error {
	if !r.draining(ctx) {
		return nil
	}
	return workflow.Await(ctx, func() bool { return !r.draining(ctx) })
}

// continueAsNew goes on in a new execution with what is done in its journal
// and the open elicitations as they stand.
func (r *run) continueAsNew(ctx workflow.Context) error {
	next := r.in
	next.Continued = true
	next.Started = r.started
	next.Journal = record.Carry(r.journal.Whole(), record.Terms{Reason: record.Continued})
	//workflowcheck:ignore a map again
	for path, u := range r.sent.unsettled { // calls that were stopped with their forEach
		if _, known := next.Journal[path]; !known {
			next.Journal[path] = record.Entry{Kind: record.Call{Unsettled: &u}}
		}
	}
	next.Unread, next.InDoubt = r.holds.unread, r.sent.keyed
	next.Open = r.gates.waiting()
	next.Unchecked = r.signals.unchecked
	if r.holds.shown != "" { // the next execution finds out for itself what holds its calls
		r.tellHold(ctx, "")
	}
	next.Asked = r.forgotten(next.Journal)
	return workflow.NewContinueAsNewError(ctx, WorkflowType, next)
}

// forgotten is how often steps have asked of which a journal tells nothing: what
// was dropped with its forEach, or closed because it was not needed any more.
func (r *run) forgotten(journal map[StepPath]record.Entry) map[StepPath]int {
	asked := maps.Clone(r.in.Asked)
	for _, e := range r.gates.state.Elicitations {
		if _, answered := journal[e.StepPath].Kind.(record.Gate); answered || e.State == ElicitationOpen {
			continue
		}
		if asked == nil {
			asked = map[StepPath]int{}
		}
		asked[e.StepPath] = max(asked[e.StepPath], e.StepPath.Time(e.ID))
	}
	return asked
}
