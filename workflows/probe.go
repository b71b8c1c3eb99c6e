package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows/script"
)

// scriptProbe is the probe of a call of a script: from the script, or else from the
// tool.
func (r *run) scriptProbe(ctx workflow.Context, h *scriptHost, said *script.Probe, tool definitions.Tool) (*probe, error) {
	if said == nil {
		return r.probeOf(ctx, h.node, h.at, tool)
	}
	asks, ok := r.tool(said.Tool)
	switch {
	case !ok:
		return nil, fmt.Errorf("no backend offered the tool %s when the run started", said.Tool)
	case asks.Effect != definitions.Read:
		return nil, fmt.Errorf("the tool %s must have effect class read", asks.Name)
	}
	return &probe{script: said, tool: asks}, nil
}

func (p *probe) delay() time.Duration {
	if p.script != nil {
		return cmp.Or(p.script.Delay, definitions.DefaultProbeDelay)
	}
	return p.program.Delay()
}

func (p *probe) timeout() time.Duration {
	if p.script != nil {
		return cmp.Or(p.script.Timeout, definitions.DefaultStepTimeout)
	}
	return p.program.Timeout()
}

// arguments are those of the read tool, for what is known of the call.
func (p *probe) arguments(call map[string]any) (json.RawMessage, error) {
	if p.script == nil {
		p.scope.Call = call
		return p.program.Arguments(p.scope, p.tool.InputSchema)
	}
	seen, err := template.EncodeValue(call)
	if err != nil {
		return nil, err
	}
	args, err := p.script.Arguments(seen)
	if err != nil {
		return nil, err
	}
	return template.Typed(args.JSON, args.Typed, p.tool.InputSchema)
}

// read reports what the answer of the read tool means.
func (p *probe) read(call map[string]any, output json.RawMessage) (f definitions.Finding, err error) {
	if p.script == nil {
		if p.scope.Output, err = template.DecodeValue(output); err != nil {
			return f, err
		}
		return p.program.Find(p.scope)
	}
	seen, err := template.EncodeValue(call)
	if err != nil {
		return f, err
	}
	f.Happened, f.NotHappened, f.Result, err = p.script.Find(seen, output)
	return f, err
}
