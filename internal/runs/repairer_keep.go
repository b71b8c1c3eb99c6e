package runs

import (
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// keep takes into the journal what need not be done again.
func (r *repairer) keep() error {
	r.findRepeated()
	for path := range r.was.Input.EarlierUnknown {
		r.fates[path] = FateFailed
	}
	for path, e := range r.was.Entries {
		n, loop := r.program.At(path)
		if _, reference := e.Kind.(record.Reference); n == nil && !reference {
			continue
		}
		terms := r.choice.terms(path, n, loop)
		if child, ok := unfinished(e); ok && !e.StaysFailed(terms) {
			kept, err := r.keepCalled(path, n, loop, e)
			if err != nil {
				return err
			}
			if !kept && child.Error == nil { // it was never started, or is to be anew
				r.fates[path] = FateFailed
			}
			if kept || child.Error == nil {
				continue
			}
		}
		r.carry(path, n, e, terms)
	}
	return nil
}

// carry takes what is recorded at a path into the journal, if it survives.
func (r *repairer) carry(path workflows.StepPath, n *definitions.Node, e record.Entry, terms record.Terms) {
	if _, open := r.unsettled[path]; open && e.Failure() == nil {
		return // see settle
	}
	carried, kept := e.Carry(terms)
	if kept {
		r.journal[path] = carried
		delete(r.unsettled, path)
	}
	if fate := fateOf(path, n, e, kept, carried.Exact); fate != "" {
		r.fates[path] = fate
	}
}

// fateOf is what becomes of what is recorded at a path; "" = a plan does not say it.
func fateOf(path workflows.StepPath, n *definitions.Node, e record.Entry, kept, exact bool) string {
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
		if k.Unsettled != nil && k.Error == nil {
			return ""
		}
	case record.End:
		if kept && k.Skipped {
			return ""
		}
	}
	switch {
	case !kept && e.Output() != nil:
		return FateAgain
	case !kept:
		return FateFailed
	case e.Failure() != nil, inScript(n, path) && e.Tool() == "":
		return ""
	case exact:
		return FateSame
	}
	return FateReused
}

// unfinished is the called run of an entry, if it has not completed.
func unfinished(e record.Entry) (record.Child, bool) {
	child, ok := e.Kind.(record.Child)
	return child, ok && child.ID != "" && !e.Done()
}

// childAt is the run that a step at a path has called.
func childAt(was *workflows.Journal, path workflows.StepPath) record.Child {
	child, _ := was.Entries[path].Kind.(record.Child)
	return child
}

// inScript reports whether a path is that of a call of a script.
func inScript(n *definitions.Node, path workflows.StepPath) bool {
	return n.Script != nil && path.IsScriptCall()
}

// itself reports whether a path is that of a script, which starts from its top
// again and finds what it has done.
func itself(n *definitions.Node, path workflows.StepPath) bool {
	return n.Script != nil && !inScript(n, path)
}

func continues(n *definitions.Node) bool {
	return n.Step.OnError != nil && n.Step.OnError.Action == definitions.Continue
}
