package definitions

import (
	"cmp"
	"maps"
	"slices"
)

// gates finds the gates and writes of a plan, and what the ones do for the
// others.
func (pl *planner) gates(plan *Plan) {
	holds := map[string][]WriteGate{}
	for _, n := range pl.program.Order() {
		pl.calledGates(plan, n, holds)
		gate := gateOf(n)
		if gate == nil || pl.steps[n.ID].Runs == No || pl.steps[n.ID].Problem != "" {
			continue
		}
		behind := pl.behind(n.ID)
		plan.Gates = append(plan.Gates, pl.gate(n, gate, behind))
		for id, certainty := range pl.holds(n, behind) {
			holds[id] = append(holds[id], WriteGate{n.ID, certainty})
		}
	}
	for _, n := range pl.program.Order() {
		step := pl.steps[n.ID]
		plan.Writes = append(plan.Writes, pl.scriptWrites(n, holds[n.ID])...)
		pl.calledWrites(plan, n, holds[n.ID])
		call := callOf(step.PlannedStep)
		if call == nil || call.Effect == Read || step.limits.Writes == 0 {
			continue
		}
		plan.Writes = append(plan.Writes, PlannedWrite{
			Step: n.ID, Tool: call.Tool, Effect: call.Effect,
			Runs: pl.writes(n), AtMost: step.limits.Writes, Gates: holds[n.ID],
		})
	}
}

// writes says whether a step that writes makes its call.
func (pl *planner) writes(n *Node) Certainty {
	runs := pl.fate(n, pl.known)
	for s := pl.steps[n.ID].PlannedStep; s.Loop != nil && runs == Yes; s = &s.Loop.Items[0].Step {
		if s.Loop.Count == nil { // there may be no items
			runs = Depends
		}
	}
	return runs
}

// gateOf gives the elicitation that a step is, or that it asks for each item.
func gateOf(n *Node) *Node {
	for ; n != nil; n = n.Inner {
		if n.Step.Type == ElicitationStep {
			return n
		}
	}
	return nil
}

// callOf gives the call that a step makes, or that it makes for each item.
func callOf(s *PlannedStep) *PlannedCall {
	for s.Loop != nil && len(s.Loop.Items) > 0 {
		s = &s.Loop.Items[0].Step
	}
	return s.PlannedCall
}

func (pl *planner) gate(n, gate *Node, behind []*Node) PlannedGate {
	g := PlannedGate{
		Step: n.ID, Each: gate != n, Asked: pl.steps[n.ID].Runs,
		Timeout:   cmp.Or(gate.Step.Timeout, Duration(DefaultStepTimeout)),
		OnDecline: handled(gate.Step.OnDecline), OnCancel: handled(gate.Step.OnCancel),
	}
	if g.Each && g.Asked == Yes {
		g.Asked = Depends // there may be no items
	}
	for _, b := range behind {
		g.Before = append(g.Before, b.ID)
	}
	g.ends = g.OnDecline == Abort && g.OnCancel == Abort && !continues(gate.Step) && pl.fails(n)
	return g
}

// fails says whether a step that fails lets the run fail, now or at its end.
func (pl *planner) fails(n *Node) bool {
	return !continues(n.Step) && pl.program.Definition.FailureMode != BestEffort
}

func handled(h *Handler) Action {
	if h == nil {
		return Abort
	}
	return cmp.Or(h.Action, Abort)
}

// behind gives the steps that start only after a step, in order.
func (pl *planner) behind(id string) []*Node {
	after := map[string]bool{id: true}
	var behind []*Node
	for _, n := range pl.program.Order() {
		if slices.ContainsFunc(n.Deps, func(dep string) bool { return after[dep] }) {
			after[n.ID] = true
			behind = append(behind, n)
		}
	}
	return behind
}

// holds says of each step behind a gate whether it is kept from running by
// every answer but accept, and by none in time: it plays each of them through.
func (pl *planner) holds(n *Node, behind []*Node) map[string]Certainty {
	holds := map[string]Certainty{}
	for _, b := range behind {
		holds[b.ID] = Yes
	}
	if gateOf(n) != n { // each item has an answer of its own
		for id := range holds {
			holds[id] = Depends
		}
		return holds
	}
	outcomes := refusals(n.Step)
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

// worse takes into account that a step runs after one more answer.
func worse(holds, runs Certainty) Certainty {
	switch {
	case holds == No || runs == Yes:
		return No
	case holds == Depends || runs == Depends:
		return Depends
	}
	return Yes
}

// refusals gives what steps behind an elicitation see of it for each way in
// which it is not accepted. Those after which they do not start are left out.
func refusals(s *Step) []any {
	var seen []any
	for _, action := range []string{"decline", "cancel", "timeout"} {
		handler := s.OnCancel
		if action == "decline" {
			handler = s.OnDecline
		}
		output := map[string]any{}
		maps.Copy(output, s.DefaultResults)
		output["action"] = action
		scope := StepScope{Status: "completed", Output: output, Action: action, Content: output["content"]}
		switch {
		case goesOn(handler):
			seen = append(seen, scope.data())
		case handled(handler) == SkipRemaining:
		case continues(s):
			scope.Status = "failed"
			seen = append(seen, failedWith(scope))
		}
	}
	if continues(s) { // it can fail before it is asked
		seen = append(seen, failedWith(StepScope{Status: "failed", Output: orEmpty(s.DefaultResults)}))
	}
	return seen
}

// failedWith is a failed step whose error is not known.
func failedWith(scope StepScope) partial {
	data := partial(scope.data())
	data["error"] = unknown{}
	return data
}

// fate says what the conditions of a step and of its inner steps come to.
func (pl *planner) fate(n *Node, known knowledge) Certainty {
	data := pl.data(known, nil)
	fate := Yes
	for ; n != nil; n = n.Inner {
		runs, _, err := pl.condition(n, data)
		switch {
		case runs == No || err != nil:
			return No
		case runs == Depends:
			fate = Depends
		}
		if n.Inner != nil {
			data = withinAny(n, data)
		}
	}
	return fate
}
