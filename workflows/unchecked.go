package workflows

import (
	"fmt"
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
// came in time and wait for their keys. Who forges one gains no more.
const keyGrace = time.Hour

// An UncheckedSignal waits for a worker that has the key with which it was signed:
// workers get a new key one after the other.
type UncheckedSignal struct {
	Name   string    `json:"name"`
	Signal *Signal   `json:"signal,omitempty"` // not in the memo
	Key    string    `json:"key"`              // ID of the key
	Since  time.Time `json:"since"`

	// Of an Answer, unproven.
	ElicitationID string `json:"elicitationId,omitempty"`
	By            string `json:"by,omitempty"`
	AnswerID      string `json:"answerId,omitempty"`
}

func (u UncheckedSignal) bytes() int { return 2*record.PayloadSize(u.Signal.Body) + record.EntryBytes }

// keepUnchecked keeps a signal until a worker with its key has it.
func (ss *signals) keepUnchecked(ctx workflow.Context, u UncheckedSignal) {
	if ss.index(u.Signal.Proof) >= 0 {
		return // sent twice
	}
	u.Since = workflow.Now(ctx)
	ss.unchecked = append(ss.unchecked, u)
	ss.journal.Grow(u.bytes())
	if len(ss.unchecked) == 1 {
		ss.checkAgain(ctx)
	}
	ss.changed(ctx)
}

func (ss *signals) index(proof string) int {
	return slices.IndexFunc(ss.unchecked, func(u UncheckedSignal) bool { return u.Signal.Proof == proof })
}

// resumeChecking takes over what the execution before has kept.
func (ss *signals) resumeChecking(ctx workflow.Context) {
	ss.unchecked = slices.Clone(ss.in.Unchecked)
	if len(ss.unchecked) > 0 {
		ss.checkAgain(ctx)
	}
}

// checkAgain looks at these signals from time to time, until there are none. It
// is for another worker to take the run up then: see handOver.
func (ss *signals) checkAgain(ctx workflow.Context) {
	workflow.GoNamed(ctx, "unchecked signals", func(ctx workflow.Context) {
		for round := 1; len(ss.unchecked) > 0; round++ {
			pause := min(unreadPause<<min(round-1, 20), maxUncheckedPause)
			timer := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "looks for a worker with the key " + ss.unchecked[0].Key})
			if timer.Get(ctx, nil) != nil {
				return // it is never cancelled
			}
			for _, u := range slices.Clone(ss.unchecked) {
				if m := ss.box(u.Name); m == nil || ss.rule(ctx, m, *u.Signal, round) {
					i := ss.index(u.Signal.Proof)
					ss.unchecked = slices.Delete(ss.unchecked, i, i+1)
					ss.journal.Grow(-u.bytes())
				}
			}
		}
		ss.changed(ctx)
	})
}

// awaitKeys waits, for keyGrace at most, while answers to an elicitation wait for
// their keys.
func (ss *signals) awaitKeys(ctx workflow.Context, elicitation string) error {
	if !ss.uncheckedFor(elicitation) {
		return nil
	}
	_, err := workflow.AwaitWithTimeout(ctx, keyGrace, func() bool { return !ss.uncheckedFor(elicitation) })
	return err
}

// uncheckedFor reports whether an answer to an elicitation waits for its key, which was
// given before the elicitation expires.
func (ss *signals) uncheckedFor(elicitation string) bool {
	return slices.ContainsFunc(ss.unchecked, func(u UncheckedSignal) bool { return u.ElicitationID == elicitation })
}

// shown is the part of the memo for these signals.
func (ss *signals) shown() []UncheckedSignal {
	var shown []UncheckedSignal
	for _, u := range ss.unchecked {
		u.Signal = nil
		shown = append(shown, u)
	}
	return shown
}

// waitForKeys reports whether there are any.
func (ss *signals) waitForKeys() bool { return len(ss.unchecked) > 0 }

// details are lines for the Web UI about them.
func (ss *signals) details() (lines []string) {
	for _, u := range ss.unchecked {
		lines = append(lines, fmt.Sprintf("**a signal waits for a worker that has the key %s**, with which it was signed: %s %s", oneLine(u.Key), u.Name, oneLine(u.ElicitationID)))
	}
	return lines
}

// next puts them into the input of the next execution.
func (ss *signals) next(in *RunInput) { in.Unchecked = ss.unchecked }
