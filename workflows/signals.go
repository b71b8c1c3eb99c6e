package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// A reading is what a run has read of a signal before it decides on it.
type reading struct {
	about  Ruling                                  // that is to be; what it is about is given
	refuse string                                  // why it is not taken, though it is proven; "" = it is
	strict bool                                    // it always needs proof, whatever the settings
	take   func(ctx workflow.Context, made Ruling) // applies the signal
	// untaken is for one that is proven and refused; nil = nothing.
	untaken func(ctx workflow.Context)
}

// A mailbox has the signals of one name.
type mailbox struct {
	name    string
	arrived workflow.ReceiveChannel // of Signal
	// read reads a signal; no take = it stays for later. Held: it was before.
	read func(ctx workflow.Context, s Signal, held bool) reading
}

// box is that of a signal; nil = there is none.
func (ss *signals) box(name string) *mailbox {
	for _, m := range ss.boxes {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Signals are those that a run receives, and those that it sends to other runs.
type signals struct {
	*origin
	tasks   *tasks
	journal *record.Journal
	budget  *budget

	trust     *trustee                   // what is believed
	boxes     []*mailbox                 // by signal
	unchecked []UncheckedSignal          // that wait for a worker with their key
	changed   func(ctx workflow.Context) // unchecked has, while the run continues
}

// listen opens the mailboxes. A signal stays in its channel until it is received: see
// drained.
func (ss *signals) listen(ctx workflow.Context, boxes ...*mailbox) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for _, m := range boxes {
		m.arrived = workflow.GetSignalChannel(ctx, m.name)
	}
	ss.boxes = boxes
	ss.resumeChecking(ctx)
}

// receive takes what has arrived.
func (ss *signals) receive(ctx workflow.Context) {
	for _, m := range ss.boxes {
		ss.empty(ctx, m)
	}
}

// receiveNow takes what has arrived of one name.
func (ss *signals) receiveNow(ctx workflow.Context, name string) { ss.empty(ctx, ss.box(name)) }

// takeAnswer decides on an answer that has arrived before.
func (ss *signals) takeAnswer(ctx workflow.Context, s Signal) {
	ss.rule(ctx, ss.box(AnswerSignal), s, 0)
}

// empty takes what has arrived in a mailbox.
func (ss *signals) empty(ctx workflow.Context, m *mailbox) {
	for m.arrived.Len() > 0 {
		var s Signal
		if m.arrived.ReceiveAsync(&s) {
			ss.rule(ctx, m, s, 0)
		}
	}
}

// arrived reports whether there are signals that were not looked at.
func (ss *signals) arrived() bool {
	for _, m := range ss.boxes {
		if m.arrived.Len() > 0 {
			return true
		}
	}
	return false
}

// rule decides on a signal, for the first time or, round by round, again, and reports
// whether that was all. Until then the signal, which is no longer in its mailbox, is
// under way: the next execution would not get it.
func (ss *signals) rule(ctx workflow.Context, m *mailbox, s Signal, round int) (settled bool) {
	ss.budget.begins()
	defer ss.budget.ends()
	ss.tasks.makeRoom(ctx, record.EntryBytes)
	h := m.read(ctx, s, round > 0)
	if h.take == nil {
		return true
	}
	h.about.Signal, h.about.Again = m.name, round > 0
	full := len(ss.unchecked) >= maxUnchecked
	var made Ruling
	data := workflow.SideEffect(ctx, func(workflow.Context) any { return ss.trust.decide(s, ss.id, h, full, round) })
	if err := data.Get(&made); err != nil {
		made = h.about // cannot happen; nothing is taken
	}
	switch {
	case made.taken():
		mustRead(s.unread, "a signal that was read before")
		h.take(ctx, made)
	case made.Verdict == VerdictHeld && round > 0:
		return false
	case made.Verdict == VerdictHeld:
		ss.keepUnchecked(ctx, UncheckedSignal{Name: m.name, Signal: &s, Key: made.Key, ElicitationID: made.ElicitationID, By: made.By, AnswerID: made.AnswerID})
	case made.Verdict == VerdictUntaken && h.untaken != nil:
		h.untaken(ctx)
	case made.Verdict == VerdictRefused:
		workflow.GetLogger(ctx).Warn("signal refused", "signal", m.name, "reason", made.Reason, "elicitation", made.ElicitationID, "says", made.By)
	}
	return true
}

// send sends a signal, with proof, to another run. It is under way until then: a run that
// has ended or continued sends nothing more.
func (ss *signals) send(ctx workflow.Context, id, name string, value any, then func(error)) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s := ss.signed(ctx, name, id, value)
	ss.tasks.makeRoom(ctx, record.PayloadSize(s.Body))
	ss.tasks.carries(ctx)
	sent := workflow.SignalExternalWorkflow(ctx, id, "", name, s)
	ss.budget.begins()
	workflow.GoNamed(ctx, name+" "+id, func(ctx workflow.Context) {
		err := sent.Get(ctx, nil)
		ss.budget.ends()
		then(err)
	})
}

// signed makes a signal to another run.
func (ss *signals) signed(ctx workflow.Context, name, run string, body any) Signal {
	s, err := unproven(body)
	if err != nil {
		panic("workflows: encoding what is always JSON: " + err.Error())
	}
	data := workflow.SideEffect(ctx, func(workflow.Context) any { return ss.trust.Keys.Sign(s.statement(name, run)...) })
	if err := data.Get(&s.Proof); err != nil {
		s.Proof = "" // cannot happen; it is refused
	}
	return s
}
