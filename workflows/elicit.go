package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
)

// The actions of an answer, and what stands in their place when nobody
// answered in time.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
	expired = "timeout"
)

// A gate is an open elicitation.
type gate struct {
	index   int // in State.Elicitations
	kind    ElicitationKind
	schema  json.RawMessage
	answers workflow.Channel // of Answer; valid ones only; nil if a called run asks
	child   *called          // that asks; nil = the run itself does
}

// receiveAnswers hands each answer to its elicitation. An answer to one that
// is not open, or that does not fit, changes nothing.
func (r *run) receiveAnswers(ctx workflow.Context) {
	r.answers = workflow.GetSignalChannel(ctx, AnswerSignal)
	wait, _ := workflow.NewDisconnectedContext(ctx) // compensations ask after a run was cancelled
	workflow.GoNamed(wait, "answers", func(ctx workflow.Context) {
		// An answer stays in the channel until it is taken: see drained.
		for workflow.Await(ctx, func() bool { return r.answers.Len() > 0 }) == nil {
			var a Answer
			if r.answers.ReceiveAsync(&a) {
				r.take(ctx, a)
			}
		}
	})
}

func (r *run) take(ctx workflow.Context, a Answer) {
	g, open := r.gates[a.ElicitationID]
	if early, expected := r.early[a.ElicitationID]; !open && expected {
		r.early[a.ElicitationID] = append(early, a)
	}
	if !open {
		return
	}
	if err := CheckAnswer(a, g.kind, g.schema); err != nil {
		workflow.GetLogger(ctx).Warn("answer refused", "elicitation", a.ElicitationID, "by", a.AnsweredBy, "reason", err.Error())
		return
	}
	if g.child != nil { // which takes the first
		r.passOn(ctx, g.child, a)
		return
	}
	delete(r.gates, a.ElicitationID) // the first valid answer wins
	g.answers.SendAsync(a)
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
func (r *run) elicit(ctx workflow.Context, n *definitions.Node, at place) outcome {
	message, err := n.Message(r.scopeAt(ctx, at))
	if err != nil {
		return outcome{status: stepFailed, err: r.templateError(n, at, err)}
	}
	schema, err := elicitationSchema(n.Step)
	if err != nil {
		return outcome{status: stepFailed, err: r.templateError(n, at, err)}
	}
	question := Elicitation{StepPath: at.path, Message: message, Schema: schema}
	if n.Step.Mode == definitions.URLMode {
		question.Mode = definitions.URLMode
	}
	answer, failure := r.ask(ctx, question, timeout(n.Step))
	if failure != nil {
		return outcome{status: stepFailed, err: failure}
	}
	return r.answered(n.Step, at.path, answer)
}

func elicitationSchema(s *definitions.Step) (json.RawMessage, error) {
	if s.Schema == nil {
		return anything, nil
	}
	return definitions.EncodeValue(s.Schema)
}

// ask opens an elicitation, of which Kind, StepPath, Message, Schema and Mode
// are given, and waits for its answer; no limit means for ever. An answer that
// an earlier execution has recorded is not asked for again.
func (r *run) ask(ctx workflow.Context, question Elicitation, limit time.Duration) (Answer, *Error) {
	path := question.StepPath
	digest := question.digest()
	var answer Answer
	if was, ok := r.recorded(path, digest); ok && json.Unmarshal(was, &answer) == nil {
		r.record(path, digest, was)
		return answer, nil
	}
	if err := r.checkQuestion(question); err != nil {
		return Answer{}, err
	}
	g := r.open(ctx, question, limit)
	id, expires := r.state.Elicitations[g.index].ID, r.state.Elicitations[g.index].Expires
	defer delete(r.gates, id)

	got, timedOut := false, false
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(g.answers, func(c workflow.ReceiveChannel, _ bool) { got = c.ReceiveAsync(&answer) })
	if limit > 0 {
		timerCtx, stopTimer := workflow.WithCancel(ctx)
		defer stopTimer()
		timer := workflow.NewTimerWithOptions(timerCtx, max(expires.Sub(workflow.Now(ctx)), 0),
			workflow.TimerOptions{Summary: Summary(path, WaitsForAnswer)})
		sel.AddFuture(timer, func(f workflow.Future) { timedOut = f.Get(ctx, nil) == nil })
	}
	sel.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)

	switch {
	case got:
		r.close(ctx, g, ElicitationAnswered, answer)
	case timedOut:
		answer = Answer{ElicitationID: id, Action: expired}
		r.close(ctx, g, ElicitationExpired, answer)
	default:
		r.close(ctx, g, ElicitationDropped, Answer{})
		return Answer{}, &Error{Code: "cancelled", Category: CategoryCancelled, Message: fmt.Sprintf("step %s was cancelled", path)}
	}
	if recorded, err := json.Marshal(answer); err == nil {
		r.record(path, digest, recorded)
	}
	return answer, nil
}

// digest is the same for what is the same question.
func (e Elicitation) digest() string {
	asked := append([]byte(e.Message+"\x00"), e.Schema...)
	for _, name := range e.Approvers {
		asked = append(append(asked, 0), name...)
	}
	return digestOf(asked)
}

