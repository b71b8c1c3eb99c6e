package record

// A Reason is why an execution begins with the record of another.
type Reason int

// The reasons.
const (
	// Continued: the run continues in a new execution, since its history is long. All
	// entries count, whether or not templates would give other values now.
	Continued Reason = iota
	// Resumed: the run has ended, and is resumed.
	Resumed
	// Reset: the same, for a run that Temporal has reset before. Histories then have calls
	// without a record, so the run searches them before it makes an unsafe call.
	Reset
	// Recalled: a called run is resumed with other arguments.
	Recalled
)

// Terms are those on which an entry is carried into another execution.
type Terms struct {
	Reason Reason

	// Of Resumed and Reset.
	Again     bool                     // it is executed again in any case of it
	MayDiffer bool                     // the definition, the arguments or the data of the step may have changed
	Continues bool                     // the step may fail without stopping the run
	Script    bool                     // the entry is of what a script has asked for
	Repeated  bool                     // the script has repeated it after that until it succeeded
	Proceeds  func(action string) bool // the step proceeds after such an answer; nil = after Accept alone
}

// Carry is the part of an entry that survives into another execution; false = nothing.
func (e Entry) Carry(t Terms) (Entry, bool) {
	switch t.Reason {
	case Continued:
		return e, true
	case Recalled:
		return e.recalled()
	}
	if t.Again {
		return Entry{}, false
	}
	if e.Failure() != nil {
		return e.failed(t)
	}
	return e.Kind.carry(e, t)
}

// Carry is the part of entries that survives, all on the same terms.
func Carry(entries map[StepPath]Entry, t Terms) map[StepPath]Entry {
	carried := map[StepPath]Entry{}
	//workflowcheck:ignore a map again
	for path, e := range entries {
		if e, ok := e.Carry(t); ok {
			carried[path] = e
		}
	}
	return carried
}

// failed: a failure of a step counts where the step may fail, and nothing has changed.
// A failure in a script is tried again, even if the script handled it.
func (e Entry) failed(t Terms) (Entry, bool) {
	if t.Script {
		return settled(e.exactly(t.MayDiffer)), e.StaysFailed(t)
	}
	return settled(e), t.Continues && !t.MayDiffer
}

// StaysFailed reports whether a failure in a script counts when the run is repeated:
// the script has repeated it until it succeeded, and would not get there again. A
// called run with another definition or other arguments is not covered.
func (e Entry) StaysFailed(t Terms) bool {
	child, _ := e.Kind.(Child)
	return t.Repeated && (child.ID == "" || !t.MayDiffer)
}

// recalled: what was made from the same arguments counts, and nothing else.
func (e Entry) recalled() (Entry, bool) {
	if child, ok := e.Kind.(Child); ok && child.ID != "" && !e.Done() {
		return e, true // it sees to its own
	}
	if call, ok := e.Kind.(Call); ok && call.OutcomeUnknown != nil {
		return e.exactly(true), true
	}
	return e.exactly(true), e.Done() && e.Digest() != ""
}

// exactly is the entry, which with exact counts for the same digest only.
func (e Entry) exactly(exact bool) Entry {
	e.Exact = e.Exact || exact
	return e
}

// settled is the entry of what is known to have ended.
func settled(e Entry) Entry {
	if call, ok := e.Kind.(Call); ok {
		call.OutcomeUnknown = nil
		e.Kind = call
	}
	return e
}

// A call with an unknown outcome is decided in another way (see internal/runs/history), or made again.
// After a reset, that one was not executed is kept: the run would find it in history.
func (k Call) carry(e Entry, t Terms) (Entry, bool) {
	if k.Output == nil && k.OutcomeUnknown != nil {
		return e, t.Reason == Reset && k.OutcomeUnknown.NotHappened
	}
	return settled(e.exactly(t.MayDiffer)), k.Output != nil
}

// What becomes of a run that has not completed is planned as for a run by itself (see
// internal/runs/history).
func (k Child) carry(e Entry, t Terms) (Entry, bool) {
	return e.exactly(t.MayDiffer), k.Output != nil
}

func (Given) carry(e Entry, t Terms) (Entry, bool) { return e.exactly(t.MayDiffer), true }
func (Wait) carry(e Entry, t Terms) (Entry, bool)  { return e.exactly(t.MayDiffer), true }
func (Value) carry(e Entry, t Terms) (Entry, bool) { return e.exactly(t.MayDiffer), true }

// An answer that let a step fail, or that a script did not want, is asked for again.
func (k Gate) carry(e Entry, t Terms) (Entry, bool) {
	proceeds := k.Answer.Action == Accept || t.Proceeds != nil && t.Proceeds(k.Answer.Action)
	return e.exactly(t.MayDiffer), proceeds
}

// What is in a step counts by itself, and a time of its own begins anew.
func (k Span) carry(e Entry, t Terms) (Entry, bool) { return e, k.Done && !t.MayDiffer }

func (k End) carry(e Entry, t Terms) (Entry, bool) { return e, k.Skipped && !t.MayDiffer }

// A parallel that has failed is tried again, and all of it.
func (k Branches) carry(e Entry, t Terms) (Entry, bool) { return e.exactly(t.MayDiffer), !k.Failed }

func (Deadline) carry(Entry, Terms) (Entry, bool) { return Entry{}, false }
func (Report) carry(Entry, Terms) (Entry, bool)   { return Entry{}, false }

func (Reference) carry(e Entry, t Terms) (Entry, bool) { return e, !t.MayDiffer }
