package workflows

import (
	"encoding/json"
	"iter"
	"maps"
	"time"

	"go.temporal.io/sdk/workflow"
)

// A record is what an execution keeps of what the run did, for the next one and for
// repairs, beside what the executions before have kept.
type record struct {
	before    map[StepPath]JournalEntry // by path
	continues bool                      // before is of the execution that this one continues; else a repair has chosen it
	entries   map[StepPath]JournalEntry // of this execution, by path
	order     int                       // of the last entry
	size      int                       // bytes that the input of the next execution would have, without unreached
	unreached int                       // bytes of what is in before and not in entries
}

func newRecord(in RunInput) *record {
	r := &record{before: in.Journal, continues: in.Continued, entries: map[StepPath]JournalEntry{}}
	//workflowcheck:ignore the largest of all, and a sum
	for path, e := range in.Journal {
		r.order = max(r.order, e.Order)
		r.unreached += e.bytes(path)
	}
	in.Journal, in.Open = nil, nil
	if input, err := json.Marshal(in); err == nil {
		r.size = len(input)
	}
	return r
}

// total is how many bytes the input of the next execution would have.
func (r *record) total() int { return r.size + r.unreached }

// result is that of a step of a step of an earlier execution, if it can stand
// for what would be executed now.
func (r *record) result(path StepPath, digest string) (json.RawMessage, bool) {
	e, ok := r.earlier(path)
	return e.Result, ok && e.Result != nil && (r.continues && !e.Exact || e.ArgumentsDigest == digest)
}

// begun is what the execution before has kept of a step that has begun there.
func (r *record) begun(path StepPath) (JournalEntry, bool) {
	e, ok := r.earlier(path)
	return e, ok && r.continues && !e.Exact
}

// keep keeps a result.
func (r *record) keep(path StepPath, digest string, result json.RawMessage) {
	r.note(path, JournalEntry{ArgumentsDigest: digest, Result: result})
}

// keepCall keeps the result of a call.
func (r *record) keepCall(q request, digest string, result json.RawMessage) {
	r.note(q.path, JournalEntry{ArgumentsDigest: digest, Result: result, Tool: q.tool.Name, Undoes: q.undoes})
}

// keepEnd keeps that a step was skipped or has failed. What a person
// answered tells that by itself.
func (r *record) keepEnd(path StepPath, out Outcome) {
	e, reached := r.entries[path]
	if was, ok := r.begun(path); ok && !reached {
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

// note keeps an entry, in its place in the order of all.
func (r *record) note(path StepPath, e JournalEntry) {
	if was, ok := r.begun(path); ok && was.Unsettled == nil {
		e.Order = was.Order
	} else {
		r.order++
		e.Order = r.order
	}
	if was, ok := r.earlier(path); ok && !r.reached(path) {
		r.unreached -= was.bytes(path)
	}
	r.entries[path] = e
	r.size += e.bytes(path)
}

// amend changes the entry of this execution at a path, in its place in the order.
func (r *record) amend(path StepPath, change func(*JournalEntry)) JournalEntry {
	e := r.entries[path]
	r.size -= e.bytes(path)
	change(&e)
	r.size += e.bytes(path)
	r.entries[path] = e
	return e
}

// moveLast gives the entry at a path the last place in the order.
func (r *record) moveLast(path StepPath) {
	r.order++
	r.amend(path, func(e *JournalEntry) { e.Order = r.order })
}

// grow notes that the input of the next execution will have so many bytes more
// besides entries, or less.
func (r *record) grow(bytes int) { r.size += bytes }

// earlier is what the executions before have kept at a path.
func (r *record) earlier(path StepPath) (JournalEntry, bool) {
	e, ok := r.before[path]
	return e, ok
}

// at is the entry of this execution at a path; the zero one if there is none.
func (r *record) at(path StepPath) JournalEntry { return r.entries[path] }

// ahead are the entries that this execution has not come to, in the order of their
// paths.
func (r *record) ahead() iter.Seq2[StepPath, JournalEntry] {
	return func(yield func(StepPath, JournalEntry) bool) {
		for _, path := range workflow.DeterministicKeys(r.before) {
			if !r.reached(path) && !yield(path, r.before[path]) {
				return
			}
		}
	}
}

// reached says whether this execution has an entry of its own at a path.
func (r *record) reached(path StepPath) bool {
	_, ok := r.entries[path]
	return ok
}

// bytes is what an entry takes in the input of an execution.
func (e JournalEntry) bytes(path StepPath) int {
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

// whole is what this execution has recorded, and what those before it
// have that it has not come to: items of a forEach that has failed, or steps
// that a repair has kept and that wait for others.
func (r *record) whole() map[StepPath]JournalEntry {
	whole := maps.Clone(r.entries)
	//workflowcheck:ignore a map again
	for path, e := range r.before {
		if !r.reached(path) {
			whole[path] = e
		}
	}
	return whole
}

// entryBytes is more than the names of the fields of an entry and of its error
// take.
const entryBytes = 512

// keepDone keeps that a forEach has completed, so that its time, which until
// keeps, no longer counts.
func (r *record) keepDone(path StepPath) {
	r.keep(path, "", json.RawMessage("{}"))
}

// until is when the time of a step is over that has begun now, or in an
// execution before; zero if it had completed there.
func (r *record) until(path StepPath, end time.Time) time.Time {
	var w waited
	if e, ok := r.begun(path); !ok || json.Unmarshal(e.Result, &w) != nil {
		w.Until = end.UTC()
	}
	if recorded, err := json.Marshal(w); err == nil {
		r.keep(path, "", recorded)
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
