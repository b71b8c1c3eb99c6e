package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
)

// Starts start the runs of calls, with what is known then of the tools that they use.
type starts struct {
	rights   *rights
	tools    *toolset
	deposits *deposits
	unseen   *unseenBackends
	joins    *joins
	computes *computing
	limits   *runs.ScriptLimits // of scripts; nil = the defaults
	maxDepth int
}

// start makes the run of a call durable before the client hears of it. A call finds an
// existing run; any other waits for backends that have not answered yet.
func (s *starts) start(ctx context.Context, x *exchange, c *composite) (runs.Started, error) {
	for {
		started, err := s.startNow(ctx, x, c)
		if !s.unseen.await(ctx, x.who, err) {
			return started, err
		}
	}
}

// startNow starts the run of a call, or finds it, with the tools that are known.
func (s *starts) startNow(ctx context.Context, x *exchange, c *composite) (runs.Started, error) {
	var args json.RawMessage
	var wrong error
	err := s.computes.do(ctx, func() { args, wrong = c.def.Arguments(orEmpty(x.params.Arguments)) })
	if err = cmp.Or(err, wrong); err != nil {
		return runs.Started{}, err
	}
	tools, err := s.snapshot(x.who, c.def)
	var unseen *unseenError
	if err != nil && !errors.As(err, &unseen) {
		return runs.Started{}, err
	}
	if err := s.tools.checkDrift(c); err != nil && unseen == nil {
		return runs.Started{}, err
	}
	x.writes = unseen != nil
	for _, t := range tools {
		x.writes = x.writes || t.Effect != definitions.Read
	}
	s.deposits.deposit(ctx, x.who, s.tools.backendsOf(c.def, tools)...)
	ctx, cancel := detached(ctx)
	defer cancel()
	req := runs.StartRequest{Definition: c.def, Arguments: args, Caller: x.caller, Tools: tools, Ruled: s.rights.ruled(), ScriptLimits: s.limits, MaxDepth: s.maxDepth}
	if !x.forwarded.Nothing() {
		req.Keep = s.deposits.keeper(x.caller.Subject, x.forwarded)
	}
	if unseen != nil { // an existing run needs no backend
		req.Lacks = unseen
	}
	return s.joins.start(ctx, x, req)
}

// snapshot is what is known now of the tools that a definition uses, if its
// run may call them.
func (s *starts) snapshot(who auth.Identity, d *definitions.Definition) (map[string]definitions.Tool, error) {
	tools, err := Snapshot(d, s.tools.steps(), s.tools.unseen)
	if err != nil {
		return nil, err
	}
	s.addDynamic(who, d, tools)
	return tools, s.rights.allSteps(who, d, tools)
}

// addDynamic adds the tools that scripts may call by a name computed at run time, as
// far as the caller may.
func (s *starts) addDynamic(who auth.Identity, d *definitions.Definition, tools map[string]definitions.Tool) {
	if d.RunAs == definitions.AsComposite {
		who = auth.Composite(d.Name)
	}
	AddDynamic(d, s.tools.ofBackends(), tools, func(name string) bool {
		if d.Name == scriptTool {
			return s.rights.maySend(who, name)
		}
		return s.rights.allow(who, auth.Call, auth.Object{Tool: name})
	})
}

// plan is the plan of the run that a call would start.
func (s *starts) plan(ctx context.Context, x *exchange, d *definitions.Definition) (*result, error) {
	tools, err := s.snapshot(x.who, d)
	for s.unseen.await(ctx, x.who, err) {
		tools, err = s.snapshot(x.who, d)
	}
	if err != nil {
		return nil, err
	}
	var r *result
	var wrong error
	err = s.computes.do(ctx, func() { r, wrong = s.planWith(x, d, tools) })
	return r, cmp.Or(err, wrong)
}

// planWith is the same with the tools that are known.
func (s *starts) planWith(x *exchange, d *definitions.Definition, tools map[string]definitions.Tool) (*result, error) {
	program, err := definitions.Compile(d)
	if err != nil {
		return nil, err
	}
	ofCalled := s.tools.steps()
	plan, err := view.NewPlan(program, orEmpty(x.params.Arguments), view.PlanOptions{
		Tools: func(name string) (definitions.Tool, bool) {
			if t, ok := tools[name]; ok {
				return t, true
			}
			return ofCalled(name)
		},
		Definitions: s.tools.now().find,
		MaxDepth:    s.maxDepth,
	})
	if errors.Is(err, view.ErrTooLarge) {
		return nil, &runs.Error{Code: codes.ResultTooLarge, Category: codes.CategoryLimit, Message: err.Error()}
	}
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
