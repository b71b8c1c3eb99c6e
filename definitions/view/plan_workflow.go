package view

import (
	"cmp"
	"fmt"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// workflow plans the call of another composite tool with the arguments, as far as they
// are known.
func (pl *planner) workflow(n *definitions.Node, d data, step *PlannedStep) PlanLimits {
	step.Workflow, step.Timeout = n.Step.Workflow, n.Step.Timeout
	callee, ok := pl.Definitions.Find(n.Step.Workflow)
	if !ok {
		step.Problem = cmp.Or(step.Problem, fmt.Sprintf("composite tool %s not found", n.Step.Workflow))
		return PlanLimits{}
	}
	if pl.depth >= pl.MaxDepth {
		step.Problem = cmp.Or(step.Problem, fmt.Sprintf("composite tools call each other more than %d deep (limit maxWorkflowDepth)", pl.MaxDepth))
		return PlanLimits{}
	}
	schema, err := template.SchemaOf(callee.InputSchema())
	if err != nil {
		step.Problem = cmp.Or(step.Problem, err.Error())
		return PlanLimits{}
	}
	params := template.Partial{}
	known := true
	for _, m := range n.Templates.Arguments.Members {
		values := plannedArgument(m.Value, m.Name, d, schema.Property(m.Name))
		step.WorkflowArguments = append(step.WorkflowArguments, values...)
		params[m.Name] = template.Unknown{}
		for _, value := range values {
			step.blame(template.AtMember("arguments", value.Name), value)
		}
		if len(values) == 1 && values[0].Name == m.Name && values[0].State != Waits {
			setParameter(params, m.Name, values[0])
		} else {
			known = false
		}
	}
	called, problem := pl.called(callee, params, known)
	step.Called, step.Problem = called, cmp.Or(step.Problem, problem)
	if called == nil {
		return PlanLimits{}
	}
	return called.AtMost
}

// setParameter sets a parameter to its planned value.
func setParameter(p template.Partial, name string, value PlannedValue) {
	delete(p, name)
	if value.State != Known {
		return
	}
	if v, err := template.DecodeValue(value.Value); err == nil {
		p[name] = v
	}
}

// called plans a called definition. If all parameters are known, they are checked as
// in a call.
func (pl *planner) called(d *definitions.Definition, params template.Partial, known bool) (plan *Plan, problem string) {
	program, err := pl.extent.compile(d)
	if err != nil {
		return nil, err.Error()
	}
	below := &planner{PlanOptions: pl.PlanOptions, program: program, depth: pl.depth + 1, params: params, known: knowledge{}, steps: map[string]*plannedNode{}, unknown: pl.unknown, extent: pl.extent}
	plan = newPlan(d)
	if known {
		args, err := template.EncodeValue(map[string]any(params))
		if err == nil {
			plan.Arguments, err = d.Arguments(args)
		}
		if err != nil {
			return nil, err.Error()
		}
		if below.params, err = object(plan.Arguments); err != nil {
			return nil, err.Error()
		}
	} else {
		properties, _ := d.Parameters["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if _, given := params[name]; !given && property["default"] != nil {
				params[name] = property["default"]
			}
		}
	}
	below.plan(plan)
	if plan.Problem != "" {
		problem = d.Name + ": " + plan.Problem
	}
	return plan, problem
}

// calledOf is the plan of the composite tool that a step calls, itself or for each item,
// and how often at most.
func calledOf(s *PlannedStep) (*Plan, int64) {
	most := int64(1)
	for s.Loop != nil && len(s.Loop.Items) > 0 {
		most = times(most, int64(s.Loop.Most))
		s = &s.Loop.Items[0].Step
	}
	return s.Called, most
}

// calledApprovals adds the approvals and writes of a called definition below its step. An approval
// whose every answer but accept ends the called run holds back the steps after the
// calling one.
func (pl *planner) calledApprovals(plan *Plan, n *definitions.Node, holds map[string][]WriteApproval) {
	step := pl.steps[n.ID]
	called, times := calledOf(step.PlannedStep)
	if called == nil || step.Runs == No || step.Problem != "" {
		return
	}
	behind := pl.behind(n.ID)
	for _, g := range called.Approvals {
		g.Each = g.Each || times > 1
		certainty := Depends
		if g.ends && g.Asked == Yes && !g.Each && step.Runs == Yes && !n.Step.Continues() {
			certainty = Yes
		}
		g.ends = g.ends && pl.fails(n)
		g.Step = n.ID + "/" + g.Step
		for i, id := range g.Before {
			g.Before[i] = n.ID + "/" + id
		}
		for _, b := range behind {
			g.Before = append(g.Before, b.ID)
			holds[b.ID] = append(holds[b.ID], WriteApproval{g.Step, certainty})
		}
		if g.Asked == Yes {
			g.Asked = step.Runs
		}
		plan.Approvals = append(plan.Approvals, g)
	}
}

// calledWrites adds the writes of a called definition below its step.
func (pl *planner) calledWrites(plan *Plan, n *definitions.Node, before []WriteApproval) {
	step := pl.steps[n.ID]
	called, most := calledOf(step.PlannedStep)
	if called == nil || step.Runs == No || step.Problem != "" {
		return
	}
	for _, w := range called.Writes {
		w.AtMost = times(most, w.AtMost)
		approvals := append([]WriteApproval(nil), before...)
		for _, g := range w.Approvals {
			approvals = append(approvals, WriteApproval{n.ID + "/" + g.Step, g.Holds})
		}
		w.Step, w.Approvals = n.ID+"/"+w.Step, approvals
		if w.Runs == Yes {
			w.Runs = pl.writes(n)
		}
		plan.Writes = append(plan.Writes, w)
	}
}
