package limits

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
	// patience is how long a call waits here. One that has to wait longer keeps
	// its place and comes again.
	patience = 2 * time.Second

	// placeKept is for how long after it should have come again a call keeps
	// its place.
	placeKept = time.Minute

	// leastHold and mostHold bound for how long a call is sent away whose turn
	// can only be guessed. leastHold is an average: at a fixed beat a call could
	// be away each time that calls of even length make room.
	leastHold = time.Second
	mostHold  = time.Hour

	// closedHold is when a call is worth trying that came to a closed line.
	closedHold = time.Second
)

// A Line lets the calls of one backend through in the order in which they came.
// Its methods may be called at the same time.
type Line struct {
	cfg    Config
	serves func() bool

	mu       sync.Mutex
	changed  chan struct{} // closed, and another one, when anything has changed
	waiting  []*ticket     // the oldest first
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
	id    string
	here  bool      // it waits here
	until time.Time // when its place is lost, while it does not
}

// NewLine makes the line of a backend. serves reports whether this process is still
// the one that keeps it; nil = it is. spent is when the process before had let as
// many calls begin as it might: State.Spent if it has told it when it was done,
// or else the last moment in which it may have let one begin; zero = there was
// none.
func NewLine(cfg Config, serves func() bool, spent time.Time) *Line {
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

// windowParts is in how many steps the window of a breaker moves on.
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
	until time.Time   // when it is taken back, of one that was lent
	probe bool        // it finds out whether the backend answers again
}

// NotSent ends a pass whose call could not be sent. One that was to find out
// whether the backend answers again is held as the others are: it is no fault of
// its own that it came first.
func (p *Pass) NotSent() (held Held, again bool) {
	p.End(Failed)
	return Held{ByBreaker, p.line.cfg.Breaker.Open}, p.probe
}

// Enter waits for the turn of a call, but not for long: a call that is held
// keeps its place under its id, and comes again. stop ends the wait early; nil =
// nothing does. An error says that ctx has ended.
func (l *Line) Enter(ctx context.Context, id string, stop <-chan struct{}) (*Pass, Held, error) {
	t := l.arrive(id)
	patient := time.NewTimer(patience)
	defer patient.Stop()
	tired := false
	for {
		pass, held, changed := l.try(t, tired)
		if pass != nil || tired || held.After > patience {
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
			return nil, Held{}, ended(ctx)
		}
		soon.Stop()
	}
}

// arrive gives a call the place that it has, or the last one.
func (l *Line) arrive(id string) *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.waiting {
		if t.id == id && !t.here {
			t.here = true
			return t
		}
	}
	t := &ticket{id: id, here: true}
	l.waiting = append(l.waiting, t)
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

// wake has those who wait look again. l.mu is held.
func (l *Line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// try lets a call through, or says what holds it and when it is worth looking
// again, at the latest; changed is closed when it is worth it earlier. A call
// that is tired, or that has to wait longer than it may here, goes away.
func (l *Line) try(t *ticket, tired bool) (*Pass, Held, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.tidy(now)
	held, soon := l.obstacle(t, now)
	if held.After == 0 {
		if pass := l.pass(now); pass != nil {
			l.drop(t)
			l.wake()
			return pass, Held{}, nil
		}
		held = Held{Why: ByBreaker, After: l.cfg.Breaker.Open}
	}
	if tired || !soon && held.After > patience {
		held.After = max(held.After, l.untilTurn(t, held, now))
		t.here, t.until = false, now.Add(held.After+placeKept)
		l.wake()
		return nil, held, nil
	}
	held.After = min(held.After, patience)
	return nil, held, l.changed
}

// tidy gives up what nobody asks for any more.
func (l *Line) tidy(now time.Time) {
	l.waiting = slices.DeleteFunc(l.waiting, func(t *ticket) bool { return !t.here && t.until.Before(now) })
	for id, p := range l.lent {
		if p.until.Before(now) {
			delete(l.lent, id)
			l.end(p, NoVerdict)
		}
	}
}

// obstacle is what holds a call back; zero = nothing does. soon says that the
// time is only when to look again, since what is waited for may come at any.
func (l *Line) obstacle(t *ticket, now time.Time) (held Held, soon bool) {
	switch {
	case l.closed || !l.serves():
		return Held{After: max(closedHold, patience+1)}, false
	case l.breaker != nil && l.breaker.State() == gobreaker.StateOpen:
		return Held{ByBreaker, max(l.reopens.Sub(now), time.Millisecond)}, false
	}
	if l.breaker != nil && l.breaker.State() == gobreaker.StateHalfOpen && len(l.underWay) > 0 && l.probing() {
		return Held{ByBreaker, patience + 1}, true
	}
	if l.cfg.Concurrency > 0 && len(l.underWay) >= l.cfg.Concurrency {
		return Held{ByConcurrency, patience + 1}, true
	}
	before := l.before(t, true)
	if tokens := l.rate.TokensAt(now); l.cfg.Rate.Calls > 0 && tokens < float64(before+1) {
		return Held{ByRate, l.tokensIn(float64(before+1) - tokens)}, false
	}
	if before > 0 { // whom the same change has woken
		return Held{ByConcurrency, patience + 1}, true
	}
	return Held{}, false
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

// untilTurn guesses when the turn of a call comes, from what is before it. Of
// what can only be guessed it says three quarters: who comes early is told more
// precisely, and who comes late leaves a place empty.
func (l *Line) untilTurn(t *ticket, held Held, now time.Time) time.Duration {
	switch held.Why {
	case "":
		return closedHold
	case ByBreaker:
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
	if held.Why == ByConcurrency && l.cfg.Concurrency > 0 {
		guess := float64(l.duration(now)) * (before + 1) / float64(l.cfg.Concurrency) * 3 / 4
		hold := float64(leastHold) * (0.5 + rand.Float64())
		turn = max(turn, time.Duration(min(max(guess, hold), float64(mostHold))))
	}
	return turn
}

// duration is how long a call takes, about: as those that have ended, or as long
// as those have taken by now that are under way.
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

// End gives a pass back, and tells what the call says about the backend.
func (p *Pass) End(o Outcome) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(p, o)
}

func (l *Line) end(p *Pass, o Outcome) {
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
		p.done(o.err())
	}
	l.wake()
}

// Close lets nothing more through: whoever waits is sent away at once.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// State says how the line stands.
func (l *Line) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy(time.Now())
	s := State{UnderWay: len(l.underWay), Waiting: len(l.waiting)}
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
