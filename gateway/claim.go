package gateway

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// A claimed is the outcome of a claim.
type claimed int

const (
	free  claimed = iota // no request waits for the run, and none was answered
	taken                // a request waits, or was answered
	ended                // the run has ended meanwhile
)

// claim joins a request to a run that is under way, unless another replica has a
// client that waits for it, or it was answered before. Requests of this replica
// do it one after the other; one whose client is gone by then does not.
func (j *joins) claim(ctx context.Context, x *exchange, id runs.RunID) (claimed, error) {
	leave, err := j.turns.Take(x.connected, string(id))
	if err != nil {
		return free, err
	}
	defer leave()
	if j.served.settled(id) {
		return taken, nil
	}
	noted, err := j.runs.Attach(ctx, id, runs.Attended{Request: x.name, Says: runs.Joined})
	if err != nil {
		return free, err
	}
	if !noted {
		run, err := j.runs.Get(ctx, id)
		if err != nil || run.Closed != nil {
			return ended, err
		}
		return free, nil // it has too much to note already; rather join than repeat
	}
	x.joined = true
	return j.listen(ctx, x, id)
}

// listen follows what the run notes of its requests, until one waits for it or was
// answered, or no one has answered for long enough.
func (j *joins) listen(ctx context.Context, x *exchange, id runs.RunID) (claimed, error) {
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.NewTimer(noting)
	defer over.Stop()
	go j.askAgain(listening, cancel, x, id, over)
	roll := others{name: x.name, answers: answerNotes{}}
	for e, err := range j.runs.Follow(listening, id, 0, runs.AllEvents) {
		if err != nil {
			break
		}
		switch {
		case e.Kind == runs.EventDone:
			return ended, nil
		case e.Kind != runs.EventAttended:
			continue
		}
		switch roll.hear(e.Attended) {
		case heardSelf:
			over.Reset(rollCall)
		case heardAnswer:
			x.joined = false
			return taken, nil
		case heardWaiting:
			j.departAfterRefusal(ctx, x, id)
			return taken, nil
		case heardOther:
			if x.isThere() {
				j.attendance.respondsTo(ctx, id, x, e)
			}
		}
	}
	if roll.answers.outstanding() {
		x.joined = false
		return taken, nil
	}
	return free, ctx.Err()
}

// A heard is what a note of a run means for a request that wants to join it.
type heard int

const (
	heardNothing heard = iota
	heardSelf          // the run has noted the request, or its question: who waits says so from now on
	heardAnswer        // a client was given an answer and has not continued from it
	heardWaiting       // the client of another request waits
	heardOther         // another request came, or its client leaves
)

// Others are what a request with a name has heard of the others of its run.
type others struct {
	name    string
	noted   bool // what was noted before is of earlier roll calls
	answers answerNotes
}

func (o *others) hear(says *runs.Attended) heard {
	o.answers.add(says)
	own, first := says.Request == o.name, !o.noted
	o.noted = o.noted || own
	switch {
	case !o.noted:
		return heardNothing
	case o.answers.outstanding():
		return heardAnswer
	case own && (first || says.Says == runs.Inquires):
		return heardSelf
	case own:
		return heardNothing
	case says.Says == runs.Here && says.Of == o.name, says.Says == runs.Joined && says.Of != "":
		return heardWaiting
	case says.Says != runs.Inquires: // which has come before
		return heardOther
	}
	return heardNothing
}

// askAgain has a request ask again for who waits for a run, each time that the time is
// over, and ends the listening at last.
func (j *joins) askAgain(listening context.Context, end context.CancelFunc, x *exchange, id runs.RunID, over *time.Timer) {
	defer end()
	for asked := 1; ; asked++ {
		select {
		case <-over.C:
		case <-listening.Done():
			return
		}
		if asked == rollCalls {
			return
		}
		over.Reset(noting)               // until the run has noted it, which claim hears
		ctx, done := detached(listening) // what is under way when the listening ends is no failure
		noted := j.attendance.attend(ctx, id, runs.Attended{Request: x.name, Says: runs.Inquires})
		if done(); !noted {
			over.Reset(rollCall)
		}
	}
}

// AnswerNotes are what a run has recorded about the answers to requests that waited for it:
// by request, whether its client has continued from there. A client that was asked, and
// whose next request with the answer failed, was not answered. The two may be recorded
// in either order.
type answerNotes map[string]struct{ given, continued bool }

func (a answerNotes) add(says *runs.Attended) {
	switch {
	case says.Says == runs.Answered:
		of := a[says.Request]
		of.given = true
		a[says.Request] = of
	case says.Says == runs.Joined && says.Of != "":
		of := a[says.Of]
		of.continued = true
		a[says.Of] = of
	}
}

// outstanding reports whether a client was given an answer and has not continued from it.
func (a answerNotes) outstanding() bool {
	for _, of := range a {
		if of.given && !of.continued {
			return true
		}
	}
	return false
}

// departAfterRefusal is for a request that wanted to join a run with a waiting client. If that
// client leaves at this moment, it takes the request for its successor and does not end
// the run: so the request ends it, if no other waits.
func (j *joins) departAfterRefusal(ctx context.Context, x *exchange, id runs.RunID) {
	x.joined = false
	if !x.outlives {
		j.disconnects.stopLater(ctx, x, id, true)
	}
}
