package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// The actions of an answer, and expired, if there was none in time.
const (
	Accept  = record.Accept
	Decline = record.Decline
	Cancel  = record.Cancel
	expired = record.Expired
)

// readAnswer takes an answer. One to an elicitation that is not open, or that does not
// fit, has no effect.
func (gs *gates) readAnswer(ctx workflow.Context, s Signal, held bool) reading {
	var a Answer
	unreadable := json.Unmarshal(s.Body, &a) != nil
	g, open := gs.opened[a.ElicitationID]
	early, expected := gs.pendingAnswers[a.ElicitationID]
	wait := func() { gs.pendingAnswers[a.ElicitationID] = append(early, s) }
	h := reading{
		about:   Ruling{ElicitationID: a.ElicitationID, Action: a.Action, By: a.AnsweredBy, AnswerID: a.AnswerID},
		take:    func(ctx workflow.Context, made Ruling) { gs.take(ctx, a, made) },
		untaken: func(ctx workflow.Context) { gs.reportAgain(ctx, a.ElicitationID) },
	}
	switch {
	case !open && expected && len(early) < maxUnchecked:
		wait()
		return reading{}
	case !open && expected: // anybody can send many: only what has its proof may wait
		h.take = func(workflow.Context, Ruling) { wait() }
	case unreadable:
		h.refuse = "it is no answer"
	case !open && gs.elicitations.asked(a.ElicitationID):
		h.refuse = "it comes too late"
	case !open:
		h.refuse = "that is not asked"
	default:
		h.refuse, h.strict = gs.misfit(ctx, a, g, held)
	}
	return h
}

// misfit reports why an answer does not fit an open elicitation; "" = it fits; and
// whether the elicitation needs a proof.
func (gs *gates) misfit(ctx workflow.Context, a Answer, g *gate, held bool) (reason string, strict bool) {
	e := gs.elicitations.at(g.index)
	strict = e.NeedsSignIn()
	switch {
	case a.Digest != "" && a.Digest != e.Digest:
		return "something else is asked now", strict
	case e.Mode == definitions.URLMode && a.Via != ViaPage:
		return "this can only be answered on the approvals page", strict
	case e.NeedsSignIn() && a.Via == ViaCommand:
		return "this can only be answered by those whom it names, where they have signed in", strict
	case g.child == nil && !held && !e.Expires.IsZero() && !workflow.Now(ctx).Before(e.Expires):
		return "it comes too late", strict
	}
	if err := CheckAnswer(a, g.kind, g.schema); err != nil {
		return "it does not fit: " + err.Error(), strict
	}
	return "", strict
}

// take applies an accepted answer.
func (gs *gates) take(ctx workflow.Context, a Answer, made Ruling) {
	if made.Verdict == VerdictUnproven {
		a.Unproven, a.Via, a.At = true, ViaSignal, workflow.Now(ctx)
		a.AnsweredBy = strings.TrimSpace(a.AnsweredBy + " (unproven)")
	}
	g := gs.opened[a.ElicitationID]
	if a.Action == Accept {
		a.Content = definitions.WithDefaults(gs.elicitations.at(g.index).Schema, a.Content)
	}
	if g.child != nil { // which takes the first
		gs.passOn(ctx, g.child, a)
		return
	}
	delete(gs.opened, a.ElicitationID) // the first valid answer wins
	g.answers.SendAsync(a)
}

// takePendingAnswers takes the answers that came before an elicitation was open.
func (gs *gates) takePendingAnswers(ctx workflow.Context, elicitation string) {
	early := gs.pendingAnswers[elicitation]
	delete(gs.pendingAnswers, elicitation)
	for _, s := range early {
		gs.signals.takeAnswer(ctx, s)
	}
}

// CheckAnswer reports a mistake in an answer to an elicitation of a kind and schema.
func CheckAnswer(a Answer, kind ElicitationKind, schema json.RawMessage) error {
	switch a.Action {
	case Decline, Cancel:
		return nil
	case Accept:
	default:
		return fmt.Errorf("unknown action %q: answer with accept, decline or cancel", a.Action)
	}
	if err := definitions.CheckAnswer(schema, a.Content); err != nil || kind != Reconciliation {
		return err
	}
	return checkReconciled(a.Content)
}

// readQuestion keeps reports on questions in the state, as long as the elicitation is open.
func (gs *gates) readQuestion(_ workflow.Context, s Signal, _ bool) reading {
	var a QuestionReport
	unreadable := json.Unmarshal(s.Body, &a) != nil
	return reading{about: Ruling{ElicitationID: a.ElicitationID}, take: func(ctx workflow.Context, _ Ruling) {
		if !unreadable {
			gs.keepQuestion(ctx, a)
		}
	}}
}

func (gs *gates) keepQuestion(ctx workflow.Context, a QuestionReport) {
	g, open := gs.opened[a.ElicitationID]
	if !open || a.Name == "" || len(a.Name) > maxQuestionName {
		return
	}
	e := gs.elicitations.at(g.index)
	known := slices.ContainsFunc(e.Questions, func(k Question) bool { return k.Name == a.Name })
	if known || len(e.Questions) >= MaxQuestions {
		return
	}
	if len(a.Reason) > maxReason {
		a.Reason = strings.ToValidUTF8(a.Reason[:maxReason], "")
	}
	before := openBytes(*e)
	e.Questions = append(e.Questions, a.Question)
	gs.journal.Grow(openBytes(*e) - before)
	gs.board.publishState(ctx)
}

// decisionOf is the decision in an answer beyond its action, for elicitations of some
// kinds.
func decisionOf(kind ElicitationKind, a Answer) Decision {
	switch kind {
	case Compensation:
		return map[string]Decision{Accept: DecidedUndone, Decline: DecidedAgain, Cancel: DecidedLeft}[a.Action]
	case Credentials:
		return map[string]Decision{Accept: DecidedGiven, Decline: DecidedWithheld, Cancel: DecidedWithheld}[a.Action]
	case Reconciliation:
		var d Reconciled
		if a.Action == Accept && json.Unmarshal(a.Content, &d) == nil {
			return Decision(d.Outcome)
		}
		return map[string]Decision{Decline: Fail, Cancel: Fail}[a.Action]
	}
	return ""
}
