package workflows

import (
	"encoding/json"

	"github.com/perdure/perdure/workflows/record"
)

// newJournal is what an execution records, beside what its input says of those before.
func newJournal(in RunInput) *record.Log {
	before := in.Journal
	in.Journal, in.Open = nil, nil
	return record.NewLog(before, in.Continued, in.bytes())
}

// calledBefore is the output of a call in an execution before, or what a person has given
// instead, if that counts for a digest of arguments.
func (r *run) calledBefore(path StepPath, digest string) (json.RawMessage, bool) {
	if given, ok := record.Found[record.Given](r.journal, path, digest); ok {
		return given.Output, true
	}
	call, ok := record.Found[record.Call](r.journal, path, digest)
	return call.Output, ok
}

func (r *run) noteCall(q request, digest string, output json.RawMessage) {
	r.journal.Note(q.path, record.Call{Digest: digest, Tool: q.tool.Name, Undoes: q.undoes, Output: output})
}

// childBefore is a run that a step has called and that has completed, or what a person has
// given instead, if that counts for a digest of arguments.
func (r *run) childBefore(path StepPath, digest string) (record.Child, bool) {
	if given, ok := record.Found[record.Given](r.journal, path, digest); ok {
		return record.Child{Output: given.Output, Effects: given.Effects}, true
	}
	return record.Found[record.Child](r.journal, path, digest)
}
