package workflows

import (
	"cmp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows/record"
)

// Steps take each step of the graph to its end, once those that it depends on have ended.
type steps struct {
	*origin
	*graph
	journal      *record.Journal
	failures     *failures
	elicitations *elicitations
	undo         *undoing
	scripts      *scripts
	board        *board

	skipping bool // skip_remaining: nothing new starts

	// execute executes a step that is due.
	execute func(ctx workflow.Context, kind StepKind, n *definitions.Node, at place) Outcome
}

// begin starts the steps that depend on none.
func (st *steps) begin(ctx workflow.Context) {
	for _, n := range st.first() {
		st.start(ctx, n)
	}
}

// start takes a step on a coroutine of its own, which continues with the first of those
// that were waiting for it alone: a chain of steps needs one.
func (st *steps) start(ctx workflow.Context, n *definitions.Node) {
	workflow.GoNamed(ctx, n.ID, func(ctx workflow.Context) {
		for n := n; n != nil; n = st.next(ctx, n) {
			st.take(ctx, n)
		}
	})
}

// next starts the steps that were waiting for one that has ended alone, all but the first,
// which it returns; nil = there are none.
func (st *steps) next(ctx workflow.Context, ended *definitions.Node) *definitions.Node {
	due := st.settle(ended)
	if len(due) == 0 {
		return nil
	}
	for _, n := range due[1:] {
		st.start(ctx, n)
	}
	return due[0]
}

// take takes a step of the graph whose dependencies have settled to its end.
func (st *steps) take(ctx workflow.Context, n *definitions.Node) {
	s := st.states[n.ID]
	for _, id := range n.Deps {
		if st.states[id].broken && !s.broken {
			s.broken, s.why = true, "step "+id+" did not succeed"
		}
	}
	switch {
	case st.stopped(ctx):
		s.status = stepStopped
		return
	case st.skipping || s.broken:
		s.why = cmp.Or(s.why, "an answer skipped the steps that had not started")
		s.status, s.output = stepSkipped, n.Step.Defaults()
		return
	}
	s.status, s.started = stepRunning, true
	st.see(n)
	at := place{path: StepPath(n.ID)}
	out := st.attempt(ctx, n, at)
	s.status, s.output, s.answer = out.status, out.output, out.answer
	if out.err != nil {
		s.err = out.err.Message
	}
	if out.status == stepSkipped && out.answer == nil {
		s.why, s.because = n.Step.WhySkipped(), n.ConditionReads(st.scopeAt(ctx, at))
	}
	st.skipping = st.skipping || out.skip
	if out.status == stepFailed && !n.Continues {
		s.broken = true
		if n.Whole() && st.failsAlone() {
			st.failures.abort(out.err)
			return
		}
		st.stepFailed(out.err)
	}
	st.board.showDetails(ctx)
}

// stopped reports whether no step is taken any more, since the run was stopped. What
// earlier executions have recorded is reached nevertheless: it has to be undone, and the
// runs that they called are under way.
func (st *steps) stopped(ctx workflow.Context) bool { return ctx.Err() != nil && !st.journal.Behind() }

// failsAlone reports whether a definition's script fails the run in every failure mode,
// since the mode is for the failures that the script reports.
func (st *steps) failsAlone() bool {
	mode := st.program.Definition.FailureMode
	return mode == definitions.FailLate || mode == definitions.BestEffort
}

// stepFailed applies the definition's failure mode to a step that failed and does not
// continue.
func (st *steps) stepFailed(err *Error) {
	switch st.program.Definition.FailureMode {
	case definitions.FailLate, definitions.BestEffort:
		st.failures.report(err)
	default:
		st.failures.abort(err)
	}
}

// attempt executes a step, or the inner step of a forEach, once its turn has
// come: condition, work, and what onError makes of a failure.
func (st *steps) attempt(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	var out Outcome
	if was, ok := st.journal.Begun(at.path); ok && was.Failure() != nil {
		failure := *was.Failure()
		st.undo.canUndoItems(ctx, n, at)
		out = failedStep(ctx, n, at, &failure)
	} else {
		out = st.work(ctx, n, at)
	}
	switch {
	case out.answer != nil: // the answer has it
	case out.status == stepSkipped:
		st.journal.NoteSkipped(at.path)
	case out.status == stepFailed:
		st.journal.NoteFailed(at.path, out.err)
	}
	return out
}

