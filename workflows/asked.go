package workflows

import (
	"encoding/json"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// An Asking is one time that an elicitation was put to somebody and did not
// lead to an answer. It changes nothing in the run; whoever asks next, wherever
// that is, knows of it.
type Asking struct {
	// Question names it, as whoever asked has named it; at most maxQuestionName
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

// Asked is a signal that tells a run of an Asking.
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

// hearAsked keeps what the run is told of askings in its state, for as long as the
// elicitation is open.
func (r *run) hearAsked(_ workflow.Context, s Signal, _ bool) hearing {
	var a Asked
	unreadable := json.Unmarshal(s.Body, &a) != nil
	return hearing{about: Ruling{ElicitationID: a.ElicitationID}, take: func(ctx workflow.Context, _ Ruling) {
		if !unreadable {
			r.takeAsking(ctx, a)
		}
	}}
}

func (r *run) takeAsking(ctx workflow.Context, a Asked) {
	g, open := r.gates.open[a.ElicitationID]
	if !open || a.Question == "" || len(a.Question) > maxQuestionName {
		return
	}
	e := &r.gates.state.Elicitations[g.index]
	known := slices.ContainsFunc(e.Askings, func(k Asking) bool { return k.Question == a.Question })
	if known || len(e.Askings) >= MaxAskings {
		return
	}
	if len(a.Reason) > maxReason {
		a.Reason = strings.ToValidUTF8(a.Reason[:maxReason], "")
	}
	before := openBytes(*e)
	e.Askings = append(e.Askings, a.Asking)
	r.journal.Grow(openBytes(*e) - before)
	r.publishState(ctx)
}

// askingsBytes is what askings take in a payload.
func askingsBytes(askings []Asking) (size int) {
	for _, a := range askings {
		size += record.PayloadSize(a.Question) + record.PayloadSize(a.Reason) + record.EntryBytes
	}
	return size
}

// round names the execution, if the run was reset.
func (r *run) round(ctx workflow.Context) string {
	if !r.in.WasReset {
		return ""
	}
	return clip(workflow.GetInfo(ctx).WorkflowExecution.RunID, 8)
}
