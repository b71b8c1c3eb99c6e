package workflows

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
)

// Sent are the calls of a run of which nothing is known since they were sent, by the
// path of their step.
type sent struct {
	keyed     map[StepPath]string    // names of keyed tools
	unsettled map[StepPath]Unsettled // of unsafe tools
}

// leaves keeps that a call is on its way after which nothing may be known.
func (s *sent) leaves(q request, call ParkedCall) {
	if q.tool.Effect == definitions.Keyed {
		s.keyed[q.path] = q.tool.Name
	}
	if !Repeatable(q.tool.Effect) {
		s.unsettled[q.path] = Unsettled{Call: call, Times: 1, Error: Error{
			Code: codes.UnderWay, Category: codes.CategoryOutcomeUnknown, StepID: q.path.Top(), StepPath: q.path, Tool: q.tool.Name,
			Message: fmt.Sprintf("step %s: the run ended while %s was called", q.path, q.tool.Name),
		}}
	}
}

// notSent takes leaves back: the call was stopped before it could leave.
func (s *sent) notSent(q request) {
	if !q.inDoubt {
		delete(s.keyed, q.path)
	}
	delete(s.unsettled, q.path)
}

// cameBack keeps what is known now of a call.
func (s *sent) cameBack(q request, failure *Error) {
	if failure == nil || failure.Executed() || !q.inDoubt && !failure.MayHaveHappened() {
		delete(s.keyed, q.path)
	}
	u, ok := s.unsettled[q.path]
	switch {
	case !ok:
	case failure != nil && failure.Category == codes.CategoryOutcomeUnknown:
		u.Error = *failure
		s.unsettled[q.path] = u
	case failure != nil && failure.Category == codes.CategoryCancelled: // under way
	default:
		delete(s.unsettled, q.path)
	}
}

// settled forgets a call of which a person has said what to make of it.
func (s *sent) settled(path StepPath) {
	delete(s.keyed, path)
	delete(s.unsettled, path)
}

// keyPath is the path for which the key of a call is made: that of the call,
// and of a step that was undone and is executed again another one.
func (r *run) keyPath(step, call StepPath) StepPath {
	if r.in.Repair == nil || r.in.Repair.Undone[step] == 0 {
		return call
	}
	return call.Redone(r.in.Repair.Undone[step])
}
