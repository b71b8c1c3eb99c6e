package workflows

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A graph is the state of each step of a run.
type graph struct {
	of        *definitions.Program
	states    map[string]*stepState
	seen      map[string]any // by ID, what templates see of them
	ended     int            // that have completed, failed or were skipped
	unsettled int            // that have not settled
}

// newGraph makes each step wait for its turn.
func newGraph(of *definitions.Program) *graph {
	g := &graph{of: of, states: map[string]*stepState{}, seen: map[string]any{}, unsettled: len(of.Steps)}
	pending := definitions.StepScope{Status: string(stepPending)}.Data()
	for _, n := range of.Steps {
		g.states[n.ID] = &stepState{status: stepPending, waits: len(n.Deps)}
		g.seen[n.ID] = pending
	}
	for _, n := range of.Steps {
		for _, id := range n.Deps {
			g.states[id].after = append(g.states[id].after, n)
		}
	}
	return g
}

// first are the steps that depend on none.
func (g *graph) first() (first []*definitions.Node) {
	for _, n := range g.of.Steps {
		if len(n.Deps) == 0 {
			first = append(first, n)
		}
	}
	return first
}

// settle notes that a step has ended, and returns the steps that were waiting for it alone.
func (g *graph) settle(n *definitions.Node) (due []*definitions.Node) {
	g.unsettled--
	ended := g.states[n.ID]
	g.see(n)
	if ended.status != stepStopped {
		g.ended++
	}
	for _, next := range ended.after {
		s := g.states[next.ID]
		if s.waits--; s.waits == 0 {
			due = append(due, next)
		}
	}
	return due
}

// settled reports whether all steps have settled.
func (g *graph) settled() bool { return g.unsettled == 0 }

// see shows templates the state of a step as it is now.
func (g *graph) see(n *definitions.Node) { g.seen[n.ID] = g.states[n.ID].scope(n).Data() }

// shown is where a step is, for a cell of a table.
func (g *graph) shown(id string) string {
	s := g.states[id]
	if s.err == "" {
		return string(s.status)
	}
	return string(s.status) + ": " + oneLine(s.err)
}

// lastOutput is that of the last completed step in the stable order of the graph; null if
// there is none.
func (g *graph) lastOutput() (json.RawMessage, error) {
	order := g.of.Order()
	for i := len(order) - 1; i >= 0; i-- {
		if s := g.states[order[i].ID]; s.status == stepCompleted {
			return template.EncodeValue(s.output)
		}
	}
	return json.RawMessage("null"), nil
}
