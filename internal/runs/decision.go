package runs

import (
	"cmp"
	"encoding/json"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/workflows"
)

// Decided is what became of an elicitation, as a sentence for people; "" of one
// that is open.
func Decided(e Elicitation) string {
	switch e.State {
	case workflows.ElicitationOpen:
		return ""
	case workflows.ElicitationExpired:
		return "nobody answered in time"
	case workflows.ElicitationDropped:
		return "closed without an answer"
	}
	text := deed(e) + " by " + cmp.Or(e.By, "somebody")
	if how := channels[e.Via]; how != "" {
		text += " " + how
	}
	if what := outcome(e); what != "" {
		text += ": " + what
	}
	return text
}

var channels = map[Channel]string{
	ViaForm:    "in a form of an MCP client",
	ViaPage:    "on the approvals page",
	ViaCommand: "at the command line",
	ViaRequest: "with a request",
	ViaSignal:  "by a signal without proof",
}

func deed(e Elicitation) string {
	switch e.Kind {
	case Reconciliation:
		return "reconciled"
	case Compensation, Credentials:
		return "decided"
	}
	switch e.Action {
	case workflows.Accept:
		return "accepted"
	case workflows.Decline:
		return "declined"
	case workflows.Cancel:
		return "cancelled"
	}
	return e.Action
}

// outcomes are what decisions mean that are more than an action.
var outcomes = map[Meaning]string{
	workflows.Happened:        "the call was executed",
	workflows.NotHappened:     "the call was not executed, and is made now",
	workflows.Fail:            "the step fails",
	workflows.DecidedUndone:   "it was undone by hand",
	workflows.DecidedAgain:    "the compensation is tried again",
	workflows.DecidedLeft:     "it stays as it is",
	workflows.DecidedGiven:    "the credential is there",
	workflows.DecidedWithheld: "there will be no credential, and the step fails",
}

func outcome(e Elicitation) string {
	if e.Decision == "" {
		if content := view.JSONLine(e.Content); content != "{}" {
			return content
		}
		return ""
	}
	text := cmp.Or(outcomes[e.Decision], string(e.Decision))
	var d Reconciled
	if e.Kind == Reconciliation && json.Unmarshal(e.Content, &d) == nil && d.Result != "" {
		text += ", with the result " + view.Text(d.Result)
	}
	return text
}
