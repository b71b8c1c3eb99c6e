// Package limits decides whether a call of a backend may be made now, and if not,
// when.
//
// A Line keeps what is limited of one backend: how many calls are under way, how
// many begin within a time, and whether the backend is left alone because it has
// failed. It is kept by one process for all, so it is only memory.
package limits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Config says what is limited. The zero value limits nothing.
type Config struct {
	Concurrency int     // calls under way at a time; 0 = any number
	Rate        Rate    // zero = any
	Breaker     Breaker // zero = none
}

// Limited reports whether anything is limited.
func (c Config) Limited() bool { return c != Config{} }

// A Rate says how many calls may begin: Calls within Per, evenly, and Burst at
// once.
type Rate struct {
	Calls int
	Per   time.Duration
	Burst int // at least 1
}

// ParseRate reads NUMBER/UNIT, where the unit is s, m or h, as a rate that lets
// calls begin one by one.
func ParseRate(text string) (Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	calls, err := strconv.Atoi(strings.TrimSpace(number))
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	if !ok || err != nil || calls <= 0 || per == 0 {
		return Rate{}, fmt.Errorf("invalid rate %q; write one such as 10/s, 600/m or 100/h", text)
	}
	return Rate{Calls: calls, Per: per, Burst: 1}, nil
}

func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	text := fmt.Sprintf("%d/%s", r.Calls, unit)
	if r.Burst > 1 {
		text += fmt.Sprintf(", %d at once", r.Burst)
	}
	return text
}

// perSecond is the rate as a number; +Inf without one.
func (r Rate) perSecond() float64 {
	if r.Calls == 0 {
		return math.Inf(1)
	}
	return float64(r.Calls) / r.Per.Seconds()
}

// A Breaker opens after so many Failures in a row, or within Window where that
// is said, and lets nothing through for as long as Open. Then one call finds out
// whether the backend answers again.
type Breaker struct {
	Failures int           // 0 = there is no breaker
	Window   time.Duration // 0 = in a row
	Open     time.Duration
}

func (b Breaker) String() string {
	within := "in a row"
	if b.Window > 0 {
		within = "within " + b.Window.String()
	}
	return fmt.Sprintf("opens after %d failures %s, for %s", b.Failures, within, b.Open)
}

// String lists the limits, for people.
func (c Config) String() string {
	var parts []string
	if c.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", c.Concurrency))
	}
	if c.Rate.Calls > 0 {
		parts = append(parts, c.Rate.String())
	}
	if c.Breaker.Failures > 0 {
		parts = append(parts, "breaker "+c.Breaker.String())
	}
	return strings.Join(parts, "; ")
}

// What holds a call back.
const (
	ByBreaker     = "breaker"
	ByRate        = "rate"
	ByConcurrency = "concurrency"
)

// A Held says that a call cannot be made now: Why, one of ByBreaker, ByRate and
// ByConcurrency, and After which time it is worth trying. "" = the line is
// closed; another process may have taken it over.
type Held struct {
	Why   string
	After time.Duration
}

// An Outcome is what a call says about its backend.
type Outcome int

// The outcomes of a call.
const (
	NoVerdict Outcome = iota // nothing
	Answered                 // the backend is well, whatever it answered
	Failed                   // it could not be reached, or gave no answer
)

var errFailed, errNoVerdict = errors.New("failed"), errors.New("says nothing")

func (o Outcome) err() error {
	switch o {
	case Answered:
		return nil
	case Failed:
		return errFailed
	}
	return errNoVerdict
}

// A State is how a line stands.
type State struct {
	Breaker  string    // closed, open, half-open; "" = none
	Until    time.Time // when an open breaker lets a call through
	UnderWay int
	Waiting  int // that have a place, whether they wait here or come again
	// Spent is when the rate let no call begin, from which what it lets begin now
	// has been saved up since. Zero = there is no rate.
	Spent time.Time
}

// Errors of Enter.
var errEnded = errors.New("the call has ended")

// ended is the error of a call whose context has.
func ended(ctx context.Context) error { return fmt.Errorf("%w: %w", errEnded, context.Cause(ctx)) }
