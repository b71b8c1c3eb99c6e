package history

import (
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// keep adds the records to the journal that need not be made again.
func (r *planner) keep() error {
	r.findRepeated()
	for path := range r.was.Input.EarlierUnknown {
		r.steps[path] = PlanExecuted
	}
	for path, e := range r.was.Entries {
		n, loop := r.program.At(path)
		terms := r.choice.terms(path, n, loop)
		if _, reference := e.Kind.(record.Reference); n == nil && !reference {
			r.leave(path, e, terms)
			continue
		}
		if child, ok := unfinished(e); ok && !e.StaysFailed(terms) {
			kept, err := r.keepCalled(path, n, loop, e)
			if err != nil {
				return err
			}
			if !kept && child.Error == nil { // it was never started, or is to be anew
				r.steps[path] = PlanExecuted
			}
			if kept || child.Error == nil {
				continue
			}
		}
		r.carry(path, n, e, terms)
	}
	return nil
}

// leave keeps what a step has done that the definition does not have: it remains an effect
// of the run, and counts again where a later definition has the step.
func (r *planner) leave(path workflows.StepPath, e record.Entry, terms record.Terms) {
	call, _ := e.Kind.(record.Call)
	if e.Output() == nil || call.Undoes || path.IsProbe() {
		return
	}
	if carried, kept := e.Carry(terms); kept {
		r.journal[path] = carried
		delete(r.unknown, path)
		r.steps[path] = PlanLeft
	}
}

// carry adds the record at a path to the journal, if it survives.
func (r *planner) carry(path workflows.StepPath, n *definitions.Node, e record.Entry, terms record.Terms) {
	if _, open := r.unknown[path]; open && e.Failure() == nil {
		return // see settle
	}
	carried, kept := e.Carry(terms)
	if kept {
		r.journal[path] = carried
		delete(r.unknown, path)
	}
	if fate := planOf(path, n, e, kept, carried.Exact); fate != "" {
		r.steps[path] = fate
	}
}

// planOf is what becomes of what is recorded at a path; "" = a plan does not say it.
func planOf(path workflows.StepPath, n *definitions.Node, e record.Entry, kept, exact bool) string {
	if n == nil || n.Inner != nil || itself(n, path) {
		return ""
	}
	switch k := e.Kind.(type) {
	case record.Deadline, record.Report:
		return ""
	case record.Branches:
		if kept || k.Failed {
			return ""
		}
	case record.Call:
		if k.OutcomeUnknown != nil && k.Error == nil {
			return ""
		}
	case record.End:
		if kept && k.Skipped {
			return ""
		}
	}
	switch {
	case !kept && e.Output() != nil:
		return PlanAgain
	case !kept:
		return PlanExecuted
	case e.Failure() != nil, inScript(n, path) && e.Tool() == "":
		return ""
	case exact:
		return PlanReusedIfSame
	}
	return PlanReused
}

// unfinished is the called run of an entry, if it has not completed.
func unfinished(e record.Entry) (record.Child, bool) {
	child, ok := e.Kind.(record.Child)
	return child, ok && child.ID != "" && !e.Done()
}

// ChildAt is what is recorded of the run that a step at a path has called.
func ChildAt(was *workflows.RunRecord, path workflows.StepPath) record.Child {
	child, _ := was.Entries[path].Kind.(record.Child)
	return child
}

// inScript reports whether a path is that of a call of a script.
func inScript(n *definitions.Node, path workflows.StepPath) bool {
	return n.Script != nil && path.IsScriptCall()
}

// itself reports whether a path is that of a script, which starts from its top again and
// finds its records.
func itself(n *definitions.Node, path workflows.StepPath) bool {
	return n.Script != nil && !inScript(n, path)
}

// CalledAt is the ID of the run that a step at a path has called; "" = none.
func CalledAt(was *workflows.RunRecord, path workflows.StepPath) RunID {
	return RunID(ChildAt(was, path).ID)
}
