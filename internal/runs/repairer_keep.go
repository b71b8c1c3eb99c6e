package runs

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// keep takes into the journal what need not be done again.
func (r *repairer) keep() {
	r.findRepeated()
	for path := range r.record.Input.InDoubt {
		r.fates[path] = FateFailed
	}
	for path, e := range r.record.Journal {
		if path.IsReference() && !r.changed { // what a reference meant to the run
			r.journal[path] = e
			continue
		}
		n, loop := r.program.At(path)
		if n != nil && e.Child != nil && e.Result == nil && !r.staysFailed(path, e) {
			if r.keepCalled(path, n, loop, e) {
				continue
			}
			if e.Error == nil { // it was never started, or is to be anew
				r.fates[path] = FateFailed
				continue
			}
		}
		if e.Fan != nil && e.Fan.Failed || e.Within != nil || e.Reported != nil { // it is tried again, and all of it, in a time of its own
			continue
		}
		if n == nil || e.Unsettled != nil && e.Result == nil && e.Error == nil {
			continue
		}
		if _, open := r.unsettled[path]; open && e.Error == nil {
			continue
		}
		kept, exact := r.keeps(path, n, loop, e)
		if !kept {
			if e.Result != nil && (n.Step.Tool != "" || n.Step.Workflow != "" || e.Tool != "") {
				r.fates[path] = FateAgain
			} else if n.Inner == nil && !itself(n, path) {
				r.fates[path] = FateFailed
			}
			continue
		}
		e.Unsettled, e.Exact = nil, e.Exact || exact
		r.journal[path] = e
		delete(r.unsettled, path)
		switch {
		case n.Inner != nil, e.Skipped, e.Error != nil, itself(n, path), inScript(n, path) && e.Tool == "":
		case e.Exact:
			r.fates[path] = FateSame
		default:
			r.fates[path] = FateReused
		}
	}
}

// keeps says whether what is recorded at a path counts, and whether it does so
// for the same arguments only.
func (r *repairer) keeps(path workflows.StepPath, n, loop *definitions.Node, e workflows.JournalEntry) (kept, exact bool) {
	exact = r.changed || r.doubtful[path.Top()]
	switch {
	case r.again[path.Top()] || r.undone[path]:
		return false, false
	case inScript(n, path) && e.Error != nil:
		return r.staysFailed(path, e), exact
	case inScript(n, path):
		return accepted(path, e.Result), exact
	case e.Error != nil: // a step that continues is done with
		return !exact && (continues(n) || loop != nil && continues(loop)), false
	case e.Skipped:
		return !exact, false
	}
	kind, known := workflows.KindOf(n.Step.Type)
	if !known {
		return false, false
	}
	return kind.Survives(n, e.Result, exact)
}

// staysFailed says whether a call of a script that failed counts. It is tried again
// whatever the script made of it, unless the script has repeated it. A called run
// is only told by what it was called with before.
func (r *repairer) staysFailed(path workflows.StepPath, e workflows.JournalEntry) bool {
	return r.repeated[path] && (e.Child == nil || !r.changed && !r.doubtful[path.Top()])
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

// accepted reports whether a result is no answer of a person but to accept:
// others are asked for again.
func accepted(path workflows.StepPath, result json.RawMessage) bool {
	var answer workflows.Answer
	isAnswer := json.Unmarshal(result, &answer) == nil && path.Time(answer.ElicitationID) > 0
	return !isAnswer || answer.Action == workflows.Accept
}

func continues(n *definitions.Node) bool {
	return n.Step.OnError != nil && n.Step.OnError.Action == definitions.Continue
}