// open puts an elicitation into the run's state. One that was open when the
// run continued as new stays as it was asked.
func (r *run) open(ctx workflow.Context, e Elicitation, limit time.Duration) *gate {
	e.ID = fmt.Sprintf("%s#%d", e.StepPath, r.occurrence(e.StepPath))
	e.StepID = topLevel(e.StepPath)
	e.State = ElicitationOpen
	e.Opened = workflow.Now(ctx)
	if limit > 0 {
		e.Expires = e.Opened.Add(limit)
	}
	for _, was := range r.in.Open {
		if was.StepPath == e.StepPath && !r.hasAsked(was.ID) {
			e = was
		}
	}
	r.state.Elicitations = append(r.state.Elicitations, e)
	g := &gate{index: len(r.state.Elicitations) - 1, kind: e.Kind, schema: e.AnswerSchema(), answers: workflow.NewBufferedChannel(ctx, 1)}
	r.gates[e.ID] = g
	r.nextBytes += openBytes(e)
	r.publish(ctx, Waiting)
	early := r.early[e.ID]
	delete(r.early, e.ID)
	for _, a := range early {
		r.take(ctx, a)
	}
	return g
}

// occurrence counts how often a step has asked, this time included.
func (r *run) occurrence(path string) int {
	last := 0
	if r.in.Repair != nil {
		last = r.in.Repair.Asked[path]
	}
	last = max(last, r.in.Asked[path])
	for _, e := range r.state.Elicitations {
		if e.StepPath == path {
			last = max(last, e.time())
		}
	}
	return last + 1
}

// time says how often the step had asked with this elicitation, from 1.
func (e Elicitation) time() int {
	_, number, _ := strings.Cut(e.ID[len(e.StepPath):], "#")
	n, _ := strconv.Atoi(number)
	return n
}

// hasAsked says whether an elicitation is in the state of this execution.
func (r *run) hasAsked(id string) bool {
	return slices.ContainsFunc(r.state.Elicitations, func(e Elicitation) bool { return e.ID == id })
}

// close notes how an elicitation ended.
func (r *run) close(ctx workflow.Context, g *gate, state ElicitationState, a Answer) {
	e := &r.state.Elicitations[g.index]
	delete(r.gates, e.ID)
	r.nextBytes -= openBytes(*e)
	e.State, e.Action, e.By, e.AnswerID, e.Schema = state, a.Action, a.AnsweredBy, a.AnswerID, nil
	e.Call, e.Askings = nil, nil
	if g.child == nil && (r.failure != nil || r.root.Err() != nil) && !r.tellsOfUndoing(ctx) {
		return // finish publishes
	}
	if len(r.openElicitations()) > 0 {
		r.publish(ctx, Waiting)
	} else {
		r.publish(ctx, Running)
	}
}

// tellsOfUndoing says whether the run has to publish that a question is closed
// though it has failed: because it goes on to undo what it has done, which takes
// its time. Older executions do not.
func (r *run) tellsOfUndoing(ctx workflow.Context) bool {
	return r.undoing && workflow.GetVersion(ctx, "undoing-is-told", workflow.DefaultVersion, 1) >= 1
}

// openBytes is what an open elicitation takes in the input of the execution
// that continues the run.
func openBytes(e Elicitation) int {
	size := PayloadSize(e.Message) + PayloadSize(e.Schema) + askingsBytes(e.Askings) + entryBytes
	for _, name := range e.Approvers {
		size += PayloadSize(name) + entryBytes/8
	}
	if e.Call != nil {
		size += PayloadSize(e.Call.Arguments) + entryBytes
	}
	return size
}

func (r *run) openElicitations() []Elicitation {
	var open []Elicitation
	for _, e := range r.state.Elicitations {
		if e.State == ElicitationOpen {
			open = append(open, e)
		}
	}
	return open
}

// answered turns an answer into the outcome of the step.
func (r *run) answered(s *definitions.Step, path string, a Answer) outcome {
	handler := s.OnCancel
	switch a.Action {
	case Accept:
		content, err := decodeObject(a.Content)
		if err != nil {
			content = map[string]any{} // cannot happen: the answer was checked
		}
		return outcome{status: stepCompleted, action: Accept, content: content,
			output: map[string]any{"action": Accept, "content": content}}
	case Decline:
		handler = s.OnDecline
	}
	output := map[string]any{}
	//workflowcheck:ignore a map again
	for k, v := range s.DefaultResults {
		output[k] = v
	}
	output["action"] = a.Action
	out := outcome{status: stepCompleted, action: a.Action, content: output["content"], output: output}
	switch {
	case handler != nil && handler.Action == definitions.Continue:
		return out
	case handler != nil && handler.Action == definitions.SkipRemaining:
		output["skipped"] = true
		out.skip = true
		return out
	}
	return outcome{status: stepFailed, action: a.Action, err: refusal(s, path, a)}
}

// refusal is the error of an elicitation that was not accepted.
func refusal(s *definitions.Step, path string, a Answer) *Error {
	e := &Error{Category: CategoryDeclined}
	switch a.Action {
	case Decline:
		e.Code, e.Message = "declined", fmt.Sprintf("step %s was declined", path)
	case Cancel:
		e.Code, e.Message = "dismissed", fmt.Sprintf("step %s: the question was dismissed without an answer", path)
	default:
		e.Code, e.Category, e.Retryable = "elicitation_timeout", CategoryTimeout, true
		e.Message = fmt.Sprintf("step %s timed out: nobody answered within %s", path, timeout(s).Round(time.Millisecond))
		return e
	}
	if a.AnsweredBy != "" {
		e.Message += " by " + a.AnsweredBy
	}
	return e
}
