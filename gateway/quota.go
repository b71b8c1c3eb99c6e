package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// Quotas are what one caller may have. A field that is 0 has its default.
type Quotas struct {
	OpenRuns      int // runs that have not ended
	RunsPerMinute int // runs that are started, which may all come at once; each process counts its own
	WaitingRuns   int // runs that wait for a person

	// Requests is how many requests a process has under way: calls that wait for their
	// result, and streams. Anonymous callers are distinguished by their machine.
	Requests int
}

// DefaultQuotas apply without configuration.
var DefaultQuotas = Quotas{OpenRuns: 1000, RunsPerMinute: 6000, WaitingRuns: 50, Requests: 1000}

func (q Quotas) withDefaults() Quotas {
	return Quotas{
		OpenRuns:      cmp.Or(q.OpenRuns, DefaultQuotas.OpenRuns),
		RunsPerMinute: cmp.Or(q.RunsPerMinute, DefaultQuotas.RunsPerMinute),
		WaitingRuns:   cmp.Or(q.WaitingRuns, DefaultQuotas.WaitingRuns),
		Requests:      cmp.Or(q.Requests, DefaultQuotas.Requests),
	}
}

// A QuotaError refuses what would be too much of one caller. Nothing was done.
type QuotaError struct {
	Message string
	After   time.Duration // when it is worth trying again
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%s; nothing was started, try again in %s", e.Message, e.wait())
}

func (e *QuotaError) wait() time.Duration {
	return time.Duration(max(1, math.Ceil(e.After.Seconds()))) * time.Second
}

// retryAfter is the value of the header of that name, in seconds.
func (e *QuotaError) retryAfter() string { return strconv.Itoa(int(e.wait().Seconds())) }

// How Temporal's index is used. It lags behind, and each count takes some
// milliseconds.
const (
	indexLag   = 5 * time.Second  // after which it has a run that was started, and what that waits for
	countLife  = 10 * time.Second // of a count: other processes start runs as well
	countEvery = time.Second      // how often a caller who is refused has the index asked

	maxCallers = 10_000 // that are remembered, besides those with runs that the index may lack
)

// quotaRuns limit the runs of each caller. Every start of the gateway goes through it.
type quotaRuns struct {
	Runs
	quotas    Quotas
	ofCallers func(backend string) bool // whether a backend wants the credentials of callers

	mu      sync.Mutex
	callers map[string]*usage
	starts  map[runs.RunID]*start // of all callers
}

// usage is what a caller has. The index and the starts here overlap: their sum is never
// too low.
type usage struct {
	rate   *rate.Limiter
	lookup sync.Mutex // held while the index is read

	// quotaRuns.mu guards what follows.
	held    int       // by so many calls of reserve
	indexed runs.Held // from the index
	at      time.Time // when it was asked
	stale   bool      // it did not answer then: indexed is from before
	young   map[*start]bool
}

// A start is a run that was started here, and that the index may lack.
type start struct {
	of   *usage
	at   time.Time  // when Temporal had taken it; zero = not yet
	asks bool       // whether it may wait for a person
	id   runs.RunID // "" = it is on its way
}

func newQuotaRuns(all Runs, q Quotas, ofCallers func(backend string) bool) *quotaRuns {
	return &quotaRuns{Runs: all, quotas: q, ofCallers: ofCallers, callers: map[string]*usage{}, starts: map[runs.RunID]*start{}}
}

// Start starts a run, unless its caller is at the limit. An existing run is found by
// its ID all the same.
func (q *quotaRuns) Start(ctx context.Context, req runs.StartRequest) (runs.Started, error) {
	s, err := q.reserve(ctx, req.Caller.Subject, q.waitOf(req))
	var refused *QuotaError
	if errors.As(err, &refused) && req.ID != "" {
		if _, there := q.Get(ctx, req.ID); there == nil {
			return runs.Started{ID: req.ID, Attached: true}, nil
		}
	}
	if err != nil {
		return runs.Started{}, err
	}
	started, err := q.Runs.Start(ctx, req)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil || started.Attached:
		q.drop(s)
	case s.of.young[s]:
		s.id, s.at = started.ID, time.Now()
		q.starts[s.id] = s
	}
	return started, err
}

