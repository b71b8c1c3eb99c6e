package workflows

import (
	"cmp"
	"encoding/json"
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

// The origin is what an execution begins with. It never changes, so every part of a run
// has it.
type origin struct {
	in      RunInput
	program *definitions.Program
	id      string
	started time.Time
	params  map[string]any
	compile func(Pinned) (*definitions.Program, error)
}

func newOrigin(ctx workflow.Context, in RunInput, prog *definitions.Program, compile func(Pinned) (*definitions.Program, error)) (*origin, error) {
	o := &origin{in: in, program: prog, id: workflow.GetInfo(ctx).WorkflowExecution.ID, started: in.Started, compile: compile}
	if info := workflow.GetInfo(ctx); info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID {
		o.in.WasReset, o.in.Round = true, ""
	}
	if o.in.WasReset && o.in.Round == "" {
		o.in.Round = clip(workflow.GetInfo(ctx).WorkflowExecution.RunID, 8)
	}
	if o.started.IsZero() {
		o.started = workflow.Now(ctx)
	}
	params, err := decodeObject(in.Arguments)
	if err != nil {
		return nil, failed(&Failure{Error: Error{
			Code: codes.InvalidArguments, Category: codes.CategoryValidation,
			Message: "the arguments of the run are not a JSON object: " + err.Error(), RunID: o.id,
		}})
	}
	o.params = params
	return o, nil
}

// newJournal is the record of the execution, and of earlier ones from its input.
func (o *origin) newJournal() *record.Journal {
	in := o.in
	in.Journal, in.Open = nil, nil
	return record.NewJournal(o.in.Journal, in.Continued, in.bytes())
}

// maxValue bounds the values of this run, in bytes as record.PayloadSize counts them.
func (o *origin) maxValue() int { return cmp.Or(o.in.MaxValue, MaxResultSize) }

// maxJournal bounds what the next execution starts with.
func (o *origin) maxJournal() int { return cmp.Or(o.in.MaxJournal, MaxResultSize) }

// actsAs is the composite tool, if it or the one that has called it calls tools
// in its own right.
func (o *origin) actsAs() string {
	if d := o.program.Definition; d.RunAs == definitions.AsComposite {
		return d.Name
	}
	return o.in.As
}

// keyPath is the path for which the key of a call is made: that of the call,
// and of a step that was undone and is executed again another one.
func (o *origin) keyPath(step, call StepPath) StepPath {
	if o.in.Resumption == nil || o.in.Resumption.Undone[step] == 0 {
		return call
	}
	return call.Redone(o.in.Resumption.Undone[step])
}

// tool finds a tool by the name under which clients know it, for a script: one
// that its sender may not call is none.
func (o *origin) tool(name string) (definitions.Tool, bool) {
	if t, ok := o.in.Tools[name]; ok && t.Name == name && !t.ForProbe {
		return t, true
	}
	for _, key := range workflow.DeterministicKeys(o.in.Tools) {
		if t := o.in.Tools[key]; t.Name == name && !t.ForProbe {
			return t, true
		}
	}
	return definitions.Tool{}, false
}

// hasEffects reports whether a tool, by the name under which clients know it, has
// effects that another run would repeat.
func (o *origin) hasEffects(name string) bool {
	tool, ok := o.tool(name)
	return ok && tool.Effect != definitions.Read && tool.Effect != definitions.Idempotent
}

// scriptTools are the tools that scripts of the run may call, each once.
func (o *origin) scriptTools() []script.Tool {
	var tools []script.Tool
	for _, name := range workflow.DeterministicKeys(o.in.Tools) {
		if o.in.Tools[name].ForProbe {
			continue
		}
		t := script.Tool{Name: o.in.Tools[name].Name, Backend: o.in.Tools[name].Backend, Original: o.in.Tools[name].Original}
		t.Effects = o.hasEffects(t.Name)
		if !slices.Contains(tools, t) {
			tools = append(tools, t)
		}
	}
	return tools
}

func (o *origin) scriptLimits() script.Limits {
	if o.in.ScriptLimits == nil {
		return script.Limits{}
	}
	return *o.in.ScriptLimits
}

func decodeObject(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	v, err := template.DecodeValue(data)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("got %T", v)
	}
	return m, nil
}
