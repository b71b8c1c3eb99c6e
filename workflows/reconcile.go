package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
)

// What a person says of a call of which nobody knows whether it was executed.
const (
	Happened    = "happened"     // it was executed; with its result, if that is known
	NotHappened = "not_happened" // it was not: it is called now
	Fail        = "fail"         // the step fails, as it would have without asking
)

// reconciliationSchema is the schema of a Reconciliation.
var reconciliationSchema = json.RawMessage(`{"properties":{` +
	`"outcome":{"oneOf":[` +
	`{"const":"happened","title":"It was executed"},` +
	`{"const":"not_happened","title":"It was not executed: call it now"},` +
	`{"const":"fail","title":"Let the step fail"}],"title":"What happened","type":"string"},` +
	`"result":{"description":"JSON object that stands for the output of the tool; empty = {}","title":"Its result, if it was executed","type":"string"}` +
	`},"required":["outcome"],"type":"object"}`)

// An Unsettled call was sent, and whether it was executed is not known.
type Unsettled struct {
	Call  ParkedCall `json:"call"`
	Error Error      `json:"error"` // why it is not known
	Times int        `json:"times"` // how often the call was left so, this time included
}

// A Reconciled is the content of an answer to a Reconciliation.
type Reconciled struct {
	Outcome string `json:"outcome"`          // Happened, NotHappened, Fail
	Result  string `json:"result,omitempty"` // JSON object, with Happened; "" = {}
}

// output is the output that the step has by what the person says.
func (d Reconciled) output() (json.RawMessage, error) {
	result, err := decodeObject(json.RawMessage(cmp.Or(d.Result, "{}")))
	if err != nil {
		return nil, fmt.Errorf("result must be a JSON object: %w", err)
	}
	output, err := definitions.EncodeValue(result)
	if err != nil {
		return nil, fmt.Errorf("result must be a JSON object: %w", err)
	}
	if size := PayloadSize(output); size > MaxResultSize {
		return nil, fmt.Errorf("result has %d bytes; the limit is %d", size, MaxResultSize)
	}
	return output, nil
}

// checkReconciled checks what the schema of a Reconciliation cannot say.
func checkReconciled(content json.RawMessage) error {
	var d Reconciled
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	if d.Outcome != Happened && d.Result != "" {
		return errors.New("a result belongs to the outcome happened")
	}
	_, err := d.output()
	return err
}

// reconcile finds out what became of a call. Again says that it was not
// executed and is to be made.
func (r *run) reconcile(ctx workflow.Context, q request, u *Unsettled) (result ToolResult, again bool, failure *Error) {
	failure = &u.Error
	if q.onUnknown != definitions.Ask {
		return ToolResult{}, false, failure
	}
	r.noteUnsettled(q, u)
	answer, refused := r.park(ctx, Elicitation{
		Kind: Reconciliation, Schema: reconciliationSchema, Call: &u.Call,
		Message: fmt.Sprintf("%s. Was it? Its key is %s.", failure.Message, u.Call.Key),
	}, q.path, u.Times)
	if refused != nil {
		return ToolResult{}, false, refused
	}
	var d Reconciled
	if answer.Action == Accept && json.Unmarshal(answer.Content, &d) != nil {
		d.Outcome = Fail // cannot happen: the answer was checked
	}
	switch d.Outcome {
	case Happened:
		result.Output, _ = d.output() // checked as well
		return result, false, nil
	case NotHappened:
		return ToolResult{}, true, nil
	}
	given := *failure
	if answer.AnsweredBy != "" {
		given.Message += "; given up by " + answer.AnsweredBy
	}
	return ToolResult{}, false, &given
}

// noteUnsettled keeps for the execution after this one that a call was sent, so
// that it asks as well and does not call.
func (r *run) noteUnsettled(q request, u *Unsettled) {
	r.note(q.path, JournalEntry{ArgumentsDigest: digestOf(q.args), Unsettled: u})
}

// unsettledBefore is a call that an execution before has left unsettled.
func (r *run) unsettledBefore(q request) *Unsettled {
	if e, ok := r.in.Journal[q.path]; ok && e.Unsettled != nil {
		u := *e.Unsettled
		return &u
	}
	return nil
}
