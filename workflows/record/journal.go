package record

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// A Journal is what an execution records of what the run did, for the next one and for
// resumptions, beside what the executions before have recorded.
type Journal struct {
	before    map[StepPath]Entry
	continues bool               // before is of the execution that this one continues; else a resumption has chosen it
	entries   map[StepPath]Entry // of this execution
	order     int                // of the last entry
	size      int                // bytes that the input of the next execution would have, without unreached
	unreached int                // bytes of what is in before and not in entries
}

// NewJournal is the journal of an execution that begins with what was recorded before, as that of
// the execution which it continues or as a resumption has chosen it. The rest of the input of
// an execution has a size in bytes.
func NewJournal(before map[StepPath]Entry, continues bool, size int) *Journal {
	j := &Journal{before: before, continues: continues, entries: map[StepPath]Entry{}, size: size}
	//workflowcheck:ignore the largest of all, and a sum
	for path, e := range before {
		j.order = max(j.order, e.Order)
		j.unreached += e.Bytes(path)
	}
	return j
}

// Bytes are those that the input of the next execution would have.
func (j *Journal) Bytes() int { return j.size + j.unreached }

// Behind reports whether earlier executions have recorded what this one has not reached.
func (j *Journal) Behind() bool { return j.unreached > 0 }

// Grow notes that the input of the next execution will have so many bytes more besides
// entries, or less.
func (j *Journal) Grow(bytes int) { j.size += bytes }

// Earlier is what the executions before have recorded at a path.
func (j *Journal) Earlier(path StepPath) (Entry, bool) {
	e, ok := j.before[path]
	return e, ok
}

// Begun is what the execution before has recorded of a step that has begun there.
func (j *Journal) Begun(path StepPath) (Entry, bool) {
	e, ok := j.Earlier(path)
	return e, ok && j.continues && !e.Exact
}

// Found is what an earlier execution has recorded of a kind at a path, if its result
// counts now: for the same digest, or for any if the run continues and the entry allows
// it.
func Found[K Kind](j *Journal, path StepPath, digest string) (K, bool) {
	e := j.before[path]
	k, is := e.Kind.(K)
	return k, is && k.done() && (j.continues && !e.Exact || k.digest() == digest)
}

// At is the entry of this execution at a path; the zero one if there is none.
func (j *Journal) At(path StepPath) Entry { return j.entries[path] }

// Reached reports whether this execution has an entry of its own at a path.
func (j *Journal) Reached(path StepPath) bool {
	_, ok := j.entries[path]
	return ok
}

// Ahead are the entries that this execution has not reached, in the order of their
// paths.
func (j *Journal) Ahead() iter.Seq2[StepPath, Entry] {
	return func(yield func(StepPath, Entry) bool) {
		for _, path := range slices.Sorted(maps.Keys(j.before)) {
			if !j.Reached(path) && !yield(path, j.before[path]) {
				return
			}
		}
	}
}

// Whole is what this execution has recorded, and what earlier ones have that it has not
// reached: items of a failed forEach, or steps that a resumption keeps and that wait
// for others.
func (j *Journal) Whole() map[StepPath]Entry {
	whole := maps.Clone(j.entries)
	//workflowcheck:ignore a map again
	for path, e := range j.before {
		if !j.Reached(path) {
			whole[path] = e
		}
	}
	return whole
}

// Note records something at a path, in its place in the order of all: where the execution
// before had it, or else the last.
func (j *Journal) Note(path StepPath, k Kind) Entry {
	e := Entry{Kind: k}
	was, begun := j.Begun(path)
	if call, ok := was.Kind.(Call); begun && !(ok && call.OutcomeUnknown != nil) {
		e.Order = was.Order
	} else {
		j.order++
		e.Order = j.order
	}
	if was, ok := j.Earlier(path); ok && !j.Reached(path) {
		j.unreached -= was.Bytes(path)
	}
	if now, ok := j.entries[path]; ok {
		j.size -= now.Bytes(path)
	}
	j.entries[path] = e
	j.size += e.Bytes(path)
	return e
}

// Amend changes what this execution has recorded at a path, in its place in the order.
func (j *Journal) Amend(path StepPath, k Kind) Entry {
	e := j.entries[path]
	j.size -= e.Bytes(path)
	e.Kind = k
	j.size += e.Bytes(path)
	j.entries[path] = e
	return e
}

// MoveLast gives the entry at a path the last place in the order.
func (j *Journal) MoveLast(path StepPath) {
	j.order++
	e := j.entries[path]
	e.Order = j.order
	j.entries[path] = e
}

// NoteSkipped records that the condition of a step was false.
func (j *Journal) NoteSkipped(path StepPath) { j.Note(path, End{Skipped: true}) }

// NoteFailed records that a step has failed, beside what it has recorded, and the run that
// an execution before has called.
func (j *Journal) NoteFailed(path StepPath, err *Error) {
	k := j.At(path).Kind
	if was, begun := j.Begun(path); begun && !j.Reached(path) {
		if child, ok := was.Kind.(Child); ok && child.ID != "" { // which a resumption looks at
			k = Child{ID: child.ID, Started: child.Started, Again: child.Again}
		}
	}
	j.Note(path, ended(k, err))
}

// NoteUndo records what undoes a call that a script has made.
func (j *Journal) NoteUndo(path StepPath, undo *Undo) Entry {
	switch k := j.At(path).Kind.(type) {
	case Call:
		k.Undo = undo
		return j.Amend(path, k)
	case Child:
		k.Undo = undo
		return j.Amend(path, k)
	}
	return j.At(path)
}

// Until is when the time of a step is over that has begun now, or in an execution before;
// zero if it had completed there.
func (j *Journal) Until(path StepPath, end time.Time) time.Time {
	span := Span{Until: end.UTC()}
	if was, begun := j.Begun(path); begun {
		if k, ok := was.Kind.(Span); ok {
			span = k
		}
	}
	j.Note(path, span)
	return span.Until
}

// NoteDone records that a step with others in it has completed, so that its time, which
// Until records, no longer counts.
func (j *Journal) NoteDone(path StepPath) { j.Note(path, Span{Done: true}) }
