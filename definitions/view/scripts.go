package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A PlannedScriptCall is a call in a script, with what is known of the called tool.
type PlannedScriptCall struct {
	definitions.ScriptCall
	Tool    string             `json:"tool,omitempty"` // its name for clients
	Backend string             `json:"backend,omitempty"`
	Effect  definitions.Effect `json:"effect,omitempty"`

	called *Plan // of a composite tool; nil = unknown before the run
}

// String describes the call in a line, with its place.
func (c PlannedScriptCall) String() string {
	const computed = "known only in a run"
	what := map[string]string{
		definitions.CallsTool: "calls", definitions.CallsIterate: "goes through pages of", definitions.CallsWorkflow: "calls workflow",
		definitions.CallsElicit: "asks:", definitions.CallsApprove: "asks for approval:",
		definitions.CallsProbe: "may find out with", definitions.CallsUndo: "may undo with",
	}
	line := fmt.Sprintf("line %d", c.Line)
	if c.File != "script" {
		line += " of " + c.File
	}
	line += ": " + cmp.Or(what[c.Kind], c.Kind)
	switch c.Kind {
	case definitions.CallsTool, definitions.CallsIterate, definitions.CallsProbe, definitions.CallsUndo, definitions.CallsWorkflow:
		line += " " + cmp.Or(c.Tool, c.Name, computed)
		if c.Effect != "" {
			line += fmt.Sprintf(" (%s)", c.Effect)
		}
	case definitions.CallsElicit, definitions.CallsApprove:
		line += " " + cmp.Or(Line(c.Message), computed)
	}
	if c.Again {
		line += ", perhaps several times"
	}
	return line
}

func plannedCalls(n *definitions.Node) []PlannedScriptCall {
	var calls []PlannedScriptCall
	for _, c := range n.ScriptCalls() {
		calls = append(calls, PlannedScriptCall{ScriptCall: c})
	}
	return calls
}

// script plans a script: its visible calls, and the most it may do.
func (pl *planner) script(n *definitions.Node, d data, step *PlannedStep) PlanLimits {
	step.Script = plannedCalls(n)
	if !n.Whole() {
		step.PlannedCall = nil
		var values PlannedStep
		for _, m := range n.Templates.Arguments.Members {
			for _, value := range plannedArgument(m.Value, m.Name, d, template.Schema{}) {
				values.blame(template.AtMember("arguments", value.Name), value)
			}
		}
		step.Problem = cmp.Or(step.Problem, values.Problem)
	}
	var limits, below PlanLimits
	again := false
	for i := range step.Script {
		c := &step.Script[i]
		again = again || c.Again
		switch c.Kind {
		case definitions.CallsTool, definitions.CallsIterate:
			pl.scriptCall(c, step)
			limits.Calls = plus(limits.Calls, 1)
			if c.Effect != definitions.Read {
				limits.Writes = plus(limits.Writes, 1)
			}
		case definitions.CallsProbe, definitions.CallsUndo: // only if needed
			pl.scriptCall(c, step)
		case definitions.CallsWorkflow:
			limits.Calls = plus(limits.Calls, 1)
			below.add(1, pl.scriptWorkflow(c))
		case definitions.CallsElicit, definitions.CallsApprove:
			limits.Questions = plus(limits.Questions, 1)
		}
	}
	if again { // a script may make so many calls
		most := func(n int64) int64 { return min(n, 1) * definitions.MaxScriptCalls }
		limits = PlanLimits{Calls: most(limits.Calls), Writes: most(limits.Writes), Questions: most(limits.Questions)}
		below = PlanLimits{Calls: times(definitions.MaxScriptCalls, below.Calls), Writes: times(definitions.MaxScriptCalls, below.Writes), Questions: times(definitions.MaxScriptCalls, below.Questions),
			Attempts: times(definitions.MaxScriptCalls, below.Attempts), Compensations: times(definitions.MaxScriptCalls, below.Compensations)}
	}
	limits.Attempts = limits.Calls
	limits.add(1, below)
	return limits
}

