package workflows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
)

// The reasons for holding a call, as in AttrWaiting and a Hold.
const (
	HeldByBreaker     = "breaker"     // the backend has failed, and gets no calls for a while
	HeldByRate        = "rate"        // the backend has been called as often as it may be
	HeldByConcurrency = "concurrency" // as many calls of the backend are under way as may be
	HeldByKey         = "key"         // a signal has come that was signed with a key which no worker has that has looked at it
	HeldByPayload     = "payload"     // no worker that has taken the call up could read it: its key is missing, or what is large of it cannot be fetched
	HeldByParent      = "parent"      // a run above has not seen for a while what has happened to it, such as a cancel
	HeldByBackend     = "backend"     // the backend cannot be reached
	HeldForGood       = "abandoned"   // a run above has ended without the run, as one of the two was reset; the run cancels itself
	heldByWorkers     = ""            // the process that keeps the limits is about to be another, or the run has not seen for a while what has happened to it; no limit
)

// Limited calls are made by one process for each backend (see BackendHost).
const (
	// hostPatience is how long a call waits at least for a process that takes
	// it. One that was killed is replaced within a quarter of that.
	hostPatience = time.Minute

	// shortWait is more than a call that was taken waits for its turn, before
	// its own time begins.
	shortWait = 15 * time.Second

	// minHold keeps a call that is held from being made in a tight loop.
	minHold = 100 * time.Millisecond

	// unreadPause is after how long another worker may read what one could not, or
	// execute a run above; each time that none could it is twice as long, up to
	// maxUnreadPause.
	unreadPause    = time.Second
	maxUnreadPause = time.Minute
)

// A Hold reports that a call was not made, since its backend takes no more for now,
// since a worker could not read it, or since no worker executes a run above.
type Hold struct {
	Why   string        `json:"why"`   // HeldByBreaker, HeldByRate, HeldByConcurrency, HeldByPayload, HeldByParent, HeldByBackend, HeldForGood; "" = no limit, the call moves to another process
	Pause time.Duration `json:"pause"` // after which it is to be made again; its place is kept as long

	took time.Duration // of an attempt before
}

// ErrAbandoned reports that a run above has ended without this one, as one of the two was
// reset: it does not cancel it.
var ErrAbandoned = errors.New("a run above has ended without this one")

// ErrForgotten reports that an attempt of a call is not the first, although Temporal counts
// it as such: somebody has reset the activity, by which Temporal forgets why the attempt
// before has failed.
var ErrForgotten = errors.New("somebody has reset the call at Temporal, after an attempt")

// ReportHold is the failure of a call that is held, as Temporal knows it.
func (a Attempt) ReportHold(h Hold) error {
	e, _ := a.Held(h.Why)
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*e, h}})
}

// ReportUnreachable is the failure of a call that was not sent. The run shows that it
// waits for the backend: it makes the same call after a pause, within its remaining
// time and attempts.
func (a Attempt) ReportUnreachable(e *Error, pause time.Duration) error {
	shown := *e
	shown.Category = codes.CategoryHeld
	return temporal.NewApplicationErrorWithOptions(e.Message, string(codes.CategoryHeld),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{shown, Hold{Why: HeldByBackend, Pause: pause}}})
}

// Unread is the failure of an activity of a type, "" = that is not known, that a
// worker has taken up and whose input it could not read for a reason. Nothing was
// executed. The run, where it knows how to wait, has another worker try it later;
// else Temporal has.
func Unread(activity string, reason error) error {
	waits := activity == CallToolName || activity == ResolveName || activity == ""
	e := Error{Code: codes.Held, Category: codes.CategoryHeld, Retryable: true, Message: "a worker has taken this up and cannot read it: " + reason.Error()}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(codes.CategoryHeld), temporal.ApplicationErrorOptions{
		NonRetryable: waits, NextRetryDelay: unreadPause, Details: []any{e, Hold{Why: HeldByPayload, Pause: unreadPause}},
	})
}

// holdOf returns what holds the call that failed with an error; nil = it is not held. A
// call that had not been sent when its process died is held until another process takes
// it.
func (q request) holdOf(err error) *Hold {
	var te *temporal.TimeoutError
	if q.tool.Limited && errors.As(err, &te) && te.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT && !te.HasLastHeartbeatDetails() {
		return &Hold{}
	}
	return heldIn(err)
}

// heldIn is the hold that an activity has reported; nil = none.
func heldIn(err error) *Hold {
	var app *temporal.ApplicationError
	var e Error
	var h Hold
	if !errors.As(err, &app) || app.Type() != string(codes.CategoryHeld) || !app.HasDetails() || app.Details(&e, &h) != nil {
		return nil
	}
	return &h
}

// A heldCall is one that a run makes again after a while.
type heldCall struct {
	Hold
	backend string
	until   time.Time
}

// Holds are the calls that a run cannot make now, by the path of their step.
type holds struct {
	calls   map[StepPath]heldCall
	unread  map[StepPath]bool          // of unsafe tools, which workers could not read; see ToolCall.Unread
	changed func(ctx workflow.Context) // calls have
}

func newHolds(unread map[StepPath]bool) *holds {
	h := &holds{calls: map[StepPath]heldCall{}, unread: map[StepPath]bool{}}
	maps.Copy(h.unread, unread) //workflowcheck:ignore a map again
	return h
}

// isUnread reports whether the last worker that has got a call could not read it.
func (hs *holds) isUnread(path StepPath) bool { return hs.unread[path] }
func (hs *holds) notRead(path StepPath)       { hs.unread[path] = true }
func (hs *holds) wasRead(path StepPath)       { delete(hs.unread, path) }

