package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Answers answer the elicitations of runs.
type answers struct{ reader }

// Answer answers an elicitation and returns what became of it: this answer was
// the first, or another one was.
//
// An answer that does not fit is an *InvalidAnswerError; the elicitation stays open. An
// elicitation that the run never asked, or that ended with the run, is ErrNoSuchGate.
// An answer that is not allowed, one to what is answered on the approvals page that
// comes in another way, and one of the command line, which signs nobody in, to what names
// its approvers, is ErrNotPermitted. One that is signed with a key that workers
// do not have yet is ErrUnchecked; it counts when one has it. An answer that was sent
// and that no worker takes within 30 s, or until ctx ends, is ErrUntaken, and
// context.DeadlineExceeded or what ctx says; one to a run that was quarantined
// meanwhile is ErrQuarantined. Either counts when the run continues. One to a run in
// quarantine, or to a called one that is, is ErrQuarantined and is not sent.
func (as answers) Answer(ctx context.Context, id RunID, a Answer) (Decision, error) {
	run, err := a.Run, error(nil)
	if run == nil {
		run, err = as.Get(ctx, id)
	}
	if err != nil {
		return Decision{}, err
	}
	gate, err := as.gate(ctx, run, a.ElicitationID)
	if err != nil {
		return Decision{}, err
	}
	if run.Status != workflows.Quarantined && gate.State != workflows.ElicitationOpen {
		return decided(id, gate, "")
	}
	signal, err := as.signalFor(ctx, run, gate, a)
	if err != nil {
		return Decision{}, err
	}
	return as.send(ctx, run, a, signal)
}

// signalFor makes the signal that carries an answer to an open elicitation, if it may be
// answered so and the run that asks is executed.
func (as answers) signalFor(ctx context.Context, run *Run, gate Elicitation, a Answer) (signal workflows.Answer, err error) {
	if run.Status == workflows.Quarantined {
		return signal, fmt.Errorf("answering run %s: %w", run.ID, ErrQuarantined)
	}
	if a.Via != ViaPage && gate.Mode == definitions.URLMode {
		return signal, fmt.Errorf("%w: run %s, elicitation %s can only be answered on the approvals page", ErrNotPermitted, run.ID, a.ElicitationID)
	}
	if a.Via == ViaCommand && gate.NeedsSignIn() {
		return signal, fmt.Errorf("%w: run %s, elicitation %s can only be answered by those whom it names, where they have signed in", ErrNotPermitted, run.ID, a.ElicitationID)
	}
	if a.Allowed != nil && !a.Allowed(gate) {
		return signal, fmt.Errorf("%w: run %s, elicitation %s is not for %s to answer", ErrNotPermitted, run.ID, a.ElicitationID, a.By)
	}
	if signal, err = checked(a, gate); err != nil {
		return signal, err
	}
	if err := as.executed(ctx, gate.Run); err != nil {
		return signal, fmt.Errorf("answering run %s: %w", run.ID, err)
	}
	return signal, nil
}

// send sends an answer to a run, and waits until the run has decided about it.
func (as answers) send(ctx context.Context, run *Run, a Answer, signal workflows.Answer) (Decision, error) {
	id := run.ID
	news := as.news.subscribe(id)
	news.forAnswer(a.QuestionName != "")
	followed := a.Run != nil && a.Run.execution != "" && news != nil
	defer func() {
		news.forAnswer(false)
		if followed {
			as.fresh.add(id, a.Run.execution, news)
			return
		}
		news.cancel()
	}()
	err := as.signal(ctx, id, workflows.AnswerSignal, signal)
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) { // a run that has just ended reports how below
		return Decision{}, failure(ctx, "answering", id, err)
	}
	decision, now, err := as.confirm(ctx, run, signal, news)
	if a.Run != nil {
		decision.Run = now
	}
	return decision, err
}

