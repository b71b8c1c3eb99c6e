package definitions

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/perdure/perdure/workflows/script"
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
	for _, c := range n.Script.Calls() {
		calls = append(calls, ScriptCall{
			Kind: c.Kind, Name: referenceOf(c), Message: c.Message, File: c.File, Line: c.Line,
			Again: c.InLoop || c.InBranch || c.InFunction != "",
		})
	}
	return calls
}

// referenceOf is what a call calls, with the version that it asks for.
func referenceOf(c script.Call) string {
	if c.Version == "" {
		return c.Name
	}
	return c.Name + "@" + c.Version
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
	var limits PlanLimits
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
			limits.Calls, limits.Writes = plus(limits.Calls, 1), plus(limits.Writes, 1)
		case callsElicit, callsApprove:
			limits.Questions = plus(limits.Questions, 1)
		}
	}
	if again { // a script may make so many calls
		most := func(n int64) int64 { return min(n, 1) * maxScriptCalls }
		limits = PlanLimits{Calls: most(limits.Calls), Writes: most(limits.Writes), Questions: most(limits.Questions)}
	}
	limits.Attempts = limits.Calls
	return limits
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

// scriptWrites gives the writes of a script, which its own questions may hold
// back: only a run can tell.
func (pl *planner) scriptWrites(n *Node, gates []WriteGate) []PlannedWrite {
	step := pl.steps[n.ID]
	var writes []PlannedWrite
	for _, c := range step.Script {
		if c.Effect == "" || c.Effect == Read || c.Kind == callsUndo || step.limits.Writes == 0 {
			continue
		}
		w := PlannedWrite{Step: n.ID, Tool: cmp.Or(c.Tool, c.Name, "a tool that only a run can tell"), Effect: c.Effect, Runs: Depends, AtMost: 1, Gates: gates}
		if c.Again {
			w.AtMost = maxScriptCalls
		}
		writes = append(writes, w)
	}
	return writes
}
