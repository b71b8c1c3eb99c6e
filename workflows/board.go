package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// The board is where a run shows how it is: the memo for those who follow it, search
// attributes for those who look for it, current details for those who read it in the Web
// UI.
type board struct {
	*origin
	tasks        *tasks
	steps        *steps
	elicitations *elicitations
	signals      *signals
	holds        *holds
	scripts      *scripts
	failures     *failures
	parent       *parent

	held string         // what the search attributes have as holding the run; "" = nothing
	rows map[string]row // of the table of steps, by ID
}

// A row of the table of steps. All of them are shown whenever one changes.
type row struct{ status, text string }

var (
	statusKey  = temporal.NewSearchAttributeKeyKeyword(AttrStatus)
	waitingKey = temporal.NewSearchAttributeKeyKeyword(AttrWaiting)
)

// publish shows a status, and all else.
func (bd *board) publish(ctx workflow.Context, status Status) {
	logger := workflow.GetLogger(ctx)
	held := ""
	if status == Running {
		held = bd.heldBy()
	}
	waiting := holdUpdate(held)
	if status != Waiting && status != Running {
		bd.elicitations.takeBack()
	}
	switch {
	case status == Waiting:
		waiting = waitingKey.ValueSet(bd.waitsFor())
	case bd.elicitations.none() && bd.held == held:
		// A run that never waited has nothing to take back.
		if err := workflow.UpsertTypedSearchAttributes(ctx, statusKey.ValueSet(string(status))); err != nil {
			logger.Error("publishing the status", "error", err)
		}
		bd.showDetails(ctx)
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, statusKey.ValueSet(string(status)), waiting); err != nil {
		logger.Error("publishing the status", "error", err)
	}
	bd.held = held
	bd.publishState(ctx)
	bd.showDetails(ctx)
}

// publishNow publishes what changed while the run continues.
func (bd *board) publishNow(ctx workflow.Context) {
	if len(bd.elicitations.waiting()) > 0 {
		bd.publish(ctx, Waiting)
	} else {
		bd.publish(ctx, Running)
	}
}

// publishState puts the state into the memo.
func (bd *board) publishState(ctx workflow.Context) {
	for !bd.tasks.fits(ctx, bd.elicitations.fit()) { // others may change the state meanwhile
		bd.tasks.next(ctx)
	}
	state := State{Elicitations: bd.elicitations.all(), Unchecked: bd.signals.shown()}
	bd.tasks.carries(ctx)
	if err := workflow.UpsertMemo(ctx, map[string]any{MemoState: state}); err != nil {
		workflow.GetLogger(ctx).Error("publishing the state", "error", err)
	}
	bd.parent.reportElicitations(ctx)
}

// waitsFor names what an open elicitation means for the run; what operators
// must do comes first.
func (bd *board) waitsFor() string {
	if bd.signals.waitForKeys() {
		return HeldByKey
	}
	for _, e := range bd.elicitations.waiting() {
		if e.Kind != ForCaller {
			return string(e.Kind)
		}
	}
	return WaitsFor(ForCaller)
}

// WaitsFor names what a run waits for while an elicitation of the kind is open.
func WaitsFor(kind ElicitationKind) string {
	if kind == ForCaller {
		return "approval"
	}
	return string(kind)
}

// heldBy is what holds calls of the run; "" = nothing. What lasts longest comes
// first.
func (bd *board) heldBy() string {
	if bd.signals.waitForKeys() {
		return HeldByKey
	}
	return bd.holds.why()
}

// showHolds shows in the search attributes what holds this run. Elicitations come
// first.
func (bd *board) showHolds(ctx workflow.Context) {
	defer bd.showDetails(ctx)
	if len(bd.elicitations.waiting()) > 0 {
		return
	}
	if why := bd.heldBy(); why != bd.held {
		bd.publishHold(ctx, why)
	}
}

func (bd *board) publishHold(ctx workflow.Context, why string) {
	bd.held = why
	if err := workflow.UpsertTypedSearchAttributes(ctx, holdUpdate(why)); err != nil {
		workflow.GetLogger(ctx).Error("publishing what holds the run", "error", err)
	}
}

// clearHold shows no more what holds the run: the next execution finds that out for
// itself.
func (bd *board) clearHold(ctx workflow.Context) {
	if bd.held != "" {
		bd.publishHold(ctx, "")
	}
}

func holdUpdate(why string) temporal.SearchAttributeUpdate {
	if why == "" {
		return waitingKey.ValueUnset()
	}
	return waitingKey.ValueSet(why)
}

// showDetails writes what the Web UI shows: what the run waits for, and the table of steps.
func (bd *board) showDetails(ctx workflow.Context) {
	var b strings.Builder
	b.Grow(64 * (2 + len(bd.program.Steps)))
	for _, part := range []interface{ details() []string }{bd.elicitations, bd.signals, bd.holds, bd.scripts} {
		for _, line := range part.details() {
			b.WriteString(line + "\n\n")
		}
	}
	b.WriteString("| step | does | status |\n|---|---|---|\n")
	for _, n := range bd.program.Steps {
		b.WriteString(bd.row(n))
	}
	if err := bd.failures.why(); err != nil {
		fmt.Fprintf(&b, "\n**%s**\n", oneLine(err.Message))
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

// row is that of a step.
func (bd *board) row(n *definitions.Node) string {
	if bd.rows == nil {
		bd.rows = make(map[string]row, len(bd.program.Steps))
	}
	status := bd.steps.shown(n.ID)
	if was, shown := bd.rows[n.ID]; shown && was.status == status {
		return was.text
	}
	text := fmt.Sprintf("| %s | %s | %s |\n", n.ID, bd.does(n), status)
	bd.rows[n.ID] = row{status, text}
	return text
}

// does names what a step does, and of a tool what calling it may do.
func (bd *board) does(n *definitions.Node) string {
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
	return each + s.Tool + effectMark(bd.in.Tools[s.Tool].Effect)
}

// oneLine makes text fit into a cell of a table.
func oneLine(s string) string {
	const limit = 300
	s = strings.ReplaceAll(view.Line(s), "|", "\\|")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