// next puts them into the input of the next execution.
func (hs *holds) next(in *RunInput) { in.Unread = hs.unread }

// why is what holds calls back; "" = nothing. What lasts longest comes first.
func (hs *holds) why() string {
	why := map[string]bool{}
	//workflowcheck:ignore a set
	for _, h := range hs.calls {
		why[h.Why] = true
	}
	for _, w := range HeldKinds {
		if why[w] {
			return w
		}
	}
	return ""
}

// sendInTurn makes a call as soon as the limits of its backend let it. While it is held
// nothing is under way: nothing was sent, the time limit of the step pauses, and no
// attempt of onError is used. A wait for an unreachable backend uses both; see
// waitsFor.
func (cs *calls) sendInTurn(ctx workflow.Context, q *request, digest string, result *ToolResult) (ParkedCall, *Error) {
	q.earlierUnknown = q.earlierUnknown || cs.sent.repeats(q.path) // unknown from an earlier execution
	defer q.fresh()
	for absent := 0; ; {
		sent, hold, failure := cs.send(ctx, *q, digest, result)
		if failure != nil {
			q.earlierUnknown, failure.EarlierUnknown = q.earlierUnknown || failure.MayHaveHappened(), false
		}
		if hold == nil {
			cs.holds.wasRead(q.path)
			return sent, failure
		}
		q.used += max(failure.Attempt-1, 0)
		if hold.Why == HeldForGood && cs.in.Parent != nil {
			cs.parent.isGone()
		}
		if hold.Why == HeldByBackend {
			if !q.waitsFor(hold) {
				return sent, unreachable(failure)
			}
			defer cs.holds.show(ctx, q, *hold, workflow.Now(ctx).Add(hold.Pause+q.left()))()
		}
		if hold.Why == HeldByPayload || hold.Why == HeldByParent {
			hold.Pause = pauseUnread(absent)
			absent++
		}
		if hold.Why == HeldByPayload && !Repeatable(q.tool.Effect) { // an attempt before, which Temporal has repeated, may have made it
			cs.holds.notRead(q.path)
		}
		if err := cs.holds.hold(ctx, q, *hold); err != nil {
			return sent, q.failure(err)
		}
		if hold.Why == HeldByParent && workflow.Now(ctx).After(cs.in.AboveEnds) {
			cs.in.AboveEnds = time.Time{} // nothing has cancelled this run since: those above were resumed
		}
	}
}

// waitsFor counts an attempt of a call to an unreachable backend and the pause after it,
// and reports whether there is time to make the call again then.
func (q *request) waitsFor(hold *Hold) bool {
	hold.Pause = max(hold.Pause, minHold)
	q.waits, q.used = true, q.used+1 // the call was attempted
	q.spent += hold.took + hold.Pause
	return q.spent < q.limit
}

// pauseUnread is how long a call is held for want of a worker that was held for it
// so often before.
func pauseUnread(before int) time.Duration {
	return min(unreadPause<<min(before, 10), maxUnreadPause)
}

// hold waits until a call is to be made again, and shows that meanwhile.
func (hs *holds) hold(ctx workflow.Context, q *request, h Hold) error {
	h.Pause = max(h.Pause, minHold)
	if h.Why != heldByWorkers && h.Why != HeldByBackend {
		defer hs.show(ctx, q, h, workflow.Now(ctx).Add(h.Pause))()
	}
	return workflow.NewTimerWithOptions(ctx, h.Pause, workflow.TimerOptions{Summary: Summary(q.path, h.what(q.tool.Backend))}).Get(ctx, nil)
}

// show has the run show what holds a call, until the returned function is called.
func (hs *holds) show(ctx workflow.Context, q *request, h Hold, until time.Time) (hide func()) {
	hs.calls[q.path] = heldCall{Hold: h, backend: q.tool.Backend, until: until}
	hs.changed(ctx)
	return func() {
		delete(hs.calls, q.path)
		hs.changed(ctx)
	}
}

// unreachable is the failure of a call that waited for its backend until its time was up.
func unreachable(held *Error) *Error {
	e := *held
	e.Category = codes.CategoryTool
	return &e
}

// what names a hold, for people.
func (h Hold) what(backend string) string {
	switch h.Why {
	case HeldByBreaker:
		return "waits until " + backend + " is tried again"
	case HeldByRate:
		return "waits for the rate limit of " + backend
	case HeldByConcurrency:
		return "waits for a place among the calls of " + backend
	case HeldByBackend:
		return "waits for " + backend + ", which cannot be reached"
	case HeldByPayload:
		return "waits for a worker that can read it: with its payload key, and with the large values"
	case HeldByParent:
		return "waits until a worker executes the runs above, which may have been stopped"
	}
	return "waits for workers, which are behind or about to be others"
}

const detailsTime = "2006-01-02 15:04:05 MST"

// details are the lines of the Web UI about calls that are held.
func (hs *holds) details() (lines []string) {
	const most = 10
	paths := slices.Sorted(maps.Keys(hs.calls))
	for i, path := range paths {
		if i == most {
			return append(lines, fmt.Sprintf("and %d more", len(paths)-most))
		}
		h := hs.calls[path]
		if h.Why == HeldByBackend {
			lines = append(lines, fmt.Sprintf("**%s %s**, and is tried again until %s", path, h.what(h.backend), h.until.UTC().Format(detailsTime)))
			continue
		}
		lines = append(lines, fmt.Sprintf("**%s %s**, and continues by itself at about %s", path, h.what(h.backend), h.until.UTC().Format(detailsTime)))
	}
	return lines
}
