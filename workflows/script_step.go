package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// script executes a step of type script, or a definition that is a script. It
// runs from its top in each execution of the run, and finds in the journal what
// those before have done.
func (r *run) script(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	data, err := n.Data(r.scopeAt(ctx, at))
	if err != nil {
		return Outcome{status: stepFailed, err: r.templateError(n, at, err)}
	}
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	h := &scriptHost{run: r, node: n, at: at}
	r.scripts.running[at.path] = h
	defer delete(r.scripts.running, at.path)
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
	after(ctx, until, Summary(path, "timeout"), func() { end(why()) })
	return endsBy(ctx, until)
}

// MaxScriptTime is how long a script may take that was sent.
const MaxScriptTime = 7 * 24 * time.Hour

// ScriptLimits are those of scripts.
type ScriptLimits = script.Limits

// DefaultScriptLimits are those that hold where nothing else is said.
func DefaultScriptLimits() ScriptLimits { return script.DefaultLimits() }

// scriptTools are the tools that scripts of the run may call, each once.
func (r *run) scriptTools() []script.Tool {
	var tools []script.Tool
	for _, name := range workflow.DeterministicKeys(r.in.Tools) {
		if r.in.Tools[name].ForProbe {
			continue
		}
		t := script.Tool{Name: r.in.Tools[name].Name, Backend: r.in.Tools[name].Backend, Original: r.in.Tools[name].Original}
		t.Effects = r.hasEffects(t.Name)
		if !slices.Contains(tools, t) {
			tools = append(tools, t)
		}
	}
	return tools
}

func (r *run) scriptLimits() script.Limits {
	if r.in.ScriptLimits == nil {
		return script.Limits{}
	}
	return *r.in.ScriptLimits
}

// tool finds a tool by the name under which clients know it, for a script: one
// that its sender may not call is none.
func (r *run) tool(name string) (definitions.Tool, bool) {
	if t, ok := r.in.Tools[name]; ok && t.Name == name && !t.ForProbe {
		return t, true
	}
	for _, key := range workflow.DeterministicKeys(r.in.Tools) {
		if t := r.in.Tools[key]; t.Name == name && !t.ForProbe {
			return t, true
		}
	}
	return definitions.Tool{}, false
}

// Scripts are the steps of a run that are scripts.
type scripts struct {
	running map[StepPath]*scriptHost // by step path
	lines   int                      // that they have reported
}
