package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// The actions of an answer, and what is in their place when nobody answered in time.
const (
	Accept  = record.Accept
	Decline = record.Decline
	Cancel  = record.Cancel
	expired = record.Expired
)

// Gates are the elicitations of a run.
type gates struct {
	open     map[string]*gate    // by ID
	early    map[string][]Signal // answers to elicitations that this execution has yet to open again, by ID
	state    State               // all that were asked, as the memo has them
	reopened int                 // bytes that history has of those carried over, as they were opened again
}

// A gate is an open elicitation.
type gate struct {
	index   int // in State.Elicitations
	kind    ElicitationKind
	schema  json.RawMessage
	answers workflow.Channel // of Answer; valid ones only; nil if a called run asks
	child   *called          // that asks; nil = the run itself does
}

// hearAnswer reads an answer. One to an elicitation that is not open, or that
// does not fit, changes nothing.
func (r *run) hearAnswer(ctx workflow.Context, s Signal, held bool) hearing {
	var a Answer
	unreadable := json.Unmarshal(s.Body, &a) != nil
	g, open := r.gates.open[a.ElicitationID]
	if early, expected := r.gates.early[a.ElicitationID]; !open && expected {
		r.gates.early[a.ElicitationID] = append(early, s)
		return hearing{}
	}
	h := hearing{
		about: Ruling{ElicitationID: a.ElicitationID, Action: a.Action, By: a.AnsweredBy, AnswerID: a.AnswerID},
		take:  func(ctx workflow.Context, made Ruling) { r.take(ctx, a, made) },
	}
	switch {
	case unreadable:
		h.refuse = "it is no answer"
	case !open && r.gates.asked(a.ElicitationID):
		h.refuse = "it comes too late"
	case !open:
		h.refuse = "that is not asked"
	default:
		h.refuse, h.strict = r.misfit(ctx, a, g, held)
	}
	return h
}

// misfit says why an answer is none to an elicitation that is open, "" = it is
// one, and whether the elicitation takes none without proof.
func (r *run) misfit(ctx workflow.Context, a Answer, g *gate, held bool) (reason string, strict bool) {
	e := r.gates.state.Elicitations[g.index]
	strict = e.Mode == definitions.URLMode || len(e.Approvers) > 0
	switch {
	case a.Question != "" && a.Question != e.Question:
		return "it answers another question than is asked now", strict
	case e.Mode == definitions.URLMode && a.Via != ViaPage:
		return "this can only be answered on the approvals page", strict
	case g.child == nil && !held && !e.Expires.IsZero() && !workflow.Now(ctx).Before(e.Expires):
		return "it comes too late", strict
	}
	if err := CheckAnswer(a, g.kind, g.schema); err != nil {
		return "it does not fit: " + err.Error(), strict
	}
	return "", strict
}

// take has an answer count that the run has ruled to be one.
func (r *run) take(ctx workflow.Context, a Answer, made Ruling) {
	if made.Verdict == VerdictUnproven {
		a.Unproven, a.Via, a.At = true, ViaSignal, workflow.Now(ctx)
		a.AnsweredBy = strings.TrimSpace(a.AnsweredBy + " (unproven)")
	}
	g := r.gates.open[a.ElicitationID]
	if a.Action == Accept {
		a.Content = definitions.WithDefaults(r.gates.state.Elicitations[g.index].Schema, a.Content)
	}
	if g.child != nil { // which takes the first
		r.passOn(ctx, g.child, a)
		return
	}
	delete(r.gates.open, a.ElicitationID) // the first valid answer wins
	g.answers.SendAsync(a)
}

// takeEarly takes the answers to an elicitation that came before it was open.
func (r *run) takeEarly(ctx workflow.Context, elicitation string) {
	early := r.gates.early[elicitation]
	delete(r.gates.early, elicitation)
	for _, s := range early {
		r.rule(ctx, r.signals.box(AnswerSignal), s, 0)
	}
}

// CheckAnswer says what is wrong with an answer to an elicitation of a kind and
// schema.
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

// elicit executes an elicitation step: it asks, and waits.
func (r *run) elicit(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	message, err := n.Message(r.scopeAt(ctx, at))
	if err != nil {
		return Outcome{status: stepFailed, err: r.templateError(n, at, err)}
	}
	question := Elicitation{StepPath: at.path, Message: message, Schema: anything}
	if n.Step.Schema != nil {
		question.Schema = json.RawMessage(n.Step.Schema)
	}
	if n.Step.Mode == definitions.URLMode {
		question.Mode = definitions.URLMode
	}
	answer, failure := r.ask(ctx, question, timeout(n.Step))
	if failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	return r.answered(n.Step, at.path, answer)
}

