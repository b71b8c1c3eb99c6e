package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Limits of looking for the run of a call that is sent again.
const (
	maxWindow    = 12 * time.Hour  // of Options.ReattachWindow: Temporal keeps runs for twice as long at least
	era          = 12 * time.Hour  // in which the runs of a call are counted
	minBack      = time.Hour       // for which a run is looked for beyond its timeout, if the window is shorter
	maxEras      = 8               // that are looked at: enough for a request of three days
	clockSkew    = 2 * time.Second // that replicas may differ about the end of an era
	lastStart    = 2 * time.Minute // after the end of an era, in which a run of a call of before may still be started
	lookBack     = 10              // runs of a call that may have lost their clients, the last ones
	maxAtOnce    = 50              // runs of one call that others start while it is looked for one
	maxRunNumber = 1 << 20         // runs of one call in an era
	// closeDelay is how long it may take until a connection that a client has closed
	// is known to be: a client that calls again at once, on another, may be faster.
	closeDelay = 50 * time.Millisecond
)

// startOrJoin starts a run, unless there is one of the same call whose answer was
// lost: then the call is that one, sent again.
//
// The runs of a call are numbered, and their IDs derive from the call, the era of
// the clock that replicas share and the number. So each replica finds the runs that
// others have started, and no two start the same. Temporal's index is not asked: it
// lags behind, and servers let it be asked a few times in a second only.
func (j *joins) startOrJoin(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	x.countsAnswer = true
	a := resentCall{j: j, x: x, tool: req.Definition.Name, call: callName(x, req), lasts: time.Duration(definitions.RunTimeout(req.Definition)), arrived: j.now(), began: time.Now()}
	now := a.arrived.UnixNano() / int64(era)
	if web.Left(x.connected) && !x.outlives {
		return runs.Started{}, errClientGone
	}
	if a.attended(now) {
		if err := a.awaitClosing(ctx); err != nil {
			return runs.Started{}, err
		}
	}
	if a.allSettled(now) {
		next, _ := j.served.next(a.series(now))
		started, err := a.start(ctx, req, now, next)
		if err != nil || !started.Attached {
			return started, err
		}
		if err := a.awaitClosing(ctx); err != nil {
			return runs.Started{}, err
		}
	}
	lost, next, err := a.findLost(ctx, now)
	if err != nil || lost != "" {
		return runs.Started{ID: lost, Attached: true}, err
	}
	return a.startNext(ctx, req, now, next)
}

// callName names a call. Equal calls have the same name: one may be the other, sent again.
func callName(x *exchange, req runs.StartRequest) string {
	same := []string{"call", x.callerID, x.params.Name, string(req.Arguments)} // canonical, as Definition.Arguments gives them
	if version := x.params.Meta.Version; version != "" {
		same = append(same, version)
	}
	if x.params.Name == scriptTool {
		same = append(same, req.Definition.Digest())
	}
	if forwarded := x.forwarded.Name(); forwarded != "" { // such as a tenant: then it is a call for another one
		same = append(same, "forwarded", forwarded)
	}
	return encode64(digest(same...)[:15])
}

// A resentCall is a call that may be one sent again.
type resentCall struct {
	j          *joins
	x          *exchange
	tool, call string
	lasts      time.Duration // how long a run of it may take
	arrived    time.Time     // by the clock that replicas share
	began      time.Time
}

// errClientGone is of a call whose client has closed its connection before a run was
// started. It may have sent the call again, on a connection that was faster.
var errClientGone = errors.New("the client closed its connection before the call was started")

func (a *resentCall) series(of int64) string { return a.call + fmt.Sprint(" ", of) }

func (a *resentCall) id(of int64, no int) runs.RunID {
	return derivedID(a.tool, "call", a.call, fmt.Sprint(of), fmt.Sprint(no))
}

// eras are those in which a run may have been started that the call repeats, because it
// is open or has ended within the window, the last one first. Most have one or two.
func (a *resentCall) eras() (eras []int64) {
	last := a.arrived.Add(clockSkew).UnixNano() / int64(era)
	first := a.arrived.Add(-a.lasts-max(a.j.window, minBack)).UnixNano() / int64(era)
	for of := last; of >= first && len(eras) < maxEras; of-- {
		eras = append(eras, of)
	}
	return eras
}

// attended reports whether a client seems to wait here for a run of the same call.
func (a *resentCall) attended(of int64) bool {
	next, _ := a.j.served.next(a.series(of))
	for no := next - 1; no >= max(0, next-lookBack); no-- {
		if a.j.served.attended(a.id(of, no)) {
			return true
		}
	}
	return false
}

