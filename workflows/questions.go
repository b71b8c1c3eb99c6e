package workflows

import (
	"github.com/perdure/perdure/workflows/record"
)

// A Question is one request to one client about an elicitation that did not answer it. It changes
// nothing in the run; the next process that shows it, on any replica, sees it.
type Question struct {
	// Name is that of the request that asked; at most maxQuestionName
	// bytes. A question of the same name counts once.
	Name    string          `json:"question"`
	Outcome QuestionOutcome `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // why the answer was not taken; cut after maxReason bytes
}

// A QuestionOutcome is what a Question led to.
type QuestionOutcome string

// The outcomes of questions.
const (
	Invalid   QuestionOutcome = "invalid"   // an answer that does not fit
	Unable    QuestionOutcome = "unable"    // the client could not ask its user
	Unwilling QuestionOutcome = "unwilling" // the user does not want to open the page
	Sent      QuestionOutcome = "sent"      // the user was sent to the page on which to answer
)

// A QuestionReport is a signal that reports a Question to a run.
type QuestionReport struct {
	ElicitationID string `json:"elicitationId"`
	Question
}

// Limits of what is kept of questions.
const (
	MaxQuestions    = 12  // of one elicitation; further ones are forgotten
	maxQuestionName = 100 // bytes
	maxReason       = 500 // bytes
)

// questionsBytes is what questions take in a payload.
func questionsBytes(questions []Question) (size int) {
	for _, q := range questions {
		size += record.PayloadSize(q.Name) + record.PayloadSize(q.Reason) + record.EntryBytes
	}
	return size
}
