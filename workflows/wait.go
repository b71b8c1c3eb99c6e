package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/workflows/record"
)

type waitKind struct{ view.StepKind }

// Execute sets a timer of Temporal's, good for months. When it ends is recorded when it
// begins, so that a run that continues as new does not wait anew.
func (waitKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	digest := record.DigestOf([]byte(n.Step.For + "\x00" + n.Step.Until))
	w, ok := record.Found[record.Wait](r.journal, at.path, digest)
	if failure := r.calls.room(ctx, at.path); failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	if !ok {
		until, err := n.Wait(r.steps.scopeAt(ctx, at), workflow.Now(ctx))
		if err != nil {
			return Outcome{status: stepFailed, err: templateError(n, at, err)}
		}
		w.Until = until.UTC()
	}
	r.journal.Note(at.path, record.Wait{Digest: digest, Until: w.Until})
	r.tasks.carries(ctx)
	timer := workflow.NewTimerWithOptions(ctx, max(w.Until.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{
		Summary: Summary(at.path, waitsUntil(w.Until, endOf(ctx))),
	})
	if err := timer.Get(ctx, nil); err != nil {
		return Outcome{status: stepFailed, err: cancelledStep(at.path)}
	}
	return Outcome{status: stepCompleted, output: map[string]any{"until": w.Until.Format(time.RFC3339Nano)}}
}

// waitsUntil is for what a step waits, in the Summary of its timer: end is when what
// surrounds it ends, zero = never.
func waitsUntil(until, end time.Time) string {
	what := WaitsUntil + until.Format(time.RFC3339)
	if !end.IsZero() && end.Before(until) {
		what += ", after its time is over at " + end.UTC().Format(time.RFC3339)
	}
	return what
}
