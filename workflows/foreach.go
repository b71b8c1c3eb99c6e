package workflows

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

type forEachKind struct{ view.StepKind }

// Execute executes the inner step once for each item, at most maxParallel at a
// time, started in the order of the collection.
func (forEachKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	items, err := n.Collection(r.steps.scopeAt(ctx, at))
	if err != nil {
		return Outcome{status: stepFailed, err: templateError(n, at, err)}
	}
	limit := n.Step.MaxIterations
	if limit == 0 {
		limit = definitions.DefaultIterations
	}
	if len(items) > limit {
		return Outcome{status: stepFailed, err: &Error{Code: codes.TooManyItems, Category: codes.CategoryLimit,
			Message: fmt.Sprintf("step %s: the collection has %d items, maxIterations is %d", at.path, len(items), limit)}}
	}
	loop := &loop{steps: r.steps, journal: r.journal, deadlines: r.deadlines, node: n, at: at, items: items, results: make([]Outcome, len(items)), values: make([]any, len(items))}
	return loop.execute(ctx)
}

// A loop is one execution of a forEach.
type loop struct {
	steps     *steps
	journal   *record.Journal
	deadlines *deadlines
	node      *definitions.Node
	at        place
	items     []definitions.Item
	values    []any // collected
	results   []Outcome
	failure   *Error // the first that ends the loop
	skip      bool
}

func (l *loop) execute(ctx workflow.Context) Outcome {
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	limit := l.node.Step.LoopTime(len(l.items))
	var until time.Time
	if limit > 0 {
		until = l.journal.Until(l.at.path, workflow.Now(ctx).Add(limit))
	}
	if !until.IsZero() {
		l.deadlines.after(ctx, until, Summary(l.at.path, "timeout"), func() {
			l.fail(stop, &Error{Code: codes.StepTimeout, Category: codes.CategoryTimeout, Retryable: true,
				Message: fmt.Sprintf("step %s timed out after %s", l.at.path, limit.Round(time.Millisecond))})
		})
		ctx = endsBy(ctx, until)
	}
	l.iterate(ctx, stop)
	switch {
	case l.failure != nil:
		return Outcome{status: stepFailed, err: l.failure}
	case ctx.Err() != nil && !l.settled():
		return Outcome{status: stepFailed, err: cancelledStep(l.at.path)}
	}
	l.journal.NoteDone(l.at.path)
	return Outcome{status: stepCompleted, output: l.output(), skip: l.skip}
}

// iterate starts the items and waits until all that were started have ended.
func (l *loop) iterate(ctx workflow.Context, stop workflow.CancelFunc) {
	width := l.node.Step.MaxParallel
	if width == 0 {
		width = definitions.DefaultParallel
	}
	more := func() bool { return !l.steps.stopped(ctx) && !l.skip }
	script.Each(ctx, string(l.at.path), len(l.items), min(width, definitions.MaxParallel), more, func(ctx workflow.Context, i int) {
		l.item(ctx, i, stop)
	})
}

// settled reports whether all items have ended by themselves.
func (l *loop) settled() bool {
	return l.skip || !slices.ContainsFunc(l.results, func(o Outcome) bool { return o.status == "" || o.status == stepStopped })
}

func (l *loop) path(i int) StepPath { return l.at.path.Item(i) }

// item executes the inner step for one item.
func (l *loop) item(ctx workflow.Context, i int, stop workflow.CancelFunc) {
	at, inner := l.place(i)
	out := l.steps.attempt(ctx, l.node.Inner, inner)
	if out.status == stepCompleted {
		l.collect(ctx, i, at, out.output, stop)
	}
	l.results[i] = out
	l.skip = l.skip || out.skip
	if out.status == stepFailed && !l.node.Inner.Continues {
		l.fail(stop, out.err)
	}
}

// place is where an item is, and where the inner step is executed for it.
func (l *loop) place(i int) (at, inner place) {
	at = place{path: l.path(i), forEach: maps.Clone(l.at.forEach)}
	if at.forEach == nil {
		at.forEach = map[string]any{}
	}
	at.forEach[l.itemVar()] = l.items[i].Value
	at.forEach["index"] = int64(i)
	if l.items[i].Named {
		at.forEach["key"] = l.items[i].Key
	}
	inner = at
	if l.node.Inner.Inner != nil {
		inner.path = inner.path.Below(StepPath(l.innerID()))
	}
	return at, inner
}

// collect keeps what the definition wants of a completed item.
func (l *loop) collect(ctx workflow.Context, i int, at place, output any, stop workflow.CancelFunc) {
	scope := l.steps.scopeAt(ctx, at)
	scope.Output = output
	value, ok, err := l.node.Collect(scope)
	if err != nil {
		l.fail(stop, templateError(l.node, at, err))
	}
	if ok {
		l.values[i] = value
	}
}

func (l *loop) itemVar() string {
	if l.node.Step.ItemVar != "" {
		return l.node.Step.ItemVar
	}
	return "item"
}

func (l *loop) innerID() string {
	if id := l.node.Inner.Step.ID; id != "" {
		return id
	}
	return "step"
}

func (l *loop) fail(stop workflow.CancelFunc, err *Error) {
	if l.failure == nil {
		l.failure = err
	}
	stop()
}

// output lists the iterations in the order of the collection.
func (l *loop) output() map[string]any {
	iterations := make([]any, 0, len(l.items))
	var completed, failed int64
	for i, res := range l.results {
		it := map[string]any{"index": int64(i), "item": l.items[i].Value}
		if l.items[i].Named {
			it["key"] = l.items[i].Key
		}
		switch res.status {
		case stepCompleted:
			completed++
		case stepFailed:
			failed++
			it["error"] = res.err.Message
		default:
			res.status = stepSkipped
		}
		it["status"] = string(res.status)
		if res.output != nil {
			it["output"] = res.output
		}
		iterations = append(iterations, it)
	}
	output := map[string]any{
		"iterations": iterations, "count": int64(len(l.items)), "completed": completed, "failed": failed,
	}
	if l.node.Step.Collect != "" {
		output["collected"] = l.values
	}
	return output
}
