package record

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// A Log is what an execution records of what the run did, for the next one and for
// resumptions, beside what the executions before have recorded.
type Log struct {
	before    map[StepPath]Entry
	continues bool               // before is of the execution that this one continues; else a resumption has chosen it
	entries   map[StepPath]Entry // of this execution
	order     int                // of the last entry
	size      int                // bytes that the input of the next execution would have, without unreached
	unreached int                // bytes of what is in before and not in entries
}

// NewLog is the log of an execution that begins with what was recorded before, as that of
// the execution which it continues or as a resumption has chosen it. The rest of the input of
// an execution has a size in bytes.
func NewLog(before map[StepPath]Entry, continues bool, size int) *Log {
	l := &Log{before: before, continues: continues, entries: map[StepPath]Entry{}, size: size}
	//workflowcheck:ignore the largest of all, and a sum
	for path, e := range before {
		l.order = max(l.order, e.Order)
		l.unreached += e.Bytes(path)
	}
	return l
}

// Bytes are those that the input of the next execution would have.
func (l *Log) Bytes() int { return l.size + l.unreached }

// Behind reports whether earlier executions have recorded what this one has not reached.
func (l *Log) Behind() bool { return l.unreached > 0 }

// Grow notes that the input of the next execution will have so many bytes more besides
// entries, or less.
func (l *Log) Grow(bytes int) { l.size += bytes }

// Earlier is what the executions before have recorded at a path.
func (l *Log) Earlier(path StepPath) (Entry, bool) {
	e, ok := l.before[path]
	return e, ok
}

// Begun is what the execution before has recorded of a step that has begun there.
func (l *Log) Begun(path StepPath) (Entry, bool) {
	e, ok := l.Earlier(path)
	return e, ok && l.continues && !e.Exact
}

// Found is what an earlier execution has recorded of a kind at a path, if its result
// counts now: for the same digest, or for any if the run continues and the entry allows
// it.
func Found[K Kind](l *Log, path StepPath, digest string) (K, bool) {
	e := l.before[path]
	k, is := e.Kind.(K)
	return k, is && k.done() && (l.continues && !e.Exact || k.digest() == digest)
}

// At is the entry of this execution at a path; the zero one if there is none.
func (l *Log) At(path StepPath) Entry { return l.entries[path] }

// Reached reports whether this execution has an entry of its own at a path.
func (l *Log) Reached(path StepPath) bool {
	_, ok := l.entries[path]
	return ok
}

// Ahead are the entries that this execution has not reached, in the order of their
// paths.
func (l *Log) Ahead() iter.Seq2[StepPath, Entry] {
	return func(yield func(StepPath, Entry) bool) {
		for _, path := range slices.Sorted(maps.Keys(l.before)) {
			if !l.Reached(path) && !yield(path, l.before[path]) {
				return
			}
		}
	}
}

// Whole is what this execution has recorded, and what earlier ones have that it has not
// reached: items of a failed forEach, or steps that a resumption keeps and that wait
// for others.
func (l *Log) Whole() map[StepPath]Entry {
	whole := maps.Clone(l.entries)
	//workflowcheck:ignore a map again
	for path, e := range l.before {
		if !l.Reached(path) {
			whole[path] = e
		}
	}
	return whole
}

// Note records something at a path, in its place in the order of all: where the execution
// before had it, or else the last.
func (l *Log) Note(path StepPath, k Kind) Entry {
	e := Entry{Kind: k}
	was, begun := l.Begun(path)
	if call, ok := was.Kind.(Call); begun && !(ok && call.OutcomeUnknown != nil) {
		e.Order = was.Order
	} else {
		l.order++
		e.Order = l.order
	}
	if was, ok := l.Earlier(path); ok && !l.Reached(path) {
		l.unreached -= was.Bytes(path)
	}
	if now, ok := l.entries[path]; ok {
		l.size -= now.Bytes(path)
	}
	l.entries[path] = e
	l.size += e.Bytes(path)
	return e
}

// Amend changes what this execution has recorded at a path, in its place in the order.
func (l *Log) Amend(path StepPath, k Kind) Entry {
	e := l.entries[path]
	l.size -= e.Bytes(path)
	e.Kind = k
	l.size += e.Bytes(path)
	l.entries[path] = e
	return e
}

// MoveLast gives the entry at a path the last place in the order.
func (l *Log) MoveLast(path StepPath) {
	l.order++
	e := l.entries[path]
	e.Order = l.order
	l.entries[path] = e
}

// NoteSkipped records that the condition of a step was false.
func (l *Log) NoteSkipped(path StepPath) { l.Note(path, End{Skipped: true}) }

// NoteFailed records that a step has failed, beside what it has recorded, and the run that
// an execution before has called.
func (l *Log) NoteFailed(path StepPath, err *Error) {
	k := l.At(path).Kind
	if was, begun := l.Begun(path); begun && !l.Reached(path) {
		if child, ok := was.Kind.(Child); ok && child.ID != "" { // which a resumption looks at
			k = Child{ID: child.ID, Started: child.Started, Again: child.Again}
		}
	}
	l.Note(path, ended(k, err))
}

// NoteUndo records what undoes a call that a script has made.
func (l *Log) NoteUndo(path StepPath, undo *Undo) Entry {
	switch k := l.At(path).Kind.(type) {
	case Call:
		k.Undo = undo
		return l.Amend(path, k)
	case Child:
		k.Undo = undo
		return l.Amend(path, k)
	}
	return l.At(path)
}

// Until is when the time of a step is over that has begun now, or in an execution before;
// zero if it had completed there.
func (l *Log) Until(path StepPath, end time.Time) time.Time {
	span := Span{Until: end.UTC()}
	if was, begun := l.Begun(path); begun {
		if k, ok := was.Kind.(Span); ok {
			span = k
		}
	}
	l.Note(path, span)
	return span.Until
}

// NoteDone records that a step with others in it has completed, so that its time, which
// Until records, no longer counts.
func (l *Log) NoteDone(path StepPath) { l.Note(path, Span{Done: true}) }
