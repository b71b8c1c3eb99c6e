package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Replicas find out by the run itself which of them has a client that waits for
// it: a request that comes (Joined), or whose client is gone (Leaving), says so in
// the history of the run, and all who follow the run for a client say that they
// are there (Here). One that was killed says nothing.
const (
	// rollCall is how long a request waits for others to say that they are there, from
	// when its own note is in the history of the run.
	rollCall = time.Second
	// rollCalls is how often it asks: who follows a run may learn of a note only with
	// the next one.
	rollCalls = 3
	// noting is how long that may take: what comes while a workflow task is executed,
	// or is lost with its worker, is in the history when the task has ended.
	noting = 15 * time.Second
	// stale is how old what a request says may be to be answered. Others have
	// decided by then; the clocks of Temporal and of replicas may differ by less.
	stale = 30 * time.Second
)

// An attendance is the part of this replica in that: it tells runs of the requests
// here, and responds for them.
type attendance struct {
	runs   Runs
	served *served
	now    func() time.Time
	log    *slog.Logger
}

// attend has a run note how a request stands to it.
func (a *attendance) attend(ctx context.Context, id runs.RunID, name string, says runs.Attendance) (noted bool) {
	return a.attendAs(ctx, id, runs.Attended{Request: name, Says: says})
}

func (a *attendance) attendAs(ctx context.Context, id runs.RunID, stands runs.Attended) (noted bool) {
	noted, err := a.runs.Attach(ctx, id, stands)
	if err != nil {
		a.log.WarnContext(ctx, "cannot signal a run that a client waits for it", "run", id, "error", err)
	}
	return noted
}

// respondsTo says that a request is there, if others ask for that. A client that
// comes is answered by those whose client waits; one that leaves also by those
// who wait for theirs to come back, and by who watches: the run is wanted, and its
// call may still be sent again.
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
	if asks && a.served.responds(id, e.Seq) {
		ctx, done := detached(ctx) // it speaks for all who wait here, also when its own client goes
		defer done()
		a.attend(ctx, id, x.name, response)
	}
}
