package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

// A bulkAnswer gives the same answer to elicitations of many runs that have the same
// form, after a yes.
type bulkAnswer struct {
	runsAnswerCommand
	console *console
	client  *runs.Client
}

// An askedForm is open elicitations that have the same form.
type askedForm struct {
	runs.Elicitation // the first of them
	tool             string
	asked            []askedRun
}

// An askedRun is a run and an open elicitation of it.
type askedRun struct {
	id          runs.RunID
	elicitation runs.Elicitation
}

// same reports whether an elicitation of a run has the form: it is of the same tool, step
// and kind, in the same mode, for the same people and with the same schema.
func (f *askedForm) same(tool string, e runs.Elicitation) bool {
	return f.tool == tool && f.StepID == e.StepID && f.Kind == e.Kind && f.Mode == e.Mode && f.Backend == e.Backend &&
		strings.Join(f.Approvers, "\n") == strings.Join(e.Approvers, "\n") && bytes.Equal(f.AnswerSchema(), e.AnswerSchema())
}

// A bulkAnswered is what a bulk answer has come to.
type bulkAnswered struct {
	Found    int         `json:"found"`
	Answered int         `json:"answered"`
	Lost     int         `json:"lost"` // answered by somebody else, or ended, in the meantime
	Sent     int         `json:"sent"` // and not taken yet: no worker has processed the answer, or has its key
	Failed   int         `json:"failed"`
	Left     int         `json:"left"` // not reached before the command was interrupted
	Action   string      `json:"action"`
	Step     string      `json:"step"`
	Example  *runs.RunID `json:"example,omitempty"`
}

func (n bulkAnswered) String() string {
	text := fmt.Sprintf("%d found, %d answered, %d answered already, %d failed", n.Found, n.Answered, n.Lost, n.Failed)
	if n.Sent > 0 {
		text += fmt.Sprintf(", %d sent and not processed yet; see perdure runs list --waiting", n.Sent)
	}
	if n.Left > 0 {
		text += fmt.Sprintf(", %d not reached; repeat the command for them", n.Left)
	}
	return text
}

func (b *bulkAnswer) run(ctx context.Context) error {
	forms, unreadable, err := b.forms(ctx)
	switch {
	case err != nil:
		return err
	case len(unreadable) > 0:
		return fmt.Errorf("cannot read the elicitations of %d runs, such as %s: nothing was answered", len(unreadable), unreadable[0])
	case len(forms) == 0:
		return b.report(bulkAnswered{Action: b.action(), Step: b.Step})
	case len(forms) > 1:
		return differentForms(forms)
	}
	form := forms[0]
	if form.NeedsSignIn() {
		return fmt.Errorf("%s %s; nothing was answered", form.StepPath, onlySignedIn(form.Elicitation))
	}
	b.show(form)
	ok, err := confirmed(ctx, b.console, b.Yes, fmt.Sprintf("%s %d elicitations? [y/N] ", strings.ToUpper(b.action()[:1])+b.action()[1:], len(form.asked)))
	if err != nil || !ok {
		return err
	}
	answered, err := b.answer(ctx, form)
	if err != nil {
		return err
	}
	b.noteTarget(b.console)
	return b.report(answered)
}

// forms are the open elicitations that the flags select, by form.
func (b *bulkAnswer) forms(ctx context.Context) (forms []*askedForm, unreadable []runs.RunID, err error) {
	list, _, err := matching(ctx, b.console, b.client, runs.Filter{Waiting: true, Query: b.Query}, b.Query, b.Limit)
	for _, run := range list {
		if run.Unreadable != "" {
			unreadable = append(unreadable, run.ID)
		}
		for _, e := range run.Open() {
			if b.selects(e) {
				forms = addAsked(forms, &run, e)
			}
		}
	}
	return forms, unreadable, err
}

func addAsked(forms []*askedForm, run *runs.Run, e runs.Elicitation) []*askedForm {
	for _, f := range forms {
		if f.same(run.Tool, e) {
			f.asked = append(f.asked, askedRun{run.ID, e})
			return forms
		}
	}
	return append(forms, &askedForm{e, run.Tool, []askedRun{{run.ID, e}}})
}

func differentForms(forms []*askedForm) error {
	var list strings.Builder
	for _, f := range forms {
		fmt.Fprintf(&list, "\n  %d of %s at step %s (%s), such as %s", len(f.asked), f.tool, f.StepID, cmp.Or(string(f.Kind), "elicitation"), f.asked[0].id)
	}
	return usagef("the elicitations have %d different forms; nothing was answered. Select one with --step, or with a narrower --query:%s", len(forms), list.String())
}

// maxMessagesShown is how many different messages of elicitations are printed.
const maxMessagesShown = 5

// show prints what is asked, and what the answer would be.
func (b *bulkAnswer) show(form *askedForm) {
	shown := map[string]bool{}
	b.console.notef("%d elicitations at step %s:", len(form.asked), form.StepID)
	for _, a := range form.asked {
		message := view.Line(a.elicitation.Message)
		if shown[message] {
			continue
		}
		if shown[message] = true; len(shown) > maxMessagesShown {
			b.console.notef("  and others")
			break
		}
		b.console.notef("  %s: %s", a.id, shorten(message, maxErrorShown))
	}
	b.console.notef("answer: %s %s", b.action(), b.Content)
}

// answer answers all elicitations of a form, at --rate. An answer that does not fit is
// an error, since it would fit none.
func (b *bulkAnswer) answer(ctx context.Context, form *askedForm) (n bulkAnswered, err error) {
	n = bulkAnswered{Found: len(form.asked), Action: b.action(), Step: form.StepID, Example: &form.asked[0].id}
	n.Left, err = paced(ctx, b.console, b.Rate, form.asked, func(a askedRun) (string, bool, string, error) {
		said, err := b.next(ctx, a, &n)
		return fmt.Sprintf("%s  %s", a.id, said), n.Failed > 0, fmt.Sprintf("%d answered", n.Answered), err
	})
	return n, err
}

// next answers one elicitation, if it still asks what was shown.
func (b *bulkAnswer) next(ctx context.Context, a askedRun, n *bulkAnswered) (said string, err error) {
	decision, err := b.client.Answer(ctx, a.id, runs.Answer{
		ElicitationID: a.elicitation.ID, Question: a.elicitation.Digest, Action: b.action(), Content: b.content(),
		By: cmp.Or(b.By, userName()), Via: runs.ViaCommand,
	})
	if invalid := (*runs.InvalidAnswerError)(nil); errors.As(err, &invalid) && n.Answered == 0 {
		return "", fmt.Errorf("the answer does not fit, and %s still waits: %w", a.elicitation.StepPath, err)
	}
	return n.count(decision, err), nil
}

// count counts an answer by what has become of it, and says it.
func (n *bulkAnswered) count(decision runs.Decision, err error) (said string) {
	switch {
	case errors.Is(err, runs.ErrNoSuchGate), err == nil && !decision.Won:
		n.Lost++
		return "answered already, or ended"
	case errors.Is(err, runs.ErrUntaken), errors.Is(err, runs.ErrUnchecked), errors.Is(err, runs.ErrQuarantined):
		n.Sent++
		return err.Error()
	case err != nil:
		n.Failed++
		return err.Error()
	}
	n.Answered++
	return cmp.Or(string(decision.Means), decision.Action)
}

func (b *bulkAnswer) report(n bulkAnswered) error {
	return finishBulk(b.console, b.Output, n, n.Failed+n.Sent+n.Lost+n.Left > 0)
}
