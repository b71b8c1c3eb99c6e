package script

import "go.temporal.io/sdk/workflow"

// Each calls f with 0 to n-1, at most width at a time, started in that order, and
// returns when all started calls have returned, also where ctx ends before. more is
// asked before each start; once it is false, nothing more starts.
//
// There are no more coroutines than are at work at a time: the SDK resumes each one in
// each of its passes, those that wait for their turn too.
func Each(ctx workflow.Context, name string, n, width int, more func() bool, f func(ctx workflow.Context, i int)) {
	next, working := 0, 0
	work := func(ctx workflow.Context) {
		defer func() { working-- }()
		for next < n && more() {
			next++
			f(ctx, next-1)
		}
	}
	working = max(min(n, width), 1)
	for range working - 1 {
		workflow.GoNamed(ctx, name, work)
	}
	work(ctx)
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	_ = workflow.Await(wait, func() bool { return working == 0 }) // is never cancelled
}
