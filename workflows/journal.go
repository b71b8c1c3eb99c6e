package workflows

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/perdure/perdure/definitions"
)

// expectJournal prepares for the entries to come.
func (r *run) expectJournal() {
	for _, e := range r.in.Open {
		r.early[e.ID] = nil
	}
	//workflowcheck:ignore the largest of all, and a sum
	for path, e := range r.in.Journal {
		r.order = max(r.order, e.Order)
		r.unreached += e.bytes(path)
	}
	next := r.in
	next.Journal, next.Open = nil, nil
	if input, err := json.Marshal(next); err == nil {
		r.nextBytes = len(input)
	}
}

// recorded is the result of a step of an earlier execution, if it can stand
// for what would be executed now.
func (r *run) recorded(path, digest string) (json.RawMessage, bool) {
	e, ok := r.in.Journal[path]
	return e.Result, ok && e.Result != nil && (r.in.Continued && !e.Exact || e.ArgumentsDigest == digest)
}

// continued is what the execution before has recorded of a step; the step has
// begun there.
func (r *run) continued(path string) (JournalEntry, bool) {
	e, ok := r.in.Journal[path]
	return e, ok && r.in.Continued && !e.Exact
}

// asked says that the execution before has asked an elicitation at a path, to
// which there was no answer yet.
func (r *run) asked(path string) bool {
	for _, e := range r.in.Open {
		if e.StepPath == path {
			return true
		}
	}
	return false
}

// record keeps a result for the case that the run continues as new.
func (r *run) record(path, digest string, result json.RawMessage) {
	r.note(path, JournalEntry{ArgumentsDigest: digest, Result: result})
}

// recordCall does so for the result of a call.
func (r *run) recordCall(q request, digest string, result json.RawMessage) {
	r.note(q.path, JournalEntry{ArgumentsDigest: digest, Result: result, Tool: q.tool.Name, Undoes: q.undoes})
}

// recordEnd keeps that a step was skipped or has failed. What a person
// answered tells that by itself.
func (r *run) recordEnd(path string, out outcome) {
	e, reached := r.journal[path]
	if was, ok := r.continued(path); ok && !reached {
		e.Child = was.Child // which a repair looks at
	}
	switch {
	case out.answer != nil:
		return
	case out.status == stepSkipped:
		e.Skipped = true
	case out.status == stepFailed:
		e.Error = out.err
	default:
		return
	}
	r.note(path, e)
}

func (r *run) note(path string, e JournalEntry) {
	if was, ok := r.continued(path); ok && was.Unsettled == nil {
		e.Order = was.Order
	} else {
		r.order++
		e.Order = r.order
	}
	if was, ok := r.in.Journal[path]; ok && !r.reached(path) {
		r.unreached -= was.bytes(path)
	}
	r.journal[path] = e
	r.nextBytes += e.bytes(path)
}

// reached says whether this execution has an entry of its own at a path.
func (r *run) reached(path string) bool {
	_, ok := r.journal[path]
	return ok
}

// bytes is what an entry takes in the input of an execution.
func (e JournalEntry) bytes(path string) int {
	n := len(path) + len(e.ArgumentsDigest) + len(e.Result) + entryBytes
	if e.Error != nil {
		n += PayloadSize(e.Error.Message)
	}
	if e.Child != nil && e.Child.Again != nil {
		n += e.Child.Again.bytes()
	}
	if e.Undo != nil {
		n += PayloadSize(e.Undo.Args.JSON) + entryBytes
	}
	if e.Reported != nil {
		n += PayloadSize(e.Reported.Message) + entryBytes
	}
	if e.Fan != nil {
		n += len("1000,") * len(e.Fan.Branches)
	}
	if e.Effects != nil {
		n += (len(e.Effects.Unknown) + len(e.Effects.Completed)) * entryBytes / 4
	}
	if u := e.Unsettled; u != nil {
		n += PayloadSize(u.Error.Message) + PayloadSize(u.sent()) + entryBytes
	}
	return n
}

// wholeJournal is what this execution has recorded, and what those before it
// have that it has not come to: items of a forEach that has failed, or steps
// that a repair has kept and that wait for others.
func (r *run) wholeJournal() map[string]JournalEntry {
	whole := maps.Clone(r.journal)
	//workflowcheck:ignore a map again
	for path, e := range r.in.Journal {
		if !r.reached(path) {
			whole[path] = e
		}
	}
	return whole
}

// leaves keeps that a call is on its way after which nothing may be known.
func (r *run) leaves(q request, sent ParkedCall) {
	if q.tool.Effect == definitions.Keyed {
		r.away[q.path] = true
	}
	if !Repeatable(q.tool.Effect) {
		r.unsettled[q.path] = Unsettled{Call: sent, Times: 1, Error: Error{
			Code: "under_way", Category: CategoryOutcomeUnknown, StepID: topLevel(q.path), StepPath: q.path, Tool: q.tool.Name,
			Message: fmt.Sprintf("step %s: the run ended while %s was called", q.path, q.tool.Name),
		}}
	}
}

// notSent takes leaves back: the call was stopped before it could leave.
func (r *run) notSent(q request) {
	delete(r.away, q.path)
	delete(r.unsettled, q.path)
}

// cameBack keeps what is known now of a call.
func (r *run) cameBack(q request, failure *Error) {
	if failure == nil || !mayHaveHappened(failure) {
		delete(r.away, q.path)
	}
	u, ok := r.unsettled[q.path]
	switch {
	case !ok:
	case failure != nil && failure.Category == CategoryOutcomeUnknown:
		u.Error = *failure
		r.unsettled[q.path] = u
	case failure != nil && failure.Category == CategoryCancelled: // under way
	default:
		delete(r.unsettled, q.path)
	}
}

// mayHaveHappened says of the failure of a call that may be repeated with the same
// key whether it may have been executed.
func mayHaveHappened(e *Error) bool {
	switch e.Code {
	case "connection_lost", "worker_lost", "step_timeout", "internal", "cancelled":
		return true
	}
	return false
}

// keyPath is the path for which the key of a call is made: that of the call,
// and of a step that was undone and is executed again another one.
func (r *run) keyPath(step, call string) string {
	if r.in.Repair == nil || r.in.Repair.Undone[step] == 0 {
		return call
	}
	return fmt.Sprintf("%s~%d", call, r.in.Repair.Undone[step])
}

// entryBytes is more than the names of the fields of an entry and of its error
// take.
const entryBytes = 512

// recordDone keeps that a forEach has completed, so that its time, which until
// recorded, no longer counts.
func (r *run) recordDone(path string) {
	r.record(path, "", json.RawMessage("{}"))
}

// until is when the time of a step is over that has begun now, or in an
// execution before; zero if it had completed there.
func (r *run) until(path string, end time.Time) time.Time {
	var w waited
	if e, ok := r.continued(path); !ok || json.Unmarshal(e.Result, &w) != nil {
		w.Until = end.UTC()
	}
	if recorded, err := json.Marshal(w); err == nil {
		r.record(path, "", recorded)
	}
	return w.Until
}

// PayloadSize is how many bytes text, or JSON without white space, takes in a
// payload, where what means something in HTML is escaped.
func PayloadSize[T ~string | ~[]byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '<' || c == '>' || c == '&' || c < 0x20:
			n += 5
		case c == 0xE2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8: // U+2028, U+2029
			n += 3
		}
	}
	return n
}
