package workflows

import (
	"github.com/perdure/perdure/workflows/record"
)

// An Asking is one time that an elicitation was shown and not answered. It changes
// nothing in the run; the next process that shows it, on any replica, sees it.
type Asking struct {
	// Question names it, as the asking request has named it; at most maxQuestionName
	// bytes. The same question counts once.
	Question string        `json:"question"`
	Outcome  AskingOutcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"` // why the answer was not taken; cut after maxReason bytes
}

// An AskingOutcome is what an Asking led to.
type AskingOutcome string

// The outcomes of askings.
const (
	Invalid   AskingOutcome = "invalid"   // an answer that does not fit
	Unable    AskingOutcome = "unable"    // the client could not ask its user
	Unwilling AskingOutcome = "unwilling" // the user does not want to open the page
	Sent      AskingOutcome = "sent"      // the user was sent to the page on which to answer
)

// Asked is a signal that reports an Asking to a run.
type Asked struct {
	ElicitationID string `json:"elicitationId"`
	Asking
}

// Limits of what is kept of askings.
const (
	MaxAskings      = 12  // of one elicitation; further ones are forgotten
	maxQuestionName = 100 // bytes
	maxReason       = 500 // bytes
)

// askingsBytes is what askings take in a payload.
func askingsBytes(askings []Asking) (size int) {
	for _, a := range askings {
		size += record.PayloadSize(a.Question) + record.PayloadSize(a.Reason) + record.EntryBytes
	}
	return size
}
