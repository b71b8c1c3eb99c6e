package backends

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits of the calls of a backend. The zero value limits nothing.
type Limits struct {
	Concurrency int     // calls under way at a time; 0 = any number
	Rate        Rate    // zero = any
	Breaker     Breaker // zero = none
}

// Limited reports whether anything is limited.
func (c Limits) Limited() bool { return c != Limits{} }

// A Rate bounds how many calls begin: Calls within Per, evenly, and Burst at once.
type Rate struct {
	Calls int
	Per   time.Duration
	Burst int // at least 1
}

// ParseRate reads NUMBER/UNIT, with the unit s, m or h, as a rate with Burst 1.
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

// perSecond is the rate as a number; +Inf = no limit.
func (r Rate) perSecond() float64 {
	if r.Calls == 0 {
		return math.Inf(1)
	}
	return float64(r.Calls) / r.Per.Seconds()
}

// A Breaker opens after so many Failures in a row, or within Window if that is set, and
// lets no calls through for the time Open. Then one call tests whether the backend
// answers again.
type Breaker struct {
	Failures int           // 0 = no breaker
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
func (c Limits) String() string {
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
	HeldByBreaker     = "breaker"
	HeldByRate        = "rate"
	HeldByConcurrency = "concurrency"
)

// A HeldBack says that a call cannot be made now: Why is HeldByBreaker, HeldByRate or
// HeldByConcurrency, or "" if the line is closed, since another process may have taken it
// over; After is when to try again.
type HeldBack struct {
	Why   string
	After time.Duration
}

// A Verdict of a call is its evidence about the backend.
type Verdict int

// The verdicts.
const (
	NoVerdict Verdict = iota // nothing
	Answered                 // the backend works, even if it answered with an error
	Failed                   // it could not be reached, or gave no answer
)

var errFailed, errNoVerdict = errors.New("failed"), errors.New("says nothing")

func (v Verdict) err() error {
	switch v {
	case Answered:
		return nil
	case Failed:
		return errFailed
	}
	return errNoVerdict
}

// A LineState is that of a line.
type LineState struct {
	Breaker  string    // closed, open, half-open; "" = none
	Until    time.Time // when an open breaker lets a call through
	UnderWay int
	Waiting  int // with a place in the line, waiting here or coming again
	// Spent is when the tokens of the rate were used up; those available now were
	// saved since. Zero = no rate.
	Spent time.Time
}

var errCallEnded = errors.New("the call has ended")

// callEnded is the error of a call whose context has ended.
func callEnded(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errCallEnded, context.Cause(ctx))
}