// Follow follows the events of a run. A run that has ended no longer counts.
func (q *quotaRuns) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	return func(yield func(runs.Event, error) bool) {
		for e, err := range q.Runs.Follow(ctx, id, after, only) {
			if err == nil && e.Kind == runs.EventDone {
				q.ended(id)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (q *quotaRuns) ended(id runs.RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.starts[id]; s != nil {
		q.drop(s)
	}
}

func (q *quotaRuns) drop(s *start) {
	delete(s.of.young, s)
	delete(q.starts, s.id)
}

// reserve makes room for one more run of a caller. The error is a *QuotaError, or
// reports why the index cannot be asked, other than that it is away.
func (q *quotaRuns) reserve(ctx context.Context, caller string, w wait) (*start, error) {
	u, done := q.usage(caller)
	defer done()
	for {
		s, known, err := q.take(u, w)
		if err != nil {
			return nil, err
		}
		if known {
			return s, q.rated(s)
		}
		if err := q.ask(ctx, u, caller); err != nil {
			return nil, err
		}
	}
}

// rated counts a run with those of its caller's last minute, or drops it.
func (q *quotaRuns) rated(s *start) error {
	wait := delay(s.of.rate)
	if wait == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(s)
	return &QuotaError{After: wait, Message: fmt.Sprintf("you have started %d runs within a minute, the quota of a caller (quotas.runsPerMinute)", q.quotas.RunsPerMinute)}
}

// delay takes one of a rate, or reports how long it is until there is one.
func delay(l *rate.Limiter) time.Duration {
	now := time.Now()
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// take makes room for a run, as far as what is known allows; known is false when
// the index has to be asked first.
func (q *quotaRuns) take(u *usage, w wait) (s *start, known bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	age := time.Since(u.at)
	open, waiting := u.indexed.Open+len(u.young), u.indexed.Waiting
	for s := range u.young {
		if s.asks {
			waiting++
		}
	}
	var full *QuotaError
	switch {
	case age >= countLife:
		return nil, false, nil
	case open >= q.quotas.OpenRuns:
		full = &QuotaError{Message: fmt.Sprintf("your open runs are at the quota of a caller, %d (quotas.openRuns; those of the last seconds may count twice)", q.quotas.OpenRuns)}
	case w == waits && waiting >= q.quotas.WaitingRuns, w == mayWait && u.indexed.Waiting >= q.quotas.WaitingRuns:
		full = &QuotaError{Message: fmt.Sprintf("your runs that wait for a person, or may soon, are at the quota of a caller, %d (quotas.waitingRuns; those of the last seconds may count twice)", q.quotas.WaitingRuns)}
	default:
		s = &start{of: u, asks: w == waits}
		u.young[s] = true
		return s, true, nil
	}
	if age >= countEvery {
		return nil, false, nil
	}
	full.After = indexLag
	return nil, true, full
}

// ask has the index report what a caller has. Of many who want that at once, one asks.
// While the index is away, its last report counts, and all starts since.
func (q *quotaRuns) ask(ctx context.Context, u *usage, caller string) error {
	wanted := time.Now()
	u.lookup.Lock()
	defer u.lookup.Unlock()
	q.mu.Lock()
	done := u.at.After(wanted)
	q.mu.Unlock()
	if done {
		return nil
	}
	asked := time.Now()
	held, err := q.Held(ctx, caller)
	if err != nil && !errors.Is(err, runs.ErrIndexAway) {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	u.at, u.stale = time.Now(), err != nil
	if !u.stale {
		u.indexed = held
		q.dropIndexed(u, asked)
	}
	return nil
}

// dropIndexed drops the starts of a caller that the index has at a time.
func (q *quotaRuns) dropIndexed(u *usage, at time.Time) {
	for s := range u.young {
		if !s.at.IsZero() && at.Sub(s.at) > indexLag {
			q.drop(s)
		}
	}
}

// A wait is whether a run waits for a person.
type wait int

const (
	never   wait = iota
	mayWait      // if something goes wrong, or lacks its caller's credentials: it counts once it waits
	waits        // it may ask one, directly or through a tool that it calls: it counts at once
)

func (q *quotaRuns) waitOf(req runs.StartRequest) wait {
	steps, calls, tools := req.Definition.AllSteps(), req.Definition.Scripts().Calls(), definitions.ToolsByName(req.Tools)
	switch {
	case slices.ContainsFunc(steps, asks), slices.ContainsFunc(calls, func(c definitions.ScriptCall) bool {
		return c.Kind == definitions.CallsElicit || c.Kind == definitions.CallsApprove || c.Kind == definitions.CallsWorkflow
	}):
		return waits
	case slices.ContainsFunc(steps, func(s *definitions.Step) bool { return s.MayNeedPerson(tools) }):
		return mayWait
	}
	for _, t := range req.Tools {
		// A call in a script says only when it is made what follows an unknown outcome.
		if len(calls) > 0 && t.Effect != definitions.Read || q.ofCallers(t.Backend) {
			return mayWait
		}
	}
	return never
}

func asks(s *definitions.Step) bool {
	return s.Type.Traits().Asks || s.Workflow != "" || s.Step != nil && asks(s.Step)
}

// usage is what a caller has; it is kept until done.
func (q *quotaRuns) usage(caller string) (u *usage, done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u = q.callers[caller]
	if u == nil {
		if len(q.callers) >= maxCallers {
			q.forget()
		}
		u = &usage{rate: rate.NewLimiter(rate.Limit(float64(q.quotas.RunsPerMinute)/60), q.quotas.RunsPerMinute), young: map[*start]bool{}}
		q.callers[caller] = u
	}
	u.held++
	return u, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		u.held--
	}
}

// forget drops the callers whose state the index has.
func (q *quotaRuns) forget() {
	for caller, u := range q.callers {
		if u.held > 0 || u.stale || time.Since(u.at) < countLife { // else the index is asked anew
			continue
		}
		q.dropIndexed(u, time.Now())
		if len(u.young) == 0 && u.rate.Tokens() >= float64(q.quotas.RunsPerMinute) {
			delete(q.callers, caller)
		}
	}
}