// ask opens an elicitation, of which Kind, StepPath, Message, Schema and Mode
// are given, and waits for its answer; no limit means for ever. An answer that
// an earlier execution has recorded is not asked for again.
func (r *run) ask(ctx workflow.Context, question Elicitation, limit time.Duration) (Answer, *Error) {
	path := question.StepPath
	digest := question.digest()
	if was, ok := record.Found[record.Gate](r.journal, path, digest); ok {
		r.journal.Note(path, record.Gate{Digest: digest, Answer: was.Answer})
		return was.Answer, nil
	}
	var answer Answer
	if err := r.gates.check(question); err != nil {
		return Answer{}, err
	}
	g := r.open(ctx, question, limit)
	id, expires := r.gates.state.Elicitations[g.index].ID, r.gates.state.Elicitations[g.index].ownEnd()
	defer delete(r.gates.open, id)

	got, timedOut := false, false
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(g.answers, func(c workflow.ReceiveChannel, _ bool) { got = c.ReceiveAsync(&answer) })
	if limit > 0 {
		timerCtx, stopTimer := workflow.WithCancel(ctx)
		defer stopTimer()
		over, end := workflow.NewFuture(ctx)
		after(timerCtx, expires, Summary(path, WaitsForAnswer), func() { end.Set(nil, nil) })
		sel.AddFuture(over, func(workflow.Future) { timedOut = true })
	}
	sel.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)
	if timedOut && r.awaitKeys(ctx, id) == nil {
		got = g.answers.ReceiveAsync(&answer)
	}

	switch {
	case got:
		r.close(ctx, g, ElicitationAnswered, answer)
	case timedOut && ctx.Err() == nil:
		answer = Answer{ElicitationID: id, Action: expired, At: workflow.Now(ctx)}
		r.close(ctx, g, ElicitationExpired, answer)
	default:
		r.close(ctx, g, ElicitationDropped, Answer{})
		return Answer{}, &Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, Message: fmt.Sprintf("step %s was cancelled", path)}
	}
	r.journal.Note(path, record.Gate{Digest: digest, Answer: answer})
	return answer, nil
}

// digest is the same for what is the same question, asked of the same people in the
// same way: an answer that a client has given stands for none of the approvals page,
// and one that need not fit the schema for none that must.
func (e Elicitation) digest() string {
	asked := append([]byte(e.Message+"\x00"), e.Schema...)
	for _, name := range e.Approvers {
		asked = append(append(asked, 0), name...)
	}
	if e.Mode != "" { // no name of an approver is empty
		asked = append(append(asked, 0, 0), e.Mode...)
	}
	if e.Unchecked {
		asked = append(asked, 0, 0)
	}
	return digestOf(asked)
}

// open puts an elicitation into the run's state. One that was open when the
// run continued as new stays as it was asked.
func (r *run) open(ctx workflow.Context, e Elicitation, limit time.Duration) *gate {
	e.ID = e.StepPath.Asks(r.occurrence(e.StepPath))
	e.StepID = e.StepPath.Top()
	e.Question, e.Round = e.digest(), r.round(ctx)
	e.State = ElicitationOpen
	e.Opened = workflow.Now(ctx)
	if limit > 0 {
		e.Expires = e.Opened.Add(limit)
	}
	if end := endOf(ctx); !end.IsZero() && (limit <= 0 || end.Before(e.Expires)) {
		e.Expires, e.Limit = end, e.Expires
	}
	carried := false
	for _, was := range r.in.Open {
		if was.StepPath == e.StepPath && !r.gates.asked(was.ID) {
			e, carried = was, true
		}
	}
	r.gates.state.Elicitations = append(r.gates.state.Elicitations, e)
	if carried {
		r.gates.reopened += r.gates.state.size()
	}
	g := &gate{index: len(r.gates.state.Elicitations) - 1, kind: e.Kind, schema: e.AnswerSchema(), answers: workflow.NewBufferedChannel(ctx, 1)}
	r.gates.open[e.ID] = g
	r.journal.Grow(openBytes(e))
	r.publish(ctx, Waiting)
	r.takeEarly(ctx, e.ID)
	return g
}

// occurrence counts how often a step has asked, this time included.
func (r *run) occurrence(path StepPath) int {
	last := 0
	if r.in.Repair != nil {
		last = r.in.Repair.Asked[path]
	}
	last = max(last, r.in.Asked[path])
	for _, e := range r.gates.state.Elicitations {
		if e.StepPath == path {
			last = max(last, e.StepPath.Time(e.ID))
		}
	}
	return last + 1
}

