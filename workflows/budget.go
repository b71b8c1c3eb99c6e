package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// The budget is how much history an execution may still take, and what it has under way
// that a new execution would have to wait for.
type budget struct {
	*origin
	journal *record.Journal

	underWay int         // what was started and has not ended: calls, signals, starts of called runs
	reopened int         // bytes that history has of elicitations carried over, as they were opened again
	ending   func() bool // the run starts nothing more
}

// begins notes that something is under way until it ends.
func (b *budget) begins() { b.underWay++ }
func (b *budget) ends()   { b.underWay-- }

// idle reports whether nothing is under way.
func (b *budget) idle() bool { return b.underWay == 0 }

// reopens notes the bytes that an elicitation carried over takes in history.
func (b *budget) reopens(bytes int) { b.reopened += bytes }

// draining reports that the history is so long that the run should continue in a new
// execution, which must fit into one payload. A run that fails or skips the rest starts
// nothing more, so it ends in this one. Nor does one continue whose history is mostly
// the questions that were open when it began: the next would be as long at once, and so
// on for ever.
func (b *budget) draining(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return !b.ending() && info.GetContinueAsNewSuggested() &&
		info.GetCurrentHistorySize() >= 2*b.reopened && b.journal.Bytes() < b.maxJournal()
}

// waitWhileDraining holds a call back that the next execution will make. What
// is under way meanwhile may leave too little room for that one.
func (b *budget) waitWhileDraining(ctx workflow.Context) error {
	if !b.draining(ctx) {
		return nil
	}
	return workflow.Await(ctx, func() bool { return !b.draining(ctx) })
}
