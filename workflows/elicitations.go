package workflows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// elicitations are all of a run and of the runs that it called, as in the memo.
type elicitations struct {
	*origin
	list []Elicitation // in the order of opening
}

// add adds one, and gives its place in the list: that of the one with the same ID, if a
// called run that was reset asks again.
func (es *elicitations) add(e Elicitation) int {
	if i := es.index(e.ID); i >= 0 {
		es.list[i] = e
		return i
	}
	es.list = append(es.list, e)
	return len(es.list) - 1
}

// all is a copy of the list.
func (es *elicitations) all() []Elicitation { return slices.Clone(es.list) }
func (es *elicitations) none() bool         { return len(es.list) == 0 }

// at is the one at a place in the list.
func (es *elicitations) at(i int) *Elicitation { return &es.list[i] }

// occurrence counts how often a step has asked, with this time.
func (es *elicitations) occurrence(path StepPath) int {
	last := 0
	if es.in.Resumption != nil {
		last = es.in.Resumption.Asked[path]
	}
	last = max(last, es.in.Asked[path])
	for _, e := range es.list {
		if e.StepPath == path {
			last = max(last, e.StepPath.Occurrence(e.ID))
		}
	}
	return last + 1
}

// askedBefore reports whether the previous execution left an elicitation at a path open.
func (es *elicitations) askedBefore(path StepPath) bool {
	for _, e := range es.in.Open {
		if e.StepPath == path {
			return true
		}
	}
	return false
}

// asked reports whether this execution has opened an elicitation.
func (es *elicitations) asked(id string) bool { return es.index(id) >= 0 }

// index is the place of an elicitation in the list; -1 = it is not there.
func (es *elicitations) index(id string) int {
	return slices.IndexFunc(es.list, func(e Elicitation) bool { return e.ID == id })
}

// waiting are those that are open.
func (es *elicitations) waiting() []Elicitation {
	var open []Elicitation
	for _, e := range es.list {
		if e.State == ElicitationOpen {
			open = append(open, e)
		}
	}
	return open
}

// closedBefore reports whether an elicitation of a called run was closed in an earlier
// execution, so that a repeated signal about it is ignored. One of a run that was reset may
// be another one.
func (es *elicitations) closedBefore(e Elicitation) bool {
	return es.in.Continued && e.Round == "" && e.StepPath.Occurrence(e.ID) <= es.in.Asked[e.StepPath] && !slices.ContainsFunc(es.in.Open, func(o Elicitation) bool { return o.ID == e.ID })
}

// takeBack drops elicitations of the previous execution that this one, which ends, has
// not opened again.
func (es *elicitations) takeBack() {
	for _, e := range es.in.Open {
		if es.asked(e.ID) {
			continue
		}
		e.State, e.Schema, e.Call, e.Questions = ElicitationDropped, nil, nil, nil
		es.list = append(es.list, e)
	}
}

// forgotten counts elicitations that no journal has: those dropped with their forEach, or
// closed because they were no longer needed.
func (es *elicitations) forgotten(journal map[StepPath]record.Entry) map[StepPath]int {
	asked := maps.Clone(es.in.Asked)
	for _, e := range es.list {
		if _, answered := journal[e.StepPath].Kind.(record.Gate); answered || e.State == ElicitationOpen {
			continue
		}
		if asked == nil {
			asked = map[StepPath]int{}
		}
		asked[e.StepPath] = max(asked[e.StepPath], e.StepPath.Occurrence(e.ID))
	}
	return asked
}

// size is how many bytes the memo has of them.
func (es *elicitations) size() (total int) {
	for _, e := range es.list {
		total += openBytes(e)
	}
	return total
}

// fit drops the questions of closed elicitations, the oldest first, until all fit into
// the memo, and returns their size.
func (es *elicitations) fit() (total int) {
	total = es.size()
	for i := range es.list {
		if e := &es.list[i]; total > maxState && e.State != ElicitationOpen {
			total -= record.PayloadSize(e.Message) + record.PayloadSize(e.Content)
			e.Message, e.Content = "", nil
		}
	}
	return total
}

// check refuses an elicitation that does not fit into the memo.
func (es *elicitations) check(e Elicitation) *Error {
	size, open := openBytes(e), 0
	for _, o := range es.waiting() {
		open += openBytes(o)
	}
	if size <= maxQuestion && size+open <= maxState {
		return nil
	}
	return &Error{Code: codes.ElicitationTooLarge, Category: codes.CategoryLimit, Message: fmt.Sprintf(
		"step %s: message and schema of the elicitation have %d bytes, those of other open ones %d; the limits are %d for one and %d for all: ask more briefly",
		e.StepPath, size, open, maxQuestion, maxState)}
}

// details are lines for the Web UI about those that are open.
func (es *elicitations) details() (lines []string) {
	for _, e := range es.waiting() {
		until := ""
		if !e.Expires.IsZero() {
			until = " until " + e.Expires.UTC().Format("2006-01-02 15:04 MST")
		}
		lines = append(lines, fmt.Sprintf("**%s waits for an answer**%s: %s", e.StepPath, until, oneLine(e.Message)))
	}
	return lines
}

// addTo adds to a journal how often steps have asked.
func (es *elicitations) addTo(j *RunRecord) {
	asked := func(path StepPath, times int) { j.Asked[path] = max(j.Asked[path], times) }
	//workflowcheck:ignore a map again
	for path, times := range es.in.Asked {
		asked(path, times)
	}
	//workflowcheck:ignore a map again
	for path, e := range j.Entries { // what an execution before this one has asked
		if gate, ok := e.Kind.(record.Gate); ok {
			asked(path, path.Occurrence(gate.Answer.ElicitationID))
		}
	}
	for _, e := range es.list {
		asked(e.StepPath, e.StepPath.Occurrence(e.ID))
	}
}

// next puts the open elicitations into the input of the next execution, and how often
// steps have asked.
func (es *elicitations) next(in *RunInput) {
	in.Open, in.Asked = es.waiting(), es.forgotten(in.Journal)
}

// openBytes is the size of an open elicitation in the input of the next execution.
func openBytes(e Elicitation) int {
	size := record.PayloadSize(e.Message) + record.PayloadSize(e.Schema) + record.PayloadSize(e.Content) + questionsBytes(e.Questions) + record.EntryBytes
	for _, name := range e.Approvers {
		size += record.PayloadSize(name) + record.EntryBytes/8
	}
	if e.Call != nil {
		size += record.PayloadSize(e.Call.Arguments) + record.EntryBytes
	}
	return size
}
