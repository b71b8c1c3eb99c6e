package backends

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
)

const (
	// linePatience is how long a call waits here. One that must wait longer keeps its place
	// and comes again.
	linePatience = 2 * time.Second

	// placeKept is how long a call keeps its place after it should have come again.
	placeKept = time.Minute

	// leastHold and mostHold bound the hold of a call whose turn is a guess. leastHold
	// is an average: with a fixed interval, a call could miss its turn each time that
	// calls of equal length end.
	leastHold = time.Second
	mostHold  = time.Hour

	// leastTrust is the longest hold of a call that has just come; later it is trustGrows
	// times as long as the call has waited. The calls before it may never come again, as
	// those of runs that were cancelled.
	leastTrust = time.Minute
	trustGrows = 3

	// closedHold is the hold of a call at a closed line.
	closedHold = time.Second
)

// A Line decides whether a call of one backend may be made now, and if not, when. Within the
// Limits of the backend it lets the calls of each caller through in the order of their
// arrival, and callers in turn, so that one with many calls does not keep others waiting. One
// process keeps it for all, so it is only in memory. It is safe for concurrent use.
type Line struct {
	cfg    Limits
	serves func() bool

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when anything changes
	waiting  []*ticket     // by round, the oldest first
	underWay map[*Pass]bool
	lent     map[string]*Pass // to calls of other processes
	took     time.Duration    // by a call, about; 0 = none has ended
	rate     *rate.Limiter
	breaker  *gobreaker.TwoStepCircuitBreaker[any] // nil = none
	reopens  time.Time                             // when an open breaker lets a call through
	closed   bool
}

// A ticket is the place of a call.
type ticket struct {
	id, caller string
	round      int       // each has one call of a caller
	came       time.Time // first
	here       bool      // it waits here
	until      time.Time // when its place is lost, unless it waits here
}

// NewLine makes the line of a backend. serves reports whether this process still keeps
// it; nil = it does. spent is when the previous process had used up the rate:
// LineState.Spent if it handed that over, else the last moment at which it may have let a
// call begin; zero = there was no such process.
func NewLine(cfg Limits, serves func() bool, spent time.Time) *Line {
	if serves == nil {
		serves = func() bool { return true }
	}
	l := &Line{cfg: cfg, serves: serves, changed: make(chan struct{}), underWay: map[*Pass]bool{}, lent: map[string]*Pass{}}
	l.rate = rate.NewLimiter(rate.Inf, 0)
	if cfg.Rate.Calls > 0 {
		l.rate = rate.NewLimiter(rate.Limit(cfg.Rate.perSecond()), max(cfg.Rate.Burst, 1))
		if !spent.IsZero() {
			l.rate.AllowN(spent, max(cfg.Rate.Burst, 1))
		}
	}
	if cfg.Breaker.Failures > 0 {
		l.breaker = newBreaker(cfg.Breaker, func() { l.reopens = time.Now().Add(cfg.Breaker.Open) })
	}
	return l
}

// windowParts is in how many steps the window of a breaker moves.
const windowParts = 10

func newBreaker(b Breaker, opened func()) *gobreaker.TwoStepCircuitBreaker[any] {
	return gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1, Timeout: b.Open, Interval: b.Window, BucketPeriod: b.Window / windowParts,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			if b.Window > 0 {
				return int(c.TotalFailures) >= b.Failures
			}
			return int(c.ConsecutiveFailures) >= b.Failures
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				opened()
			}
		},
	})
}

// A Pass is the permission to make one call.
type Pass struct {
	line  *Line
	began time.Time
	done  func(error) // of the breaker; nil = none
	until time.Time   // when a lent one ends
	probe bool        // it tests whether the backend answers again
}

// NotSent ends a pass whose call could not be sent. If it was to test whether the
// backend answers again, the call is held like the others.
func (p *Pass) NotSent() (held HeldBack, again bool) {
	p.End(Failed)
	return HeldBack{HeldByBreaker, p.line.cfg.Breaker.Open}, p.probe
}

