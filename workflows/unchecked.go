package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// maxUnchecked bounds the signals of a run that wait for their keys: anybody can
// send one that names a key which does not exist.
const maxUnchecked = 8

// maxUncheckedPause is the longest time between two looks at such signals.
const maxUncheckedPause = 10 * time.Minute

// keyGrace is how long an elicitation stays open after its time for answers that
// came in time and wait for their keys. Whoever forges one gains no more.
const keyGrace = time.Hour

// An UncheckedSignal waits for a worker that has the key with which it was signed:
// workers get a new key one after the other.
type UncheckedSignal struct {
	Name   string    `json:"name"`
	Signal *Signal   `json:"signal,omitempty"` // not in the memo
	Key    string    `json:"key"`              // ID of the key
	Since  time.Time `json:"since"`

	// Of an Answer, as it says.
	ElicitationID string `json:"elicitationId,omitempty"`
	By            string `json:"by,omitempty"`
	AnswerID      string `json:"answerId,omitempty"`
}

func (u UncheckedSignal) bytes() int { return 2*record.PayloadSize(u.Signal.Body) + record.EntryBytes }

// keepUnchecked keeps a signal until a worker with its key has it.
func (r *run) keepUnchecked(ctx workflow.Context, u UncheckedSignal) {
	if r.signals.index(u.Signal.Proof) >= 0 {
		return // sent twice
	}
	u.Since = workflow.Now(ctx)
	r.signals.unchecked = append(r.signals.unchecked, u)
	r.journal.Grow(u.bytes())
	if len(r.signals.unchecked) == 1 {
		r.checkAgain(ctx)
	}
	r.publishNow(ctx)
}

func (s *signals) index(proof string) int {
	return slices.IndexFunc(s.unchecked, func(u UncheckedSignal) bool { return u.Signal.Proof == proof })
}

// goOnChecking takes over what the execution before has kept.
func (r *run) goOnChecking(ctx workflow.Context) {
	r.signals.unchecked = slices.Clone(r.in.Unchecked)
	if len(r.signals.unchecked) > 0 {
		r.checkAgain(ctx)
	}
}

// checkAgain looks at these signals from time to time, until there are none. It
// is for another worker to take the run up then: see handOver.
func (r *run) checkAgain(ctx workflow.Context) {
	workflow.GoNamed(ctx, "unchecked signals", func(ctx workflow.Context) {
		for round := 1; len(r.signals.unchecked) > 0; round++ {
			pause := min(unreadPause<<min(round-1, 20), maxUncheckedPause)
			timer := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "looks for a worker with the key " + r.signals.unchecked[0].Key})
			if timer.Get(ctx, nil) != nil {
				return // it is never cancelled
			}
			for _, u := range slices.Clone(r.signals.unchecked) {
				if m := r.signals.box(u.Name); m == nil || r.rule(ctx, m, *u.Signal, round) {
					i := r.signals.index(u.Signal.Proof)
					r.signals.unchecked = slices.Delete(r.signals.unchecked, i, i+1)
					r.journal.Grow(-u.bytes())
				}
			}
		}
		r.publishNow(ctx)
	})
}

// awaitKeys waits, for keyGrace at most, while answers to an elicitation wait for
// their keys.
func (r *run) awaitKeys(ctx workflow.Context, elicitation string) error {
	if !r.signals.uncheckedFor(elicitation) {
		return nil
	}
	_, err := workflow.AwaitWithTimeout(ctx, keyGrace, func() bool { return !r.signals.uncheckedFor(elicitation) })
	return err
}

// uncheckedFor says whether an answer to an elicitation waits for its key, which
// was given before the elicitation expires.
func (s *signals) uncheckedFor(elicitation string) bool {
	return slices.ContainsFunc(s.unchecked, func(u UncheckedSignal) bool { return u.ElicitationID == elicitation })
}

// shown is what the memo says of these signals.
func (s *signals) shown() []UncheckedSignal {
	var shown []UncheckedSignal
	for _, u := range s.unchecked {
		u.Signal = nil
		shown = append(shown, u)
	}
	return shown
}
