package workflows

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// An Answer is a person's answer to an elicitation, sent as AnswerSignal.
type Answer = record.Answer

// A Channel is the way by which an answer was given.
type Channel = record.Channel

// The channels.
const (
	ViaForm    Channel = "form"    // an MCP client asked its user
	ViaPage    Channel = "page"    // the approvals page
	ViaCommand Channel = "command" // the command line
	ViaRequest Channel = "request" // a request of the caller brought what was wanted
	ViaSignal  Channel = "signal"  // a signal of another program, without proof
)

// A Decision is what the answer to an elicitation means, where that is more than
// its action: Happened, NotHappened and Fail of a Reconciliation, and these.
type Decision string

// Decisions about compensations and credentials.
const (
	DecidedUndone   Decision = "undone"    // by hand
	DecidedAgain    Decision = "try_again" // to undo it
	DecidedLeft     Decision = "left"      // as it is, not undone
	DecidedGiven    Decision = "given"     // the credential
	DecidedWithheld Decision = "withheld"  // the credential
)

// An ElicitationState is the state of an elicitation.
type ElicitationState string

// The states of an elicitation.
const (
	ElicitationOpen     ElicitationState = "open"
	ElicitationAnswered ElicitationState = "answered"
	ElicitationExpired  ElicitationState = "expired"
	ElicitationDropped  ElicitationState = "dropped" // the run ended or continued without it
)

// An ElicitationKind is what an elicitation is for, and so who answers it.
type ElicitationKind string

const (
	// ForCaller is for the caller, or those who may answer in the caller's place.
	ForCaller ElicitationKind = ""
	// Compensation is for operators: a step could not be undone. Accept reports that it
	// was undone by hand, decline that it shall be tried again, cancel that it shall
	// stay.
	Compensation ElicitationKind = "compensation"
	// Reconciliation is for operators: the outcome of a call is unknown.
	// The content of an accepted answer is a Reconciled; any other lets the step
	// fail.
	Reconciliation ElicitationKind = "reconciliation"
	// Credentials is for those who can bring a credential without which a backend
	// cannot be called; Backend reports which. Accept reports that it has been brought,
	// decline and cancel that it will not be: the step fails.
	Credentials ElicitationKind = "credentials"
)

// An Elicitation is a request to a person, as in the run's memo.
type Elicitation struct {
	Kind      ElicitationKind  `json:"kind,omitempty"`
	ID        string           `json:"id"` // step path and occurrence, e.g. approval#1
	StepID    string           `json:"stepId"`
	StepPath  StepPath         `json:"stepPath"`
	Message   string           `json:"message"`
	Schema    json.RawMessage  `json:"schema,omitempty"` // kept while open
	Mode      definitions.Mode `json:"mode,omitempty"`   // definitions.URLMode, or empty
	Opened    time.Time        `json:"opened"`
	Expires   time.Time        `json:"expires,omitzero"`   // with its own time, or with what surrounds it where that ends earlier; zero = never
	Limit     time.Time        `json:"limit,omitzero"`     // of its own time, where what surrounds it ends earlier
	Digest    string           `json:"question,omitempty"` // digest of what is asked, to which answers are bound
	State     ElicitationState `json:"state"`
	Action    string           `json:"action,omitempty"` // of the answer that won
	By        string           `json:"by,omitempty"`
	Via       Channel          `json:"via,omitempty"`
	At        time.Time        `json:"at,omitzero"`       // when it was answered, or expired
	Content   json.RawMessage  `json:"content,omitempty"` // of the answer that won, up to maxShownContent bytes of it; of more, none
	Decision  Decision         `json:"decision,omitempty"`
	Unproven  bool             `json:"unproven,omitempty"` // the identity of the answerer is not proved
	AnswerID  string           `json:"answerId,omitempty"`
	Call      *ParkedCall      `json:"call,omitempty"`    // that it is about; kept while open
	Questions []Question       `json:"askings,omitempty"` // that did not lead to an answer; kept while open
	Backend   string           `json:"backend,omitempty"` // that wants a credential
	Run       string           `json:"run,omitempty"`     // called run that asks; "" = this one
	Round     string           `json:"round,omitempty"`   // names the executions that ask, from that of Run up to this one, where they were reset: what was asked before has had the same ID; "" = none was

	Approvers []string `json:"approvers,omitempty"` // who answers, of those who may: subjects, and groups as group:NAME; nil = all of them
	Unchecked bool     `json:"unchecked,omitempty"` // content need not fit the schema
}

// AnswerSchema is what content of an answer must fit, while the elicitation is
// open; nil = any object does.
func (e Elicitation) AnswerSchema() json.RawMessage {
	if e.Unchecked {
		return nil
	}
	return e.Schema
}

// NeedsSignIn reports whether it must be known who answers: a person on the approvals page,
// or one of those whom the elicitation names.
func (e Elicitation) NeedsSignIn() bool {
	return e.Mode == definitions.URLMode || len(e.Approvers) > 0
}

// State is what a run shows in its memo.
type State struct {
	Elicitations []Elicitation     `json:"elicitations,omitempty"` // in the order of opening
	Unchecked    []UncheckedSignal `json:"unchecked,omitempty"`    // signals that wait for a worker with their key
}

// ownEnd is when the time of an elicitation with a limit is over, regardless of limits
// around it.
func (e Elicitation) ownEnd() time.Time {
	if !e.Limit.IsZero() {
		return e.Limit
	}
	return e.Expires
}

// digest is the same for elicitations that ask the same, of the same people in the
// same way: an answer that a client has given counts for none of the approvals page,
// and one that need not fit the schema for none that must.
func (e Elicitation) digest() string {
	asked := append([]byte(e.Message+"\x00"), e.Schema...)
	for _, name := range e.Approvers {
		asked = append(append(asked, 0), name...)
	}
	if e.Mode != "" { // no name of an approver is empty
		asked = append(append(asked, 0, 0), e.Mode...)
	}
	if e.Unchecked {
		asked = append(asked, 0, 0)
	}
	return record.DigestOf(asked)
}
