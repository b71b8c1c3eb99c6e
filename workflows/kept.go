package workflows

import (
	"cmp"
	"encoding/json"

	"go.temporal.io/sdk/workflow"
)

// maxBrought is how large the outcome of a called run may be that Temporal brings the
// run above, in bytes: as soon as the called run ends, whether there is room or not.
// So room for it is kept from the start. A larger one stays with the called run, until
// the run above has room for it and reads it.
const maxBrought = 16 << 10

// Kept is the outcome of a called run that is too large to be brought. It is in its
// history as the data of a side effect, just before the end.
type Kept struct {
	Outcome *ChildOutcome `json:"keptOutcome"` // names a side effect as one of these
}

// resultToBring is what Temporal is to bring of a result.
func (p *parent) resultToBring(ctx workflow.Context, result *RunResult) *RunResult {
	if size := p.keep(ctx, ChildOutcome{Result: result}); size > 0 {
		return &RunResult{Kept: size}
	}
	return result
}

// failureToBring is what Temporal is to bring of a failure.
func (p *parent) failureToBring(ctx workflow.Context, f *Failure) *Failure {
	if size := p.keep(ctx, ChildOutcome{Failure: f}); size > 0 {
		return &Failure{Error: f.Error, Kept: size}
	}
	return f
}

// keep puts an outcome that is too large into history, and reports how large it is; 0 =
// it is not. With a MaxValue, large values are kept elsewhere anyhow.
func (p *parent) keep(ctx workflow.Context, outcome ChildOutcome) (size int) {
	if p.in.Parent == nil || p.in.MaxValue > 0 {
		return 0
	}
	encoded, err := json.Marshal(outcome)
	if size = len(encoded); err != nil || size <= maxBrought {
		return 0
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	p.makeRoom(wait, size)
	workflow.SideEffect(wait, func(workflow.Context) any { return Kept{&outcome} })
	return size
}

// fetch reads the outcome of a run that has kept it.
func (cs *children) fetch(ctx workflow.Context, call *called, size int) childEnd {
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	outcome, err := cs.outcomeOf(wait, call, size)
	return childEnd{call: call, ChildOutcome: outcome, err: cmp.Or(err, ctx.Err())}
}

// kept is how large the outcome is that a run has kept; 0 = it has been brought.
func (o ChildOutcome) kept() int {
	if o.Result != nil {
		return o.Result.Kept
	}
	return o.Failure.Kept
}