// Enter waits for the turn of a call, but not for long: a held call keeps its place
// under its id, and comes again. stop ends the wait early; nil = never. The error is
// that ctx has ended.
func (l *Line) Enter(ctx context.Context, caller, id string, stop <-chan struct{}) (*Pass, HeldBack, error) {
	t := l.arrive(caller, id)
	patient := time.NewTimer(linePatience)
	defer patient.Stop()
	tired := false
	for {
		pass, held, changed := l.try(t, tired)
		if pass != nil || tired || held.After > linePatience {
			return pass, held, nil
		}
		soon := time.NewTimer(held.After)
		select {
		case <-changed:
		case <-soon.C:
		case <-patient.C:
			tired = true
		case <-stop:
			tired = true
		case <-ctx.Done():
			soon.Stop()
			l.leave(t)
			return nil, HeldBack{}, callEnded(ctx)
		}
		soon.Stop()
	}
}

// arrive gives the ticket of a call, or adds one at the end of its round.
func (l *Line) arrive(caller, id string) *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &ticket{id: id, caller: caller, came: time.Now(), here: true}
	if len(l.waiting) > 0 {
		t.round = l.waiting[0].round
	}
	for _, o := range l.waiting {
		if o.id == id && !o.here {
			o.here = true
			return o
		}
		if o.caller == caller {
			t.round = o.round + 1
		}
	}
	place, _ := slices.BinarySearchFunc(l.waiting, t.round+1, func(o *ticket, round int) int { return o.round - round })
	l.waiting = slices.Insert(l.waiting, place, t)
	return t
}

func (l *Line) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(t)
	l.wake()
}

func (l *Line) drop(t *ticket) {
	l.waiting = slices.DeleteFunc(l.waiting, func(o *ticket) bool { return o == t })
}

