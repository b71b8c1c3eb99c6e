package history

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A choice says which records of a run count when it is resumed.
type choice struct {
	reason    record.Reason
	changed   bool                        // the definition or the arguments have changed
	again     map[string]bool             // top-level steps that are executed again
	mayDiffer map[string]bool             // top-level steps whose results count only for the same arguments
	undone    map[workflows.StepPath]bool // step paths that were undone
	repeated  map[workflows.StepPath]bool // paths of failures in a script that retried until it succeeded
}

func newChoice(was *workflows.RunRecord, req ResumeRequest) *choice {
	c := &choice{
		reason: record.Resumed, changed: req.Definition != nil || len(req.Arguments) > 0,
		again: map[string]bool{}, mayDiffer: map[string]bool{},
		undone: map[workflows.StepPath]bool{}, repeated: map[workflows.StepPath]bool{},
	}
	if was.Input.WasReset || req.reset {
		c.reason = record.Reset
	}
	for _, path := range was.Redo {
		c.undone[path] = true
	}
	return c
}

// begin finds the steps that are executed again, beginning with from, and those whose
// results may no longer be valid.
func (c *choice) begin(program *definitions.Program, from []string) error {
	for _, id := range from {
		if !slices.ContainsFunc(program.Steps, func(n *definitions.Node) bool { return n.ID == id }) {
			return fmt.Errorf("has no step %q to resume from", id)
		}
		c.again[id] = true
	}
	for path := range c.undone {
		c.mayDiffer[path.Top()] = true
	}
	for _, n := range program.Order() {
		for _, before := range n.Deps {
			c.again[n.ID] = c.again[n.ID] || c.again[before]
			c.mayDiffer[n.ID] = c.mayDiffer[n.ID] || c.mayDiffer[before]
		}
	}
	return nil
}

// mayBeOther reports whether the inputs of a step at a path may have changed.
func (c *choice) mayBeOther(path workflows.StepPath) bool {
	return c.changed || c.mayDiffer[path.Top()]
}

// terms are those on which the record at a path survives.
func (c *choice) terms(path workflows.StepPath, n, loop *definitions.Node) record.Terms {
	t := record.Terms{
		Reason: c.reason, Again: c.again[path.Top()] || c.undone[path],
		MayDiffer: c.mayBeOther(path), Repeated: c.repeated[path],
	}
	if n == nil {
		return t
	}
	t.Continues = n.Step.Continues() || loop != nil && loop.Step.Continues()
	if t.Script = inScript(n, path); !t.Script {
		t.Proceeds = func(action string) bool { return proceeds(n, action) }
	}
	return t
}

// proceeds reports whether a step that asks proceeds after an answer.
func proceeds(n *definitions.Node, action string) bool {
	handler := n.Step.OnCancel
	if action == workflows.Decline {
		handler = n.Step.OnDecline
	}
	return n.Step.Continues() || handler != nil && handler.Action != "" && handler.Action != definitions.Abort
}
