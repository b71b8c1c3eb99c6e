package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/perdure/perdure/definitions"
)

// approvals finds the approvals and the writes of a plan, and which approvals prevent which writes.
func (pl *planner) approvals(plan *Plan) {
	holds := map[string][]WriteApproval{}
	for _, n := range pl.program.Order() {
		pl.calledApprovals(plan, n, holds)
		approval := approvalOf(n)
		if approval == nil || pl.steps[n.ID].Runs == No || pl.steps[n.ID].Problem != "" {
			continue
		}
		behind := pl.behind(n.ID)
		plan.Approvals = append(plan.Approvals, pl.approval(n, approval, behind))
		for id, certainty := range pl.holds(n, behind) {
			holds[id] = append(holds[id], WriteApproval{n.ID, certainty})
		}
	}
	for _, n := range pl.program.Order() {
		step := pl.steps[n.ID]
		plan.Writes = append(plan.Writes, pl.scriptWrites(n, holds[n.ID])...)
		pl.calledWrites(plan, n, holds[n.ID])
		call := callOf(step.PlannedStep)
		if call == nil || call.Effect == definitions.Read || step.limits.Writes == 0 {
			continue
		}
		plan.Writes = append(plan.Writes, PlannedWrite{
			Step: n.ID, Tool: call.Tool, Effect: call.Effect,
			Runs: pl.writes(n), AtMost: step.limits.Writes, Approvals: holds[n.ID],
		})
	}
}

// writes reports whether a writing step makes its call.
func (pl *planner) writes(n *definitions.Node) Certainty {
	runs := pl.fate(n, pl.known)
	for s := pl.steps[n.ID].PlannedStep; s.Loop != nil && runs == Yes; s = &s.Loop.Items[0].Step {
		if s.Loop.Count == nil { // there may be no items
			runs = Depends
		}
	}
	return runs
}

// approvalOf gives the elicitation of a step, or of each of its items.
func approvalOf(n *definitions.Node) *definitions.Node {
	for ; n != nil; n = n.Inner {
		if n.Step.Type.Traits().Asks {
			return n
		}
	}
	return nil
}

// callOf gives the call of a step, or of each of its items.
func callOf(s *PlannedStep) *PlannedCall {
	for s.Loop != nil && len(s.Loop.Items) > 0 {
		s = &s.Loop.Items[0].Step
	}
	return s.PlannedCall
}

func (pl *planner) approval(n, approval *definitions.Node, behind []*definitions.Node) PlannedApproval {
	g := PlannedApproval{
		Step: n.ID, Each: approval != n, Asked: pl.steps[n.ID].Runs,
		Timeout:   cmp.Or(approval.Step.Timeout, definitions.Duration(definitions.DefaultStepTimeout)),
		OnDecline: handled(approval.Step.OnDecline), OnCancel: handled(approval.Step.OnCancel),
	}
	if g.Each && g.Asked == Yes {
		g.Asked = Depends // there may be no items
	}
	for _, b := range behind {
		g.Before = append(g.Before, b.ID)
	}
	g.ends = g.OnDecline == definitions.Abort && g.OnCancel == definitions.Abort && !approval.Step.Continues() && pl.fails(n)
	return g
}

// fails reports whether the run fails, at once or at its end, if a step does.
func (pl *planner) fails(n *definitions.Node) bool {
	return !n.Step.Continues() && pl.program.Definition.FailureMode != definitions.BestEffort
}

func handled(h *definitions.Handler) definitions.Action {
	if h == nil {
		return definitions.Abort
	}
	return cmp.Or(h.Action, definitions.Abort)
}

// behind gives the steps that start only after a step, in order.
func (pl *planner) behind(id string) []*definitions.Node {
	after := map[string]bool{id: true}
	var behind []*definitions.Node
	for _, n := range pl.program.Order() {
		if slices.ContainsFunc(n.Deps, func(dep string) bool { return after[dep] }) {
			after[n.ID] = true
			behind = append(behind, n)
		}
	}
	return behind
}

// holds reports for each step behind an approval whether every answer but accept, and no
// answer in time, prevents it. It plays each of them through.
func (pl *planner) holds(n *definitions.Node, behind []*definitions.Node) map[string]Certainty {
	holds := map[string]Certainty{}
	for _, b := range behind {
		holds[b.ID] = Yes
	}
	if approvalOf(n) != n { // each item has its own answer
		for id := range holds {
			holds[id] = Depends
		}
		return holds
	}
	outcomes := n.Step.Refusals()
	if pl.steps[n.ID].Runs == Depends {
		outcomes = append(outcomes, afterStep(n.Step, No, ""))
	}
	for _, outcome := range outcomes {
		known := maps.Clone(pl.known)
		known[n.ID] = outcome
		for _, b := range behind {
			runs := pl.fate(b, known)
			known[b.ID] = afterStep(b.Step, runs, pl.steps[b.ID].Problem)
			holds[b.ID] = worse(holds[b.ID], runs)
		}
	}
	return holds
}

// worse combines what holds so far with whether a step runs after one more answer.
func worse(holds, runs Certainty) Certainty {
	switch {
	case holds == No || runs == Yes:
		return No
	case holds == Depends || runs == Depends:
		return Depends
	}
	return Yes
}

// fate combines the conditions of a step and of its inner steps.
func (pl *planner) fate(n *definitions.Node, known knowledge) Certainty {
	d := pl.data(known)
	fate := Yes
	for ; n != nil; n = n.Inner {
		runs, _, err := pl.condition(n, d)
		switch {
		case runs == No || err != nil:
			return No
		case runs == Depends:
			fate = Depends
		}
		if n.Inner != nil {
			d = withinAny(n, d)
		}
	}
	return fate
}
