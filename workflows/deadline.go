package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// after does something when a time is over, unless ctx is cancelled before. A
// timer of Temporal's wakes the run for it, but is seen with the next workflow
// task only; so whatever happens in this one is an occasion to look at the clock.
func after(ctx workflow.Context, until time.Time, summary string, then func()) {
	workflow.GoNamed(ctx, summary, func(ctx workflow.Context) {
		left := max(until.Sub(workflow.Now(ctx)), 0)
		options := workflow.AwaitOptions{Timeout: left, TimerOptions: workflow.TimerOptions{Summary: summary}}
		over := func() bool { return !workflow.Now(ctx).Before(until) }
		if _, err := workflow.AwaitWithOptions(ctx, options, over); err == nil {
			then()
		}
	})
}

// endsBy is ctx with the time at which what surrounds it ends; an earlier one stays.
func endsBy(ctx workflow.Context, until time.Time) workflow.Context {
	if was := endOf(ctx); !was.IsZero() && was.Before(until) {
		return ctx
	}
	return workflow.WithValue(ctx, endKey{}, until)
}

// endOf is when what surrounds ctx ends; zero = that is not known, or never.
func endOf(ctx workflow.Context) time.Time {
	until, _ := ctx.Value(endKey{}).(time.Time)
	return until
}

type endKey struct{}