// scriptWorkflow plans the call of a composite tool with unknown arguments. An unknown
// tool has no bounds.
func (pl *planner) scriptWorkflow(c *PlannedScriptCall) PlanLimits {
	d, ok := pl.Definitions.Find(c.Name)
	if ok && pl.depth < pl.MaxDepth {
		params := template.Partial{}
		properties, _ := d.Parameters["properties"].(map[string]any)
		for name := range properties {
			params[name] = template.Unknown{}
		}
		c.called = pl.calledOnce(d, params)
	}
	if c.called == nil {
		return PlanLimits{Calls: math.MaxInt64, Attempts: math.MaxInt64, Writes: math.MaxInt64, Questions: math.MaxInt64}
	}
	return c.called.AtMost
}

// scriptCall looks up the tool of a call. An unknown tool is a problem of the step,
// since the script does not run then.
func (pl *planner) scriptCall(c *PlannedScriptCall, step *PlannedStep) {
	c.Effect = definitions.Unsafe
	if c.Name == "" {
		return
	}
	tool, ok := pl.Tools(c.Name)
	if !ok {
		step.Problem = cmp.Or(step.Problem, fmt.Sprintf("no backend offers the tool %s", c.Name))
		return
	}
	c.Tool, c.Backend, c.Effect = tool.Name, tool.Backend, cmp.Or(tool.Effect, definitions.Unsafe)
}

// calledOnce plans a definition with unknown arguments, once at each depth, however
// often scripts call it.
func (pl *planner) calledOnce(d *definitions.Definition, params template.Partial) *Plan {
	key := fmt.Sprintf("%d %s", pl.depth, d.Digest())
	if _, known := pl.unknown[key]; !known {
		pl.unknown[key], _ = pl.called(d, params, false)
	}
	return pl.unknown[key]
}

// scriptWrites gives the writes of a script and of what it calls. Only a run can find
// out which of them it makes.
func (pl *planner) scriptWrites(n *definitions.Node, before []WriteApproval) []PlannedWrite {
	step := pl.steps[n.ID]
	if step.limits.Writes == 0 {
		return nil
	}
	var writes []PlannedWrite
	workflows := map[string]int64{}
	for _, c := range step.Script {
		if c.Kind == definitions.CallsWorkflow {
			workflows[c.Name]++
		}
	}
	for _, c := range step.Script {
		most := int64(1)
		if c.Kind == definitions.CallsWorkflow { // its writes are listed at the first call
			if most = workflows[c.Name]; most == 0 {
				continue
			}
			workflows[c.Name] = 0
		}
		if c.Again {
			most = definitions.MaxScriptCalls
		}
		approvals := append(slices.Clone(before), c.approvals(n.ID, step.Script)...)
		switch {
		case c.Kind == definitions.CallsWorkflow && c.called == nil:
			writes = append(writes, PlannedWrite{Step: n.ID, Tool: "whatever " + cmp.Or(c.Name, "a composite tool that only a run can tell") + " calls", Effect: definitions.Unsafe, Runs: Depends, AtMost: math.MaxInt64, Approvals: approvals})
		case c.Kind == definitions.CallsWorkflow:
			for _, w := range c.called.Writes {
				w.Step, w.Runs, w.AtMost = n.ID+"/"+w.Step, Depends, times(most, w.AtMost)
				w.Approvals = append(slices.Clone(approvals), w.Approvals...)
				writes = append(writes, w)
			}
		case c.Effect != "" && c.Effect != definitions.Read && c.Kind != definitions.CallsUndo:
			writes = append(writes, PlannedWrite{Step: n.ID, Tool: cmp.Or(c.Tool, c.Name, "a tool that only a run can tell"), Effect: c.Effect, Runs: Depends, AtMost: most, Approvals: approvals})
		}
	}
	return writes
}

// approvals are the elicitations of a script before a call. An approve that the script surely
// reaches holds back the calls below it. What the script does about other answers, and
// in functions above, only a run can find out.
func (c PlannedScriptCall) approvals(step string, calls []PlannedScriptCall) []WriteApproval {
	var approvals []WriteApproval
	for _, g := range calls {
		if g.Kind != definitions.CallsElicit && g.Kind != definitions.CallsApprove {
			continue
		}
		approval := WriteApproval{Step: fmt.Sprintf("%s line %d", step, g.Line), Holds: Depends}
		below := g.File == c.File && (g.Line < c.Line || g.Line == c.Line && g.Column < c.Column)
		switch {
		case below && g.Kind == definitions.CallsApprove && g.Surely:
			approval.Holds = Yes
		case !below && !c.Again:
			continue
		}
		approvals = append(approvals, approval)
	}
	return approvals
}
