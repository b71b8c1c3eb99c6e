package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

type scriptKind struct{ view.StepKind }

// Execute runs a script: that of a step, or a definition that is one. It
// runs from its top in each execution of the run, and finds in the journal what
// those before have done.
func (scriptKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	data, err := n.Data(r.steps.scopeAt(ctx, at))
	if err != nil {
		return Outcome{status: stepFailed, err: templateError(n, at, err)}
	}
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	h := &scriptHost{run: r, node: n, at: at}
	defer r.scripts.begins(h)()
	var over *Error // why the time of the script is over
	ctx = h.keepTime(ctx, func(why *Error) {
		over = why
		stop()
	})
	result, failure := script.Run(ctx, n.Script, h, script.Input{
		Data: data, Tools: r.scriptTools(), Limits: r.scriptLimits(), RunID: r.id, Started: r.started, Templates: parseTemplate,
	})
	switch {
	case over != nil:
		return Outcome{status: stepFailed, err: over}
	case failure != nil:
		return Outcome{status: stepFailed, err: h.failure(ctx, failure)}
	}
	if n := record.PayloadSize(result); n > MaxResultSize {
		return Outcome{status: stepFailed, err: &Error{Code: codes.OutputTooLarge, Category: codes.CategoryLimit,
			Message: fmt.Sprintf("step %s: what the script returns has %d bytes; the limit is %d: return less", at.path, n, MaxResultSize)}}
	}
	output, err := template.DecodeValue(result)
	if err != nil {
		return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidOutput, Category: codes.CategoryInternal,
			Message: fmt.Sprintf("step %s: reading what the script returns: %s", at.path, err)}}
	}
	if !n.Whole() {
		r.journal.NoteDone(at.path)
	}
	return Outcome{status: stepCompleted, output: output}
}

// keepTime ends the script when its time is over: that of its step, or what
// scripts may take here. The time of a definition that is a script is that of
// the run.
func (h *scriptHost) keepTime(ctx workflow.Context, end func(why *Error)) workflow.Context {
	r, path, now := h.run, h.at.path, workflow.Now(ctx)
	most := r.scriptLimits().Time
	var until time.Time
	var why func() *Error
	if limit := timeout(h.node.Step); !h.node.Whole() && (most == 0 || limit <= most) {
		if until = r.journal.Until(path, now.Add(limit)); until.IsZero() {
			return ctx
		}
		why = func() *Error {
			return &Error{Code: codes.StepTimeout, Category: codes.CategoryTimeout, Retryable: true,
				Message: fmt.Sprintf("step %s timed out after %s%s", path, limit, h.waits())}
		}
	} else if most > 0 {
		if until = r.started.Add(most); !h.node.Whole() {
			if until = r.journal.Until(path, now.Add(most)); until.IsZero() {
				return ctx
			}
		}
		why = func() *Error {
			return &Error{Code: codes.ScriptTime, Category: codes.CategoryLimit,
				Message: fmt.Sprintf("step %s: the script has taken %s, which is its limit%s", path, most, h.waits())}
		}
	} else {
		return ctx
	}
	r.deadlines.after(ctx, until, Summary(path, "timeout"), func() { end(why()) })
	return endsBy(ctx, until)
}

// MaxScriptTime is how long a script may take that was sent.
const MaxScriptTime = 7 * 24 * time.Hour

// ScriptLimits are those of scripts.
type ScriptLimits = script.Limits

// Scripts are the steps of a run that are scripts.
type scripts struct {
	tasks *tasks

	running map[StepPath]*scriptHost // by step path
	lines   int                      // that they have reported
}

// begins notes that a script runs until done is called.
func (sc *scripts) begins(h *scriptHost) (done func()) {
	sc.running[h.at.path] = h
	return func() { delete(sc.running, h.at.path) }
}

// waits reports where the script of a step waits, for a message; "" = nowhere.
func (sc *scripts) waits(step StepPath) string {
	if h := sc.running[step]; h != nil {
		return h.waits()
	}
	return ""
}

// details are lines for the Web UI about where scripts wait.
func (sc *scripts) details() (lines []string) {
	for _, path := range workflow.DeterministicKeys(sc.running) {
		waiting := sc.running[path].waiting
		for i, w := range waiting {
			if i == maxShownWaits {
				lines = append(lines, fmt.Sprintf("… and %d more places", len(waiting)-i))
				break
			}
			lines = append(lines, fmt.Sprintf("**%s, line %d of %s**: %s", path, w.site.Line, w.site.File, oneLine(w.what)))
		}
	}
	return lines
}