// wake makes waiting calls try again. l.mu is held.
func (l *Line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// try lets a call through, or gives what holds it and when to try again at the latest;
// the channel is closed when it may be earlier. A call that is tired, or must wait
// longer than it may here, leaves.
func (l *Line) try(t *ticket, tired bool) (*Pass, HeldBack, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.tidy(now)
	held, soon := l.obstacle(t, now)
	if held.After == 0 {
		if pass := l.pass(now); pass != nil {
			l.drop(t)
			l.wake()
			return pass, HeldBack{}, nil
		}
		held = HeldBack{Why: HeldByBreaker, After: l.cfg.Breaker.Open}
	}
	if tired || !soon && held.After > linePatience {
		trust := max(leastTrust, trustGrows*now.Sub(t.came))
		held.After = max(held.After, min(l.untilTurn(t, held, now), trust))
		t.here, t.until = false, now.Add(held.After+placeKept)
		l.wake()
		return nil, held, nil
	}
	held.After = min(held.After, linePatience)
	return nil, held, l.changed
}

// tidy drops tickets and passes whose time is over.
func (l *Line) tidy(now time.Time) {
	l.waiting = slices.DeleteFunc(l.waiting, func(t *ticket) bool { return !t.here && t.until.Before(now) })
	for id, p := range l.lent {
		if p.until.Before(now) {
			delete(l.lent, id)
			l.end(p, NoVerdict)
		}
	}
}

// obstacle is what holds a call; zero = nothing. soon: the time is only when to look
// again, since it may end at any time.
func (l *Line) obstacle(t *ticket, now time.Time) (held HeldBack, soon bool) {
	switch {
	case l.closed || !l.serves():
		return HeldBack{After: max(closedHold, linePatience+1)}, false
	case l.breaker != nil && l.breaker.State() == gobreaker.StateOpen:
		return HeldBack{HeldByBreaker, max(l.reopens.Sub(now), time.Millisecond)}, false
	}
	if l.breaker != nil && l.breaker.State() == gobreaker.StateHalfOpen && len(l.underWay) > 0 && l.probing() {
		return HeldBack{HeldByBreaker, linePatience + 1}, true
	}
	if l.cfg.Concurrency > 0 && len(l.underWay) >= l.cfg.Concurrency {
		return HeldBack{HeldByConcurrency, linePatience + 1}, true
	}
	before := l.before(t, true)
	if tokens := l.rate.TokensAt(now); l.cfg.Rate.Calls > 0 && tokens < float64(before+1) {
		return HeldBack{HeldByRate, l.tokensIn(float64(before+1) - tokens)}, false
	}
	if before > 0 { // woken by the same change
		return HeldBack{HeldByConcurrency, linePatience + 1}, true
	}
	return HeldBack{}, false
}

// probing reports whether the one call of a half-open breaker is under way.
func (l *Line) probing() bool {
	c := l.breaker.Counts()
	return c.Requests > c.TotalExclusions
}

func (l *Line) tokensIn(tokens float64) time.Duration {
	return time.Duration(math.Ceil(tokens / l.cfg.Rate.perSecond() * float64(time.Second)))
}

// before is how many calls are before a ticket; here counts only those that
// wait here.
func (l *Line) before(t *ticket, here bool) (n int) {
	for _, o := range l.waiting {
		if o == t {
			break
		}
		if !here || o.here {
			n++
		}
	}
	return n
}

// pass lets a call through; nil = the breaker does not.
func (l *Line) pass(now time.Time) *Pass {
	p := &Pass{line: l, began: now}
	if l.breaker != nil {
		p.probe = l.breaker.State() == gobreaker.StateHalfOpen
		done, err := l.breaker.Allow()
		if err != nil {
			return nil
		}
		p.done = done
	}
	l.rate.AllowN(now, 1)
	l.underWay[p] = true
	return p
}

// untilTurn guesses the time until the turn of a call, from the calls before it. It
// gives three quarters of a guess: an early call gets a better one, a late call leaves
// a place empty.
func (l *Line) untilTurn(t *ticket, held HeldBack, now time.Time) time.Duration {
	switch held.Why {
	case "":
		return closedHold
	case HeldByBreaker:
		if l.breaker.State() == gobreaker.StateHalfOpen {
			return l.cfg.Breaker.Open
		}
		return held.After
	}
	before := float64(l.before(t, false))
	var turn time.Duration
	if l.cfg.Rate.Calls > 0 {
		turn = max(l.tokensIn(before+1-l.rate.TokensAt(now)), 0)
	}
	if held.Why == HeldByConcurrency && l.cfg.Concurrency > 0 {
		guess := float64(l.duration(now)) * (before + 1) / float64(l.cfg.Concurrency) * 3 / 4
		hold := float64(leastHold) * (0.5 + rand.Float64())
		turn = max(turn, time.Duration(min(max(guess, hold), float64(mostHold))))
	}
	return turn
}

// duration is about how long a call takes: the average of those that have ended, or the
// time so far of those under way.
func (l *Line) duration(now time.Time) time.Duration {
	var ages time.Duration
	for p := range l.underWay {
		ages += now.Sub(p.began)
	}
	if n := len(l.underWay); n > 0 {
		ages /= time.Duration(n)
	}
	return max(l.took, ages)
}

// End returns a pass with the verdict of its call.
func (p *Pass) End(v Verdict) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(p, v)
}

func (l *Line) end(p *Pass, v Verdict) {
	if !l.underWay[p] {
		return
	}
	delete(l.underWay, p)
	took := time.Since(p.began)
	if l.took == 0 {
		l.took = took
	}
	l.took += (took - l.took) / 8
	if p.done != nil {
		p.done(v.err())
	}
	l.wake()
}

// Close lets no more calls through: waiting calls leave at once.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// State gives the state of the line.
func (l *Line) State() LineState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy(time.Now())
	s := LineState{UnderWay: len(l.underWay), Waiting: len(l.waiting)}
	if now := time.Now(); l.cfg.Rate.Calls > 0 {
		s.Spent = now.Add(-l.tokensIn(l.rate.TokensAt(now)))
	}
	if l.breaker == nil {
		return s
	}
	switch l.breaker.State() {
	case gobreaker.StateOpen:
		s.Breaker, s.Until = "open", l.reopens
	case gobreaker.StateHalfOpen:
		s.Breaker = "half-open"
	default:
		s.Breaker = "closed"
	}
	return s
}
