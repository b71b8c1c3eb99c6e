package runs

import (
	"cmp"
	"encoding/json"
	"strings"

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
		return "the run ended or went on without an answer"
	}
	text := decision(e) + ", by " + cmp.Or(e.By, "nobody known")
	if how := channels[e.Via]; how != "" {
		text += ", " + how
	}
	return text
}

var channels = map[Channel]string{
	ViaForm:    "in a form of an MCP client",
	ViaPage:    "on the approvals page",
	ViaCommand: "at the command line",
	ViaRequest: "with a request of the caller",
	ViaSignal:  "by a signal without proof",
}

var decisions = map[Meaning]string{
	workflows.Happened:        "reconciled: the call was executed",
	workflows.NotHappened:     "reconciled: the call was not executed, and is made now",
	workflows.Fail:            "not reconciled: the step fails",
	workflows.DecidedUndone:   "undone by hand",
	workflows.DecidedAgain:    "not undone: it is tried again",
	workflows.DecidedLeft:     "left as it is, not undone",
	workflows.DecidedGiven:    "the credential is there",
	workflows.DecidedWithheld: "the credential is withheld: the step fails",
}

func decision(e Elicitation) string {
	text, ok := decisions[e.Decision]
	if !ok {
		text = e.Action
	}
	if e.Kind == Reconciliation {
		var d Reconciled
		if json.Unmarshal(e.Content, &d) == nil && d.Result != "" {
			text += ", with the result " + d.Result
		}
		return text
	}
	if content := strings.TrimSpace(string(e.Content)); content != "" && content != "{}" {
		text += " " + content
	}
	return text
}