// isDue reports whether a step is to run. One that has begun in the execution before
// continues, whatever its condition is now.
func (st *steps) isDue(ctx workflow.Context, n *definitions.Node, at place) (bool, error) {
	if was, ok := st.journal.Begun(at.path); ok {
		end, _ := was.Kind.(record.End)
		return !end.Skipped, nil
	}
	if st.elicitations.askedBefore(at.path) || st.elicitations.askedBefore(credentialsPath(at.path)) {
		return true, nil
	}
	return n.Condition(st.scopeAt(ctx, at))
}

func (st *steps) work(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	run, err := st.isDue(ctx, n, at)
	if err != nil {
		return failedStep(ctx, n, at, templateError(n, at, err))
	}
	if !run {
		return Outcome{status: stepSkipped, output: n.Step.Defaults()}
	}
	out := unknownKind(n, at)
	if kind, known := KindOf(n.Step.Type); known {
		out = st.execute(ctx, kind, n, at)
	}
	st.undo.canUndo(n, at, out)
	if out.status == stepFailed {
		answer := out.answer
		out = failedStep(ctx, n, at, out.err)
		out.answeredAs(n.Step, answer)
	}
	return out
}

// scope is what templates see outside of a forEach.
func (st *steps) scope(ctx workflow.Context, status Status) *definitions.Scope {
	return &definitions.Scope{
		Params: st.params,
		Steps:  st.seen,
		Workflow: definitions.WorkflowScope{
			ID: st.id, Status: string(status), StepCount: st.ended,
			DurationMS: workflow.Now(ctx).Sub(st.started).Milliseconds(), StartTime: st.started,
		},
	}
}

// scopeAt is what templates see at a place.
func (st *steps) scopeAt(ctx workflow.Context, at place) *definitions.Scope {
	s := st.scope(ctx, Running)
	s.ForEach = at.forEach
	return s
}

// skips reports whether nothing new starts.
func (st *steps) skips() bool { return st.skipping }

// reports are where the steps are, in the order of the definition.
func (st *steps) reports() []StepReport {
	reports := make([]StepReport, 0, len(st.program.Steps))
	for _, n := range st.program.Steps {
		s := st.states[n.ID]
		reports = append(reports, StepReport{ID: n.ID, What: st.board.does(n), Status: string(s.status), Error: s.err, Why: s.whyShown()})
	}
	return reports
}

// maxSkipped bounds how many skipped steps the outcome of a run names.
const maxSkipped = 100

// skipped are the skipped steps for those who follow the run, to whom history does not show
// them; none of a run that a step has called.
func (st *steps) skipped() (skipped []SkippedStep) {
	for _, n := range st.program.Steps {
		s := st.states[n.ID]
		if s.status == stepSkipped && st.in.Parent == nil && len(skipped) < maxSkipped {
			skipped = append(skipped, SkippedStep{ID: n.ID, Why: shortLine(s.whyShown())})
		}
	}
	return skipped
}

// unfinished names the steps that have not ended, for a message.
func (st *steps) unfinished() string {
	var ids []string
	for _, n := range st.program.Steps {
		if s := st.states[n.ID]; s.started && (s.status == stepRunning || s.status == stepStopped) {
			ids = append(ids, n.ID+st.scripts.waits(StepPath(n.ID)))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return " in step " + strings.Join(ids, ", ")
}

// partial adds the outputs of completed steps, and those of calls that scripts have made
// which have not completed.
func (st *steps) partial(p *partial) {
	scripts := false
	for _, n := range st.program.Steps {
		if s := st.states[n.ID]; s.status == stepCompleted {
			if out, err := template.EncodeValue(s.output); err == nil {
				p.add(StepPath(n.ID), out)
			}
		} else {
			scripts = scripts || s.started && n.Script != nil
		}
	}
	if scripts {
		st.partialOfScripts(p)
	}
}

// partialOfScripts adds the outputs of these calls, the first call first.
func (st *steps) partialOfScripts(p *partial) {
	journal := st.journal.Whole()
	paths := workflow.DeterministicKeys(journal)
	slices.SortStableFunc(paths, func(a, b StepPath) int { return journal[a].Order - journal[b].Order })
	for _, path := range paths {
		s := st.states[path.Top()]
		if s == nil || s.status == stepCompleted || !path.IsScriptCall() {
			continue
		}
		if output := journal[path].Output(); output != nil {
			p.add(path, output)
		}
	}
}
