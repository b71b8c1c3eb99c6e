package gateway

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// dryRun answers a call that has perdure/dry-run in its _meta with the plan of
// the run that it would start. Nothing is started or called, and what cannot
// be planned is refused rather than called; c is nil unless the tool is a
// composite one.
func (g *Gateway) dryRun(x *exchange, c *composite) {
	if c == nil {
		g.refuse(x, fmt.Sprintf("%s is not a composite tool: only these have a dry run; nothing was called", x.params.Name))
		return
	}
	r, err := g.plan(x, c.def)
	if err != nil {
		g.log.Info("call was not planned", "tool", c.def.Name, "caller", x.caller.Subject, "error", err)
		r = trouble("", err)
	}
	x.respond("", g.finish(x.client, r))
}

func (g *Gateway) plan(x *exchange, d *definitions.Definition) (*result, error) {
	program, err := definitions.Compile(d)
	if err != nil {
		return nil, err
	}
	tools, err := g.snapshot(x.who, d)
	if err != nil {
		return nil, err
	}
	plan, err := view.NewPlan(program, orEmpty(x.params.Arguments), view.PlanOptions{
		Tools: func(name string) (definitions.Tool, bool) {
			if t, ok := tools[name]; ok {
				return t, true
			}
			return g.findTool(name) // of a definition that is called
		},
		Definitions: g.listing.Load().find,
		MaxDepth:    g.opts.MaxDepth,
	})
	if err != nil {
		return nil, err
	}
	body, err := encode(plan)
	if err != nil {
		return nil, err
	}
	r := &result{Content: text(plan.Text(nil)), Structured: body}
	return r.set(metaDryRun, true), nil
}
