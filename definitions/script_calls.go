package definitions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A ScriptCall is what a script asks of the world at one place, as far as that
// can be seen without running it.
type ScriptCall struct {
	Kind    string `json:"kind"`              // tool, iterate, workflow, elicit, approve, sleep, parallel, probe, undo
	Name    string `json:"name,omitempty"`    // of the tool or workflow, as written; "" = only a run can tell
	Message string `json:"message,omitempty"` // of a question, where it is no expression
	Again   bool   `json:"again,omitempty"`   // it may come more than once, in a loop, a branch or a function
	File    string `json:"file"`
	Line    int    `json:"line"`

	Tool    string `json:"tool,omitempty"`    // in a plan: its name as it is offered
	Backend string `json:"backend,omitempty"` // in a plan
	Effect  Effect `json:"effect,omitempty"`  // in a plan

	called *Plan // in a plan: what the composite tool does that is called; nil = only a run can tell
	surely bool  // it is made once whatever the script comes to, if the script comes so far
	column int
}

// String says in a line what the call does and where it stands.
func (c ScriptCall) String() string {
	var b strings.Builder
	what := map[string]string{
		callsTool: "calls", callsIterate: "goes through pages of", callsWorkflow: "calls workflow", callsElicit: "asks:", callsApprove: "asks for approval:",
		callsProbe: "may find out with", callsUndo: "may undo with",
	}
	fmt.Fprintf(&b, "line %d", c.Line)
	if c.File != "script" {
		fmt.Fprintf(&b, " of %s", c.File)
	}
	b.WriteString(": " + cmp.Or(what[c.Kind], c.Kind))
	switch c.Kind {
	case callsTool, callsIterate, callsProbe, callsUndo, callsWorkflow:
		b.WriteString(" " + cmp.Or(c.Tool, c.Name, "what a run tells"))
	case callsElicit, callsApprove:
		b.WriteString(" " + cmp.Or(oneLine(c.Message), "what a run tells"))
	}
	if c.Effect != "" {
		fmt.Fprintf(&b, " (%s)", c.Effect)
	}
	if c.Again {
		b.WriteString(", perhaps several times")
	}
	return b.String()
}

// scriptCalls gives what the script of a node does; nil without one.
func (n *Node) scriptCalls() []ScriptCall {
	if n.Script == nil {
		return nil
	}
	var calls []ScriptCall
	for _, c := range seenCalls(n.Script) {
		calls = append(calls, ScriptCall{
			Kind: c.kind, Name: c.name, Message: c.message, File: c.File, Line: c.Line,
			Again: c.again(), column: c.Column, surely: !c.again() && !c.Maybe && !c.Value,
		})
	}
	return calls
}

// allScriptCalls gives those of the node and of its inner steps.
func (n *Node) allScriptCalls() []ScriptCall {
	var calls []ScriptCall
	for ; n != nil; n = n.Inner {
		calls = append(calls, n.scriptCalls()...)
	}
	return calls
}