// executed is an error if a called run that asks is quarantined, or could not be looked
// at; "" = the run itself asks.
func (as answers) executed(ctx context.Context, called string) error {
	if called == "" {
		return nil
	}
	asks, err := as.Get(ctx, RunID(called))
	switch {
	case errors.Is(err, ErrNotFound): // which the run above will hear
		return nil
	case err == nil && asks.Status == workflows.Quarantined:
		return fmt.Errorf("run %s asks: %w", called, ErrQuarantined)
	}
	return err
}

// checked validates an answer and makes the signal that carries it.
func checked(a Answer, gate Elicitation) (workflows.Answer, error) {
	if a.Question != "" && a.Question != gate.Digest {
		return workflows.Answer{}, &InvalidAnswerError{"something else is asked now"}
	}
	signal := workflows.Answer{
		ElicitationID: a.ElicitationID,
		Digest:        gate.Digest,
		Action:        a.Action,
		AnsweredBy:    a.By,
		Via:           a.Via,
		At:            time.Now().UTC().Truncate(time.Millisecond),
		AnswerID:      a.QuestionName + randomName(26),
	}
	if a.Action == workflows.Accept { // otherwise content means nothing
		signal.Content = a.Content
		if len(signal.Content) == 0 {
			signal.Content = json.RawMessage("{}")
		}
	}
	if n := len(signal.Content); n > definitions.MaxAnswerSize {
		return signal, &InvalidAnswerError{fmt.Sprintf("the answer has %d bytes; the limit is %d", n, definitions.MaxAnswerSize)}
	}
	if err := workflows.CheckAnswer(signal, gate.Kind, gate.AnswerSchema()); err != nil {
		return signal, &InvalidAnswerError{err.Error()}
	}
	if a.Action == workflows.Accept { // so that who reads the history sees all that was decided
		signal.Content = definitions.WithDefaults(gate.Schema, signal.Content)
	}
	return signal, nil
}

// confirmLimit is how long an answer that was sent may take to be taken.
const confirmLimit = 30 * time.Second

// confirm waits until the elicitation is no longer open, or it is known why it stays so,
// and gives the run as it is then.
func (as answers) confirm(ctx context.Context, run *Run, signal workflows.Answer, news *subscription) (Decision, *Run, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	id := run.ID
	if now := as.awaitNews(ctx, run, news, signal.ElicitationID); now != nil {
		if decision, known, err := as.became(ctx, now, signal); known || err != nil {
			return decision, now, err
		}
	}
	for pause := (&backoff{next: 4 * time.Millisecond, limit: time.Second}); ; {
		now, err := as.Get(ctx, id)
		if err == nil {
			var decision Decision
			var known bool
			if decision, known, err = as.became(ctx, now, signal); known {
				return decision, now, err
			}
		}
		if err != nil && !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
			return Decision{}, nil, err
		}
		if !pause.wait(ctx) {
			return Decision{}, nil, fmt.Errorf("answering run %s: %w; see perdure runs show: %w", id, ErrUntaken, ctx.Err())
		}
	}
}

// awaitNews waits a moment until the worker of this process has published that an elicitation
// is not open, and gives the run with that; nil = it has not. Other requests may signal
// the run as well, so not all news is of it.
func (as answers) awaitNews(ctx context.Context, run *Run, news *subscription, elicitation string) *Run {
	for end := time.Now().Add(nearby); news != nil && news.await(ctx, time.Until(end)); {
		memo := news.latest().memo
		state, err := history.State(as.converter, memo)
		now := *run
		now.Elicitations, now.Unchecked = state.Elicitations, state.Unchecked
		isOpen := slices.ContainsFunc(now.Open(), func(e Elicitation) bool { return e.ID == elicitation })
		if memo == nil || err != nil || isOpen {
			continue
		}
		now.Status, now.WaitingFor = workflows.Running, ""
		if len(now.Open()) > 0 {
			now.Status, now.WaitingFor = workflows.Waiting, run.WaitingFor
		}
		return &now
	}
	return nil
}

