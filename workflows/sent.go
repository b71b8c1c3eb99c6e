package workflows

import (
	"fmt"
	"maps"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Sent are the calls of a run that were sent and have no known outcome, by the path of
// their step.
type sent struct {
	keyed   map[StepPath]string      // names of keyed tools
	unknown map[StepPath]UnknownCall // of unsafe tools
}

func newSent(earlierUnknown map[StepPath]string) *sent {
	s := &sent{keyed: map[StepPath]string{}, unknown: map[StepPath]UnknownCall{}}
	maps.Copy(s.keyed, earlierUnknown) //workflowcheck:ignore a map again
	return s
}

// at is the tool whose call at a path has no known outcome; false = there is none.
func (s *sent) at(path StepPath) (tool string, left bool) {
	if u, left := s.unknown[path]; left {
		return u.Call.Tool, true
	}
	tool, left = s.keyed[path]
	return tool, left
}

// repeats reports whether a keyed call at a path may have been executed.
func (s *sent) repeats(path StepPath) bool {
	_, left := s.keyed[path]
	return left
}

// paths are those of all these calls.
func (s *sent) paths() []StepPath {
	return append(workflow.DeterministicKeys(s.unknown), workflow.DeterministicKeys(s.keyed)...)
}

// next puts them into the input of the next execution: also calls that were stopped with
// their forEach.
func (s *sent) next(in *RunInput) {
	//workflowcheck:ignore a map again
	for path, u := range s.unknown {
		if _, known := in.Journal[path]; !known {
			in.Journal[path] = record.Entry{Kind: record.Call{OutcomeUnknown: &u}}
		}
	}
	in.EarlierUnknown = s.keyed
}

// addTo adds them to a journal.
func (s *sent) addTo(j *RunRecord) {
	j.OutcomeUnknown, j.Input.EarlierUnknown = s.unknown, s.keyed
}

// leaves keeps that a call is on its way after which nothing may be known.
func (s *sent) leaves(q request, call ParkedCall) {
	if q.tool.Effect == definitions.Keyed {
		s.keyed[q.path] = q.tool.Name
	}
	if !Repeatable(q.tool.Effect) {
		s.unknown[q.path] = UnknownCall{Call: call, Times: 1, Error: Error{
			Code: codes.UnderWay, Category: codes.CategoryOutcomeUnknown, StepID: q.path.Top(), StepPath: q.path, Tool: q.tool.Name,
			Message: fmt.Sprintf("step %s: the run ended while %s was called", q.path, q.tool.Name),
		}}
	}
}

// notSent takes leaves back: the call was stopped before it could leave.
func (s *sent) notSent(q request) {
	if !q.earlierUnknown {
		delete(s.keyed, q.path)
	}
	delete(s.unknown, q.path)
}

// cameBack keeps what is known now of a call.
func (s *sent) cameBack(q request, failure *Error) {
	if failure == nil || failure.Executed() || !q.earlierUnknown && !failure.MayHaveHappened() {
		delete(s.keyed, q.path)
	}
	u, ok := s.unknown[q.path]
	switch {
	case !ok:
	case failure != nil && failure.Category == codes.CategoryOutcomeUnknown:
		u.Error = *failure
		s.unknown[q.path] = u
	case failure != nil && failure.Category == codes.CategoryCancelled: // under way
	default:
		delete(s.unknown, q.path)
	}
}

// settled forgets a call whose outcome is known now, or given up.
func (s *sent) settled(path StepPath) {
	delete(s.keyed, path)
	delete(s.unknown, path)
}
