package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Gates are the open elicitations of a run, each with the channel on which its step waits.
// What everybody may know of them is in elicitations.
type gates struct {
	*origin
	journal      *record.Journal
	budget       *budget
	signals      *signals
	failures     *failures
	board        *board
	elicitations *elicitations
	deadlines    *deadlines

	opened         map[string]*gate                                    // by ID
	pendingAnswers map[string][]Signal                                 // answers to elicitations that this execution has yet to open again, by ID
	passOn         func(ctx workflow.Context, below *called, a Answer) // gives an answer to the called run that asks
	reportAgain    func(ctx workflow.Context, id string)               // reports to the run above how an elicitation stands
}

func newGates(g gates) *gates {
	g.opened, g.pendingAnswers = map[string]*gate{}, map[string][]Signal{}
	for _, e := range g.in.Open {
		g.pendingAnswers[e.ID] = nil
	}
	return &g
}

// A gate is an open elicitation.
type gate struct {
	index   int // in elicitations
	kind    ElicitationKind
	schema  json.RawMessage
	answers workflow.Channel // of Answer; valid ones only; nil if a called run asks
	child   *called          // that asks; nil = the run itself does
}

// receive adds the answer to a selector.
func (g *gate) receive(sel workflow.Selector, answer *Answer, got *bool) {
	sel.AddReceive(g.answers, func(c workflow.ReceiveChannel, _ bool) { *got = c.ReceiveAsync(answer) })
}

// ask opens an elicitation and waits for its answer. The caller sets Kind, StepPath,
// Message, Schema and Mode; limit 0 = for ever. If an earlier execution has recorded an
// answer, ask returns that.
func (gs *gates) ask(ctx workflow.Context, e Elicitation, limit time.Duration) (Answer, *Error) {
	path := e.StepPath
	digest := e.digest()
	if was, ok := record.Found[record.Gate](gs.journal, path, digest); ok {
		gs.journal.Note(path, record.Gate{Digest: digest, Answer: was.Answer})
		return was.Answer, nil
	}
	if err := gs.elicitations.check(e); err != nil {
		return Answer{}, err
	}
	if ctx.Err() != nil {
		return Answer{}, cancelledStep(path)
	}
	g := gs.open(ctx, e, limit)
	defer delete(gs.opened, gs.elicitations.at(g.index).ID)
	timer, stopTimer := workflow.WithCancel(ctx)
	defer stopTimer()
	answer, state := gs.await(ctx, timer, g, limit)
	gs.budget.begins() // closing waits for room, and the next execution must have what is recorded then
	defer gs.budget.ends()
	gs.close(ctx, g, state, answer)
	if state == ElicitationDropped {
		return Answer{}, cancelledStep(path)
	}
	gs.journal.Note(path, record.Gate{Digest: digest, Answer: answer})
	return answer, nil
}

// await waits until an elicitation is answered, its time is over, or its step is cancelled.
// The time is kept until the context timer ends.
func (gs *gates) await(ctx, timer workflow.Context, g *gate, limit time.Duration) (answer Answer, state ElicitationState) {
	e := gs.elicitations.at(g.index)
	id, path, expires := e.ID, e.StepPath, e.ownEnd()
	got, timedOut := false, false
	sel := workflow.NewSelector(ctx)
	g.receive(sel, &answer, &got)
	if limit > 0 {
		over, end := workflow.NewFuture(ctx)
		gs.deadlines.after(timer, expires, Summary(path, WaitsForAnswer), func() { end.Set(nil, nil) })
		sel.AddFuture(over, func(workflow.Future) { timedOut = true })
	}
	sel.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)
	if timedOut && gs.signals.awaitKeys(ctx, id) == nil {
		got = g.answers.ReceiveAsync(&answer)
	}
	switch {
	case got:
		return answer, ElicitationAnswered
	case timedOut && ctx.Err() == nil:
		return Answer{ElicitationID: id, Action: expired, At: workflow.Now(ctx)}, ElicitationExpired
	}
	return Answer{}, ElicitationDropped
}

// open adds an elicitation to the run's state. One that was open when the run continued
// as new stays unchanged.
func (gs *gates) open(ctx workflow.Context, e Elicitation, limit time.Duration) *gate {
	e.ID = e.StepPath.Asks(gs.elicitations.occurrence(e.StepPath))
	e.StepID = e.StepPath.Top()
	e.Digest, e.Round = e.digest(), gs.in.Round
	e.State = ElicitationOpen
	e.Opened = workflow.Now(ctx)
	if limit > 0 {
		e.Expires = e.Opened.Add(limit)
	}
	if end := endOf(ctx); !end.IsZero() && (limit <= 0 || end.Before(e.Expires)) {
		e.Expires, e.Limit = end, e.Expires
	}
	carried := false
	for _, was := range gs.in.Open {
		if was.StepPath == e.StepPath && !gs.elicitations.asked(was.ID) {
			e, carried = was, true
			e.Round = gs.in.Round
		}
	}
	index := gs.elicitations.add(e)
	if carried {
		gs.budget.reopens(gs.elicitations.size())
	}
	g := &gate{index: index, kind: e.Kind, schema: e.AnswerSchema(), answers: workflow.NewBufferedChannel(ctx, 1)}
	gs.opened[e.ID] = g
	gs.journal.Grow(openBytes(e))
	gs.board.publish(ctx, Waiting)
	gs.takePendingAnswers(ctx, e.ID)
	return g
}

// close records the end of an elicitation.
func (gs *gates) close(ctx workflow.Context, g *gate, state ElicitationState, a Answer) {
	gs.closeAs(ctx, g, Elicitation{State: state, Action: a.Action, By: a.AnsweredBy, Via: a.Via, At: a.At, Unproven: a.Unproven,
		AnswerID: a.AnswerID, Content: shownContent(a.Content), Decision: decisionOf(g.kind, a)})
}

// maxShownContent bounds the content of an answer in the memo. History has all of it.
const maxShownContent = 2000 // bytes

func shownContent(content json.RawMessage) json.RawMessage {
	if record.PayloadSize(content) > maxShownContent {
		return nil
	}
	return content
}

// closeAs does so with a known end.
func (gs *gates) closeAs(ctx workflow.Context, g *gate, end Elicitation) {
	e := gs.elicitations.at(g.index)
	delete(gs.opened, e.ID)
	gs.journal.Grow(-openBytes(*e))
	e.State, e.Action, e.By, e.Via, e.At, e.Unproven = end.State, end.Action, end.By, end.Via, end.At, end.Unproven
	e.AnswerID, e.Content, e.Decision, e.Schema = end.AnswerID, end.Content, end.Decision, nil
	e.Call, e.Questions = nil, nil
	if g.child == nil && gs.failures.stopped() {
		return // finish publishes
	}
	gs.board.publishNow(ctx)
}

// park makes the run wait for a person's decision about a call, up to the run's own
// timeout. The caller sets Kind, Message, Schema and Call. Its path is below that of the
// step, and another one for each nth time that the run waits about this call, so that an
// answer counts after continue-as-new, but for that time alone.
func (gs *gates) park(ctx workflow.Context, e Elicitation, path StepPath, nth int) (Answer, *Error) {
	e.StepPath = parkedPath(e.Kind, path, nth)
	return gs.ask(ctx, e, 0)
}

func parkedPath(kind ElicitationKind, path StepPath, nth int) StepPath {
	parked := path.Below(StepPath(kind))
	if nth > 1 {
		parked = parked.Attempt(nth)
	}
	return parked
}