// askedBefore says that the execution before has asked an elicitation at a path, to
// which there was no answer yet.
func (r *run) askedBefore(path StepPath) bool {
	for _, e := range r.in.Open {
		if e.StepPath == path {
			return true
		}
	}
	return false
}

// asked says whether an elicitation is in the state of this execution.
func (g *gates) asked(id string) bool {
	return slices.ContainsFunc(g.state.Elicitations, func(e Elicitation) bool { return e.ID == id })
}

// close notes how an elicitation ended.
func (r *run) close(ctx workflow.Context, g *gate, state ElicitationState, a Answer) {
	r.closeAs(ctx, g, Elicitation{State: state, Action: a.Action, By: a.AnsweredBy, Via: a.Via, At: a.At, Unproven: a.Unproven,
		AnswerID: a.AnswerID, Content: shownContent(a.Content), Decision: decisionOf(g.kind, a)})
}

// maxShownContent bounds the content of answers that the memo has. History has all
// of it.
const maxShownContent = 2000 // bytes

func shownContent(content json.RawMessage) json.RawMessage {
	if record.PayloadSize(content) > maxShownContent {
		return nil
	}
	return content
}

// closeAs does so for one of which the end is known.
func (r *run) closeAs(ctx workflow.Context, g *gate, end Elicitation) {
	e := &r.gates.state.Elicitations[g.index]
	delete(r.gates.open, e.ID)
	r.journal.Grow(-openBytes(*e))
	e.State, e.Action, e.By, e.Via, e.At, e.Unproven = end.State, end.Action, end.By, end.Via, end.At, end.Unproven
	e.AnswerID, e.Content, e.Decision, e.Schema = end.AnswerID, end.Content, end.Decision, nil
	e.Call, e.Askings = nil, nil
	if g.child == nil && (r.failure != nil || r.root.Err() != nil) && !r.undo.begun {
		return // finish publishes
	}
	r.publishNow(ctx)
}

// decisionOf is what an answer to an elicitation of a kind decides, where that is
// more than its action.
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

// openBytes is what an open elicitation takes in the input of the execution
// that continues the run.
func openBytes(e Elicitation) int {
	size := record.PayloadSize(e.Message) + record.PayloadSize(e.Schema) + record.PayloadSize(e.Content) + askingsBytes(e.Askings) + record.EntryBytes
	for _, name := range e.Approvers {
		size += record.PayloadSize(name) + record.EntryBytes/8
	}
	if e.Call != nil {
		size += record.PayloadSize(e.Call.Arguments) + record.EntryBytes
	}
	return size
}

func (g *gates) waiting() []Elicitation {
	var open []Elicitation
	for _, e := range g.state.Elicitations {
		if e.State == ElicitationOpen {
			open = append(open, e)
		}
	}
	return open
}

// answered turns an answer into the outcome of the step.
func (r *run) answered(s *definitions.Step, path StepPath, a Answer) Outcome {
	if a.Action == Accept {
		content, err := decodeObject(a.Content)
		if err != nil {
			content = map[string]any{} // cannot happen: the answer was checked
		}
		return Outcome{status: stepCompleted, answer: &a, content: content, output: map[string]any{"action": Accept, "content": content}}
	}
	handler := s.OnCancel
	if a.Action == Decline {
		handler = s.OnDecline
	}
	out := Outcome{status: stepCompleted, answer: &a}
	out.output, out.content = s.Refused(a.Action)
	switch {
	case handler != nil && handler.Action == definitions.Continue:
		return out
	case handler != nil && handler.Action == definitions.SkipRemaining:
		if members, ok := out.output.(map[string]any); ok {
			members["skipped"] = true
		}
		out.skip = true
		return out
	}
	return Outcome{status: stepFailed, answer: &a, err: refusal(s, path, a)}
}

// refusal is the error of an elicitation that was not accepted.
func refusal(s *definitions.Step, path StepPath, a Answer) *Error {
	e := &Error{Category: codes.CategoryDeclined}
	switch a.Action {
	case Decline:
		e.Code, e.Message = codes.Declined, fmt.Sprintf("step %s was declined", path)
	case Cancel:
		e.Code, e.Message = codes.Dismissed, fmt.Sprintf("step %s: the question was dismissed without an answer", path)
	default:
		e.Code, e.Category, e.Retryable = codes.ElicitationTimeout, codes.CategoryTimeout, true
		e.Message = fmt.Sprintf("step %s timed out: nobody answered within %s", path, timeout(s).Round(time.Millisecond))
		return e
	}
	if a.AnsweredBy != "" {
		e.Message += " by " + a.AnsweredBy
	}
	return e
}
