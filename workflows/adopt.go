package workflows

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// An Adopted signals a called run that its caller continues in an execution to which
// Temporal does not report how the called run ends.
type Adopted struct {
	StepPath StepPath `json:"stepPath"` // of the step that has called it
	// Lacks is whether the execution does not know what the called run asks: that before it
	// has ended, or was reset, and unlike one that continues as new handed no elicitations on.
	Lacks bool `json:"lacks,omitempty"`
}

// adoptInterval is how often an adopted run is looked up: a terminated one sends no
// signal.
const adoptInterval = time.Hour

// outcomeInterval is how often a run that has announced its end is looked up.
const outcomeInterval = 100 * time.Millisecond

// adopt waits for the end of a run that an execution before has started.
func (cs *children) adopt(ctx workflow.Context, call *called) childEnd {
	cs.relay.expect(ctx, call)
	defer cs.relay.dismiss(ctx, call)
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	gone, cancelled, lacks := false, false, cs.in.Resumption != nil || cs.in.WasReset
	for !gone && !call.over {
		answered := false
		cs.signals.send(wait, call.id, AdoptSignal, Adopted{StepPath: call.path, Lacks: lacks}, func(err error) { answered, gone = true, err != nil })
		_ = workflow.Await(wait, func() bool { return answered })
		lacks = false
		if gone {
			break
		}
		if !cancelled {
			_, err := workflow.AwaitWithTimeout(ctx, adoptInterval, func() bool { return call.over })
			if cancelled = err != nil; !cancelled {
				continue
			}
			_ = workflow.RequestCancelExternalWorkflow(wait, call.id, "").Get(wait, nil)
			continue // for whether it was still there: this does not show it
		}
		// It may have to undo things, and to ask, before it ends.
		_, _ = workflow.AwaitWithTimeout(wait, adoptInterval, func() bool { return call.over })
	}
	outcome, err := cs.outcomeOf(wait, call, cs.maxValue())
	return childEnd{call: call, ChildOutcome: outcome, err: cmp.Or(err, ctx.Err())}
}

// takeUp adopts a run that is there already.
func (cs *children) takeUp(ctx workflow.Context, call *called, digest string) childEnd {
	cs.journal.Note(call.path, record.Child{Digest: digest, ID: call.id, Started: true})
	return cs.adopt(ctx, call)
}

// startedBefore is the run that the execution before has started at a path, and whose end
// is awaited.
func (cs *children) startedBefore(path StepPath) (record.Child, bool) {
	was, begun := cs.journal.Begun(path)
	child, ok := was.Kind.(record.Child)
	return child, begun && ok && child.ID != "" && child.Again == nil
}

// endUnreached cancels the runs that the execution before has started at places that this
// one did not reach before it ended, and waits for their ends.
func (cs *children) endUnreached(ctx workflow.Context) {
	ctx, stop := workflow.WithCancel(ctx)
	stop()
	waits := 0
	for path, was := range cs.journal.Ahead() {
		child, ok := cs.startedBefore(path)
		if !ok || was.Output() != nil || was.Failure() != nil {
			continue
		}
		waits++
		workflow.GoNamed(ctx, string(path), func(ctx workflow.Context) {
			defer func() { waits-- }()
			cs.journal.Note(path, child)
			tool, _, _ := strings.Cut(child.ID, "/")
			_, _ = cs.ended(cs.adopt(ctx, newCalled(path, child.ID, tool))) // what it did is in the journal
		})
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	_ = workflow.Await(wait, func() bool { return waits == 0 }) // is never cancelled
}

// outcomeOf asks how a run has ended, or ends now, as soon as there is room for an
// outcome of so many bytes.
func (cs *children) outcomeOf(ctx workflow.Context, call *called, bytes int) (outcome ChildOutcome, err error) {
	if cs.in.MaxValue == 0 {
		failure, err := cs.results.await(ctx, call.path, func() bool { return cs.results.fit(ctx, bytes) })
		if failure != nil {
			cs.leave(call.path)
			return outcome, failure
		}
		if err != nil {
			return outcome, err
		}
		defer cs.results.reads(bytes)()
	}
	err = cs.read(ctx, call.id, OutcomeName, Summary(call.path, call.tool), &outcome)
	if err == nil && outcome.Result == nil && outcome.Failure == nil {
		err = errors.New("the run that was called has no outcome")
	}
	return outcome, err
}

// resumedSince reports whether a called run has another execution than the one that it is to
// be resumed from; nil = it is not resumed.
func (cs *children) resumedSince(ctx workflow.Context, call *called, as *Resumption) (bool, error) {
	if as == nil {
		return false, nil
	}
	var latest string // "" = Temporal has the run no more
	err := cs.read(ctx, call.id, LatestName, "", &latest)
	return latest != "" && latest != as.Of, err
}

// read has an activity read something of a run or a step until it can be read.
func (cs *children) read(ctx workflow.Context, of, activity, summary string, into any) error {
	cs.tasks.makeRoom(ctx, 0)
	cs.budget.begins()
	defer func() { cs.budget.ends() }()
	actx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary: summary, StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: outcomeInterval, MaximumInterval: 10 * time.Second},
	})
	return workflow.ExecuteActivity(actx, activity, of).Get(ctx, into)
}