// became reports what became of an answer, where a run shows that: known is false if its
// elicitation is open and nothing holds the answer.
func (as answers) became(ctx context.Context, run *Run, signal workflows.Answer) (d Decision, known bool, err error) {
	gate, err := as.gate(ctx, run, signal.ElicitationID)
	if err != nil {
		return Decision{}, false, err
	}
	if gate.State != workflows.ElicitationOpen {
		d, err = decided(run.ID, gate, signal.AnswerID)
		return d, true, err
	}
	for _, u := range run.Unchecked {
		if u.AnswerID == signal.AnswerID {
			return Decision{}, true, fmt.Errorf("answering run %s: %w (%s); it becomes valid when one has it", run.ID, ErrUnchecked, u.Key)
		}
	}
	if run.Status == workflows.Quarantined {
		return Decision{}, true, fmt.Errorf("answering run %s: the answer was sent, and becomes valid if the run is released: %w", run.ID, ErrQuarantined)
	}
	return Decision{}, false, nil
}

// gate finds an elicitation in the state of a run or, if an earlier execution
// of the run asked it, in history.
func (as answers) gate(ctx context.Context, run *Run, elicitation string) (Elicitation, error) {
	for _, e := range run.Elicitations {
		if e.ID == elicitation {
			return e, nil
		}
	}
	if run.Unreadable != "" {
		return Elicitation{}, fmt.Errorf("reading what run %s asks: %s", run.ID, run.Unreadable)
	}
	gates := newGateRecords()
	for m, err := range as.all(ctx, run.ID) {
		if err != nil {
			return Elicitation{}, failure(ctx, "reading", run.ID, err)
		}
		gates.add(m.Facts)
	}
	if e := gates.byID[elicitation]; e != nil {
		return *e, nil
	}
	return Elicitation{}, noSuchGate(run.ID, elicitation)
}

// decided reports how an elicitation was closed. answerID is that of the reader's answer;
// "" = none was sent.
func decided(id RunID, e Elicitation, answerID string) (Decision, error) {
	if e.State == workflows.ElicitationDropped {
		return Decision{}, fmt.Errorf("%w: the run has ended or continued without it", noSuchGate(id, e.ID))
	}
	return Decision{
		Won:    answerID != "" && e.AnswerID == answerID,
		Action: e.Action,
		By:     e.By,
		Via:    e.Via,
		Means:  e.Decision,
	}, nil
}

func noSuchGate(id RunID, elicitation string) error {
	return fmt.Errorf("run %s, elicitation %s: %w", id, elicitation, ErrNoSuchGate)
}

// reportLimit is how long ReportQuestion waits until the run has taken note.
const reportLimit = 5 * time.Second

// ReportQuestion records a question without an answer in a run, for as long as the elicitation is
// open, so that every follower of the run sees it (EventQuestion). It returns when the run
// has recorded it, or does not need to, or after some seconds without either.
func (as answers) ReportQuestion(ctx context.Context, id RunID, elicitation string, a Question) error {
	pause := &backoff{next: 4 * time.Millisecond, limit: time.Second}
	wait, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	for sent := false; ; {
		run, err := as.Get(ctx, id)
		switch {
		case err != nil:
			return err
		case !wants(run, elicitation, a.Name):
			return nil
		case !sent:
			err := as.signal(ctx, id, workflows.QuestionSignal, workflows.QuestionReport{ElicitationID: elicitation, Question: a})
			if err != nil {
				return failure(ctx, "signalling", id, err)
			}
			sent = true
		}
		if !pause.wait(wait) {
			return ctx.Err()
		}
	}
}

// wants reports whether a run would take note of a question.
func wants(run *Run, elicitation, question string) bool {
	for _, e := range run.Open() {
		if e.ID == elicitation {
			known := slices.ContainsFunc(e.Questions, func(a Question) bool { return a.Name == question })
			return !known && len(e.Questions) < workflows.MaxQuestions
		}
	}
	return false
}
