package main

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// An answerer answers what runs ask: people's questions by chance, and operators' by what is
// true. It also lets runs go on that are quarantined since the process was killed.
type answerer struct {
	w   *world
	rng *rand.Rand
}

func (a *answerer) work(ctx context.Context) {
	for pause(ctx, 200*time.Millisecond) {
		list, done := context.WithTimeout(ctx, 5*time.Second)
		waiting, _ := a.w.door.List(list, runs.Filter{Called: true, Waiting: true, Limit: 200}) // it is being started
		stopped, _ := a.w.door.List(list, runs.Filter{Called: true, Status: runs.Quarantined, Limit: 200})
		done()
		for _, run := range stopped {
			_ = a.w.door.Release(ctx, run.ID, "op", "it was killed by chance") // it is looked at again
		}
		for _, run := range waiting {
			if c := a.w.asks(run.ID); c != nil {
				a.answer(ctx, c, run)
			}
		}
	}
}

// asks is the call of a run that asks by itself: no other has called it, or none of those
// above is under way any more. nil = it does not, or is not known yet.
func (w *world) asks(id runs.RunID) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	top := w.seen[string(id)]
	for top != nil && top.parent != "" {
		if top = w.seen[top.parent]; top != nil && len(top.open) > 0 {
			return nil
		}
	}
	for _, c := range w.calls {
		if top != nil && c.id == top.id {
			return c
		}
	}
	return nil
}

func (a *answerer) answer(ctx context.Context, c *call, run runs.Run) {
	for _, e := range run.Open() {
		answer := runs.Answer{ElicitationID: e.ID, Action: workflows.Accept, Content: json.RawMessage(`{}`), By: "op", Via: runs.ViaCommand}
		switch e.Kind {
		case runs.Reconciliation:
			if e.Call == nil {
				continue
			}
			p, ok := c.place(e.Call.Arguments, string(e.StepPath))
			said := runs.Reconciled{Outcome: runs.NotHappened}
			happened, quiet := a.w.backend.truth(p)
			switch _, undoes, _ := cutUndo(e.StepPath); {
			case !ok:
				said.Outcome = workflows.Fail
			case !quiet || time.Since(e.Opened) < 1500*time.Millisecond:
				continue
			case happened != undoes:
				said = runs.Reconciled{Outcome: runs.Happened, Result: `{"n": 7}`}
			}
			answer.Content, _ = json.Marshal(said) // of texts
		case runs.Compensation:
			undone, _, _ := cutUndo(e.StepPath)
			p := place{cmp.Or(e.Run, string(run.ID)), label(undone)}
			ok := p.Step != ""
			happened, quiet := a.w.backend.truth(p)
			switch {
			case ok && (!quiet || time.Since(e.Opened) < 1500*time.Millisecond):
				continue
			case !ok:
				answer.Action = workflows.Cancel // nobody knows
			case happened:
				answer.Action = workflows.Decline
			}
		default:
			if a.rng.IntN(3) == 0 {
				continue
			}
			if a.rng.IntN(8) == 0 {
				answer.Action, answer.Content = workflows.Decline, nil
			}
		}
		ctx, done := context.WithTimeout(ctx, 5*time.Second)
		_, err := a.w.door.Answer(ctx, run.ID, answer)
		done()
		if err != nil {
			a.w.count("answer refused")
		}
		a.w.logf("%s answered %s of %s: %s %s, %v", c.about, e.ID, run.ID, answer.Action, answer.Content, err)
	}
}

// cutUndo is the path of a step from that of a call that undoes it.
func cutUndo(path workflows.StepPath) (step string, undoes bool, rest string) {
	step, rest, undoes = strings.Cut(string(path), "/compensate")
	return step, undoes, rest
}
