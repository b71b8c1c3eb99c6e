package runs_test

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// TestDecided shows that each decision is reported as its own kind, and a
// reconciliation never as an accepted question.
func TestDecided(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]runs.Elicitation{
		"":                         {State: workflows.ElicitationOpen},
		"nobody answered in time":  {State: workflows.ElicitationExpired, Action: "timeout"},
		"closed without an answer": {State: workflows.ElicitationDropped},
		`accepted by ada on the approvals page: {"n":1}`:        {Action: "accept", By: "ada", Via: runs.ViaPage, Content: json.RawMessage(`{"n":1}`)},
		"declined by somebody":                                  {Action: "decline"},
		"accepted by ada (unproven) by a signal without proof":  {Action: "accept", By: "ada (unproven)", Via: runs.ViaSignal, Content: json.RawMessage(`{}`)},
		"cancelled by ada in a form of an MCP client":           {Action: "cancel", By: "ada", Via: runs.ViaForm},
		"reconciled by ops at the command line: the step fails": {Kind: runs.Reconciliation, Action: "accept", By: "ops", Via: runs.ViaCommand, Decision: workflows.Fail},
		`reconciled by ops: the call was executed, with the result {"id":7}`: {Kind: runs.Reconciliation, Action: "accept", By: "ops", Decision: workflows.Happened,
			Content: json.RawMessage(`{"outcome":"happened","result":"{\"id\":7}"}`)},
		"decided by ops: it was undone by hand":                  {Kind: runs.Compensation, Action: "accept", By: "ops", Decision: workflows.DecidedUndone},
		"decided by ada with a request: the credential is there": {Kind: runs.Credentials, Action: "accept", By: "ada", Via: runs.ViaRequest, Decision: workflows.DecidedGiven},
	} {
		if e.State == "" {
			e.State = workflows.ElicitationAnswered
		}
		if got := runs.Decided(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
