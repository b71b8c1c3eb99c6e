package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Replicas find out through the run which of them has a waiting client. A request signals
// the run (runs.Attended), and every request that follows the run reads that in its
// history, in the same order. A killed replica does not respond.
//
//	signal    sent by a request …                                 … and who responds
//	Named     that waits, and is found by its name                nobody
//	Joined    that wants to wait (joins.claim)                    who waits: Here
//	Inquires  that has joined, and asks again (joins.askAgain)    who waits: Here
//	Leaving   whose client is gone (disconnects.callRoll)         who waits, or leaves and has not asked: Here;
//	                                                              who watches: Watching
//	Answered  whose client was given an answer                    nobody
//
// One that has joined has the run if nobody responds, and nobody was answered
// (joins.listen); one that leaves ends it unless another waits or was answered
// (disconnect.react).
const (
	// rollCall is how long a request waits for responses, from when its own signal is in
	// the history of the run.
	rollCall = time.Second
	// rollCalls is how often it asks: who follows a run may learn of a signal only with
	// the next one.
	rollCalls = 3
	// noting is how long it may take until a signal is in the history: what comes while a
	// workflow task is executed, or is lost with its worker, is there when the task has
	// ended.
	noting = 15 * time.Second
	// stale is the age from which a signal is not answered. Others have decided by
	// then; the clocks of Temporal and of replicas may differ by less.
	stale = 30 * time.Second
)

// An attendance is this replica's part in that: it signals for the requests here, and
// responds for them.
type attendance struct {
	runs   Runs
	served *served
	now    func() time.Time
	log    *slog.Logger
}

// attend signals the run the attendance of a request. Noted is false where it has ended,
// or has noted too many, or could not be reached, which is logged.
func (a *attendance) attend(ctx context.Context, id runs.RunID, says runs.Attended) (noted bool) {
	noted, _ = a.mustAttend(ctx, id, says)
	return noted
}

// mustAttend is attend for a request that goes no further if the run cannot be reached.
func (a *attendance) mustAttend(ctx context.Context, id runs.RunID, says runs.Attended) (noted bool, err error) {
	if noted, err = a.runs.Attach(ctx, id, says); err != nil {
		a.log.WarnContext(ctx, "cannot signal a run that a client waits for it", "run", id, "error", err)
	}
	return noted, err
}

// respondsTo answers the signal of another request, if that one asks. Requests with a
// waiting client answer one that arrives; one that leaves is also answered by those
// that wait for their client to come back, and by watchers: the run is wanted, and its
// call may still be repeated.
func (a *attendance) respondsTo(ctx context.Context, id runs.RunID, x *exchange, e runs.Event) {
	if e.Kind != runs.EventAttended || e.Attended.Request == x.name || a.now().Sub(e.At) >= stale {
		return
	}
	response := runs.Here
	if x.watches {
		response = runs.Watching
	}
	says := e.Attended.Says
	asks := says == runs.Leaving || (says == runs.Joined || says == runs.Inquires) && !x.watches
	if asks && a.served.respondsFirst(id, e.Seq) {
		ctx, done := detached(ctx) // it speaks for all who wait here, also when its own client goes
		defer done()
		a.attend(ctx, id, runs.Attended{Request: x.name, Says: response, Of: e.Attended.Request, Events: runs.EventsUntil(e.Seq)})
	}
}

// Attending is the relation of a request to the run that it waits for.
type attending struct {
	name         string // of the request, unique among replicas; "" = it waits for no run
	countsAnswer bool   // whether the client got an answer counts, as the run can be found by its call alone
	writes       bool   // a tool of the run may do more than read
	runEnded     bool   // and the client got or was to get its result
	asks         bool   // the client is asked something, and is to send the call again with the answer
	joined       bool   // the history of the run has that the request joined it
	watches      bool   // it waits for the run of a call that it does not represent
	lastSeq      int64  // of the events of the run that were rendered
}

// watch notes that the request does not represent the call of the run, whose client may
// still lose its answer. Only the result counts as an answer to it, if the run's caller
// gets it; owner is another one's, "" = the client's own.
func (a *attending) watch(owner string) { a.watches, a.countsAnswer = true, owner == "" }