// awaitClosing gives the clients of two equal calls the time to be known as gone, if
// the tool writes: one may be the other sent again, and either may arrive first. A call
// whose own client is gone starts nothing.
func (a *resentCall) awaitClosing(ctx context.Context) error {
	if a.x.writes {
		select {
		case <-time.After(time.Until(a.began.Add(closeDelay))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if web.Left(a.x.connected) {
		return errClientGone
	}
	return nil
}

// allSettled reports whether this replica knows, of all runs that may be joined, that they
// may not: of those that others have started in the era now, the next start tells.
func (a *resentCall) allSettled(now int64) bool {
	for _, of := range a.eras() {
		next, final := a.j.served.next(a.series(of))
		if of != now && !final || !a.settled(of, next) {
			return false
		}
	}
	return true
}

// settled reports whether this replica knows, of the last runs before one, that they may
// not be joined.
func (a *resentCall) settled(of int64, next int) bool {
	for no := next - 1; no >= max(0, next-lookBack); no-- {
		if !a.j.served.settled(a.id(of, no)) {
			return false
		}
	}
	return true
}

// findLost looks among the last runs of the call for one that has lost its client; "" =
// there is none. next is the number of the run after the last one of the era now.
func (a *resentCall) findLost(ctx context.Context, now int64) (lost runs.RunID, next int, err error) {
	eras := a.eras()
	counts, err := a.countAll(ctx, eras)
	if err != nil {
		return "", 0, err
	}
	for i, of := range eras {
		n := counts[i]
		if of == now {
			next = n
		}
		for no := n - 1; no >= max(0, n-lookBack); no-- {
			if lost, err := a.isLost(ctx, a.id(of, no)); err != nil || lost {
				return a.id(of, no), 0, err
			}
		}
	}
	return "", next, nil
}

// startNext starts the first run from a number on that nobody else starts, unless one of
// those that others start at this moment has lost its client.
func (a *resentCall) startNext(ctx context.Context, req runs.StartRequest, now int64, next int) (runs.Started, error) {
	for no := next; no < next+maxAtOnce; no++ {
		started, err := a.start(ctx, req, now, no)
		if err != nil || !started.Attached {
			return started, err
		}
		if err := a.awaitClosing(ctx); err != nil {
			return runs.Started{}, err
		}
		if lost, err := a.isLost(ctx, started.ID); err != nil || lost {
			return started, err
		}
	}
	return runs.Started{}, fmt.Errorf("too many calls of %s at once: %w", a.tool, runs.ErrUnavailable)
}

// start starts a run of the call, if its client still waits: it may have sent the call
// again since, and got the run before. A first run may outlive its client.
func (a *resentCall) start(ctx context.Context, req runs.StartRequest, of int64, no int) (runs.Started, error) {
	if web.Left(a.x.connected) && (no > 0 || !a.x.outlives) {
		return runs.Started{}, errClientGone
	}
	req.ID = a.id(of, no)
	started, err := a.j.runs.Start(ctx, req)
	if err == nil {
		a.j.served.counted(a.series(of), no+1, false)
	}
	return started, err
}

// countAll counts the runs of the call in each of some eras, at once.
func (a *resentCall) countAll(ctx context.Context, eras []int64) ([]int, error) {
	counts, failed := make([]int, len(eras)), make([]error, len(eras))
	var all sync.WaitGroup
	for i, of := range eras {
		all.Go(func() { counts[i], failed[i] = a.count(ctx, of) })
	}
	all.Wait()
	return counts, cmp.Or(failed...)
}

// isOver reports whether no run will be started in an era any more.
func (a *resentCall) isOver(of int64) bool {
	return a.arrived.Add(-lastStart).UnixNano()/int64(era) > of
}

// count reports how many runs of the call there are in an era.
func (a *resentCall) count(ctx context.Context, of int64) (int, error) {
	low, final := a.j.served.next(a.series(of))
	if final {
		return low, nil
	}
	var err error
	there := func(no int) bool {
		if err == nil {
			_, err = a.j.runs.Get(ctx, a.id(of, no))
		}
		if errors.Is(err, runs.ErrNotFound) {
			err = nil
			return false
		}
		return err == nil
	}
	high, step := low, 1
	for step < maxRunNumber && there(high) {
		low, high, step = high+1, high+step, 2*step
	}
	for low < high {
		if middle := low + (high-low)/2; there(middle) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if err == nil {
		a.j.served.counted(a.series(of), low, a.isOver(of))
	}
	return low, err
}

// isLost reports whether a run has lost its client before it was answered, no
// longer than the window ago, so that the call is to be joined to it. A run that
// was cancelled before it had effects has nothing that calling again would repeat.
func (a *resentCall) isLost(ctx context.Context, id runs.RunID) (bool, error) {
	if a.j.served.settled(id) {
		return false, nil
	}
	run, err := a.j.runs.Get(ctx, id)
	if errors.Is(err, runs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if run.Closed == nil {
		found, err := a.j.claim(ctx, a.x, id)
		if err != nil || found != ended {
			return found == free, err
		}
		if run, err = a.j.runs.Get(ctx, id); err != nil || run.Closed == nil {
			return err == nil, err // it is in its next execution
		}
	}
	answered := a.arrived.Sub(*run.Closed) > a.j.window
	if !answered {
		answered, err = a.j.deliveries.wasAnswered(ctx, a.x.callerID, run)
	}
	if err != nil {
		return false, err
	}
	if answered {
		a.j.served.settle(id, a.arrived)
		return false, nil
	}
	if run.Status == runs.Cancelled {
		outcome, err := a.j.runs.Result(ctx, id)
		if err != nil || outcome.Failure == nil || outcome.Failure.Effects.Repeatable() {
			return false, err
		}
	}
	return a.j.served.assign(id, a.x), nil
}
