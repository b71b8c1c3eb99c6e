package definitions

import (
	"slices"

	"github.com/perdure/perdure/internal/starlark"
)

// A ScriptCall is a call at one place of a script, as far as visible without running
// it.
type ScriptCall struct {
	Kind    string `json:"kind"`              // tool, iterate, workflow, elicit, approve, sleep, parallel, probe, undo
	Name    string `json:"name,omitempty"`    // of the tool or workflow, as written; "" = computed
	Message string `json:"message,omitempty"` // of an elicitation, if it is literal
	Again   bool   `json:"again,omitempty"`   // it may be made more than once: in a loop, a branch or a function
	File    string `json:"file"`
	Line    int    `json:"line"`

	Column int  `json:"-"`
	Surely bool `json:"-"` // it is made once, if the script gets there
}

// CallsByName reports whether the script of the node may call a composite tool by a
// reference: it is visible there, or tools of the step has the name. This was checked
// with the publisher's permission.
func (n *Node) CallsByName(reference string) bool {
	if slices.Contains(n.workflows, reference) {
		return true
	}
	ref, err := ParseReference(reference)
	return err != nil || MatchesTool(n.Step.Tools, ref.Name) // an invalid reference calls nothing
}

// CallsOthers reports whether a run of the program may call other composite tools.
func (p *Program) CallsOthers() bool {
	return slices.ContainsFunc(p.Steps, func(n *Node) bool {
		for ; n != nil; n = n.Inner {
			if n.Step.Workflow != "" || len(n.workflows) > 0 || len(n.Step.Tools) > 0 {
				return true
			}
		}
		return false
	})
}

// ScriptCalls gives the visible calls of the node's script; nil without one.
func (n *Node) ScriptCalls() []ScriptCall {
	if n.Script == nil {
		return nil
	}
	return visibleCalls(n.Script)
}

func visibleCalls(program *starlark.Program) []ScriptCall {
	var calls []ScriptCall
	for _, c := range seenCalls(program) {
		calls = append(calls, ScriptCall{
			Kind: c.kind, Name: c.name, Message: c.message, File: c.File, Line: c.Line, Again: c.again(),
			Column: c.Column, Surely: !c.again() && !c.Maybe && !c.Value,
		})
	}
	return calls
}