// script plans a script: what can be seen of it, and how much it may do.
func (pl *planner) script(n *Node, data map[string]any, step *PlannedStep) PlanLimits {
	step.Script = n.scriptCalls()
	if !n.whole {
		step.PlannedCall = nil
		var values PlannedStep
		for _, m := range n.arguments.object {
			for _, value := range m.value.planned(m.name, data, schemaPlace{}) {
				values.blame(join("arguments", value.Name), value)
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
		case callsTool, callsIterate:
			pl.scriptCall(c, step)
			limits.Calls = plus(limits.Calls, 1)
			if c.Effect != Read {
				limits.Writes = plus(limits.Writes, 1)
			}
		case callsProbe, callsUndo: // if it comes to that
			pl.scriptCall(c, step)
		case callsWorkflow:
			limits.Calls = plus(limits.Calls, 1)
			below.add(1, pl.scriptWorkflow(c))
		case callsElicit, callsApprove:
			limits.Questions = plus(limits.Questions, 1)
		}
	}
	if again { // a script may make so many calls
		most := func(n int64) int64 { return min(n, 1) * maxScriptCalls }
		limits = PlanLimits{Calls: most(limits.Calls), Writes: most(limits.Writes), Questions: most(limits.Questions)}
		below = PlanLimits{Calls: times(maxScriptCalls, below.Calls), Writes: times(maxScriptCalls, below.Writes), Questions: times(maxScriptCalls, below.Questions),
			Attempts: times(maxScriptCalls, below.Attempts), Compensations: times(maxScriptCalls, below.Compensations)}
	}
	limits.Attempts = limits.Calls
	limits.add(1, below)
	return limits
}

// scriptWorkflow plans the call of a composite tool, whose arguments only a run
// can tell. What one does that is not known has no bounds.
func (pl *planner) scriptWorkflow(c *ScriptCall) PlanLimits {
	d, ok := pl.find.find(c.Name)
	if ok && pl.depth < pl.maxDepth {
		params := partial{}
		properties, _ := d.Parameters["properties"].(map[string]any)
		for name := range properties {
			params[name] = unknown{}
		}
		c.called = pl.calledOnce(d, params)
	}
	if c.called == nil {
		return PlanLimits{Calls: math.MaxInt64, Attempts: math.MaxInt64, Writes: math.MaxInt64, Questions: math.MaxInt64}
	}
	return c.called.AtMost
}

// maxScriptCalls is how many calls a script may make.
const maxScriptCalls = 1000

// scriptCall looks the tool of a call up. That there is none is a problem of the
// step, since the script does not run then.
func (pl *planner) scriptCall(c *ScriptCall, step *PlannedStep) {
	c.Effect = Unsafe
	if c.Name == "" {
		return
	}
	tool, ok := pl.tools(c.Name)
	if !ok {
		step.Problem = cmp.Or(step.Problem, fmt.Sprintf("no backend offers the tool %s", c.Name))
		return
	}
	c.Tool, c.Backend, c.Effect = tool.Name, tool.Backend, cmp.Or(tool.Effect, Unsafe)
}

// calledOnce plans a definition of whose arguments nothing is known, once at each
// depth, however often scripts call it.
func (pl *planner) calledOnce(d *Definition, params partial) *Plan {
	key := fmt.Sprintf("%d %s", pl.depth, d.Digest())
	if _, known := pl.unknown[key]; !known {
		pl.unknown[key], _ = pl.called(d, params, false)
	}
	return pl.unknown[key]
}

// scriptWrites gives the writes of a script, and of what it calls. Which of them
// are made only a run can tell.
func (pl *planner) scriptWrites(n *Node, before []WriteGate) []PlannedWrite {
	step := pl.steps[n.ID]
	if step.limits.Writes == 0 {
		return nil
	}
	var writes []PlannedWrite
	workflows := map[string]int64{}
	for _, c := range step.Script {
		if c.Kind == callsWorkflow {
			workflows[c.Name]++
		}
	}
	for _, c := range step.Script {
		most := int64(1)
		if c.Kind == callsWorkflow { // what it writes is told where it is called first
			if most = workflows[c.Name]; most == 0 {
				continue
			}
			workflows[c.Name] = 0
		}
		if c.Again {
			most = maxScriptCalls
		}
		gates := append(slices.Clone(before), c.gates(n.ID, step.Script)...)
		switch {
		case c.Kind == callsWorkflow && c.called == nil:
			writes = append(writes, PlannedWrite{Step: n.ID, Tool: "whatever " + cmp.Or(c.Name, "a composite tool that only a run can tell") + " calls", Effect: Unsafe, Runs: Depends, AtMost: math.MaxInt64, Gates: gates})
		case c.Kind == callsWorkflow:
			for _, w := range c.called.Writes {
				w.Step, w.Runs, w.AtMost = n.ID+"/"+w.Step, Depends, times(most, w.AtMost)
				w.Gates = append(slices.Clone(gates), w.Gates...)
				writes = append(writes, w)
			}
		case c.Effect != "" && c.Effect != Read && c.Kind != callsUndo:
			writes = append(writes, PlannedWrite{Step: n.ID, Tool: cmp.Or(c.Tool, c.Name, "a tool that only a run can tell"), Effect: c.Effect, Runs: Depends, AtMost: most, Gates: gates})
		}
	}
	return writes
}

// gates are the questions of a script that stand before a call. An approve that
// the script surely comes to holds back what stands below it; what it does about
// other answers, and with functions that stand above, only a run can tell.
func (c ScriptCall) gates(step string, calls []ScriptCall) []WriteGate {
	var gates []WriteGate
	for _, g := range calls {
		if g.Kind != callsElicit && g.Kind != callsApprove {
			continue
		}
		gate := WriteGate{Step: fmt.Sprintf("%s line %d", step, g.Line), Holds: Depends}
		below := g.File == c.File && (g.Line < c.Line || g.Line == c.Line && g.column < c.column)
		switch {
		case below && g.Kind == callsApprove && g.surely:
			gate.Holds = Yes
		case !below && !c.Again:
			continue
		}
		gates = append(gates, gate)
	}
	return gates
}
