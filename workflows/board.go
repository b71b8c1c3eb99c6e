package workflows

import (
	"bytes"
	"encoding/json"
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

	shown *shown         // what the search attributes have; nil = not known: an earlier execution has set them
	state []byte         // what the memo has, encoded; nil = nothing of this execution
	rows  map[string]row // of the table of steps, by ID
}

// shown is what search attributes have of a run.
type shown struct {
	status  Status // Waiting or TimedOut, which Temporal's status does not have; "" = that says it all
	waiting string // what the run waits for; "" = nothing
}

// A row of the table of steps. All of them are shown whenever one changes.
type row struct{ status, text string }

var (
	statusKey  = temporal.NewSearchAttributeKeyKeyword(AttrStatus)
	waitingKey = temporal.NewSearchAttributeKeyKeyword(AttrWaiting)
)

// newBoard knows what an earlier execution has left: an open elicitation may be shown in
// any way.
func newBoard(bd board) *board {
	if len(bd.in.Open) == 0 {
		bd.shown = &shown{}
	}
	if !bd.in.Continued {
		bd.state = []byte("{}")
	}
	return &bd
}

// publish shows a status, and all else. What is shown already is not written again: each
// write costs events of history, and one of the list of runs.
func (bd *board) publish(ctx workflow.Context, status Status) {
	now := shown{}
	switch status {
	case Waiting:
		now = shown{Waiting, bd.waitsFor()}
	case Running:
		now.waiting = bd.heldBy()
	default:
		bd.elicitations.takeBack()
		if status == TimedOut {
			now.status = TimedOut
		}
	}
	held := bd.show(ctx, now)
	if held || !bd.elicitations.none() {
		bd.publishState(ctx)
	}
	bd.showDetails(ctx)
}

// show sets the search attributes, and reports whether the run waits for something else
// than before.
func (bd *board) show(ctx workflow.Context, now shown) (other bool) {
	was := bd.shown
	if was != nil && *was == now {
		return false
	}
	var set []temporal.SearchAttributeUpdate
	if was == nil || was.status != now.status {
		set = append(set, update(statusKey, string(now.status)))
	}
	if was == nil || was.waiting != now.waiting {
		set = append(set, update(waitingKey, now.waiting))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, set...); err != nil {
		workflow.GetLogger(ctx).Error("publishing the status", "error", err)
	}
	bd.shown = &now
	return was == nil || was.waiting != now.waiting
}

// update sets a search attribute; "" = it has no value.
func update(key temporal.SearchAttributeKeyKeyword, value string) temporal.SearchAttributeUpdate {
	if value == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(value)
}

// publishNow publishes what changed while the run continues.
func (bd *board) publishNow(ctx workflow.Context) {
	if len(bd.elicitations.waiting()) > 0 {
		bd.publish(ctx, Waiting)
	} else {
		bd.publish(ctx, Running)
	}
}

// publishState puts the state into the memo, if it has changed.
func (bd *board) publishState(ctx workflow.Context) {
	for !bd.tasks.fits(ctx, bd.elicitations.fit()) { // others may change the state meanwhile
		bd.tasks.next(ctx)
	}
	state := State{Elicitations: bd.elicitations.all(), Unchecked: bd.signals.shown()}
	encoded, err := json.Marshal(state)
	if err == nil && bytes.Equal(encoded, bd.state) {
		return
	}
	bd.state = encoded
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
	if len(bd.elicitations.waiting()) == 0 {
		bd.show(ctx, shown{waiting: bd.heldBy()})
	}
}

// clearHold shows no more what holds the run: the next execution finds that out for
// itself.
func (bd *board) clearHold(ctx workflow.Context) {
	if len(bd.elicitations.waiting()) == 0 {
		bd.show(ctx, shown{})
	}
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
func oneLine(s string) string { return strings.ReplaceAll(shortLine(s), "|", "\\|") }

// shortLine is the beginning of text, without line breaks.
func shortLine(s string) string {
	const limit = 300
	s = view.Line(s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
