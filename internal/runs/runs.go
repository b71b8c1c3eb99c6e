// Package runs is the only access to runs: it starts, follows, answers, lists and
// cancels them. It uses a Temporal client, which its callers need not know.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Errors that callers branch on.
var (
	ErrNotFound       = errors.New("run not found")
	ErrNotFinished    = errors.New("run has not finished")
	ErrNoSuchGate     = errors.New("elicitation not found")
	ErrUnavailable    = errors.New("cannot reach Temporal")
	ErrIndexAway      = errors.New("the index of runs is away, and Temporal is not")
	ErrNotPermitted   = errors.New("not permitted")
	ErrNoKey          = errors.New("no signing key of the installation")
	ErrMayHaveStarted = errors.New("it is not known whether the run was started")
	ErrUnchecked      = errors.New("the worker that took the answer up lacks its signing key")
	ErrUnread         = errors.New("how the run has ended cannot be read here for now")
	ErrUntaken        = errors.New("the answer was sent, but no worker has processed it yet")
	// ErrLost says that Temporal had the run while it was followed. It has ErrNotFound in its
	// chain.
	ErrLost = fmt.Errorf("%w, though Temporal had it a moment ago", ErrNotFound)

	ErrQuarantined    = errors.New("the run is quarantined, because it takes its worker down; it is not executed until an operator releases or ends it")
	ErrNotQuarantined = errors.New("the run is not quarantined")
)

// A RunID names a run: NAME/SUFFIX. It is the Temporal workflow ID.
type RunID = history.RunID

// What runs shares with the front ends, so that they need not know workflows.
type (
	Error            = workflows.Error
	Failure          = workflows.Failure
	Effects          = workflows.Effects
	EffectCall       = workflows.EffectCall
	Caller           = workflows.Caller
	Status           = workflows.Status
	Elicitation      = workflows.Elicitation
	ElicitationState = workflows.ElicitationState
	ElicitationKind  = workflows.ElicitationKind
	Reconciled       = workflows.Reconciled
	StepPath         = workflows.StepPath
	Parent           = workflows.Parent
	Channel          = workflows.Channel
	Meaning          = workflows.Decision
	Unchecked        = workflows.UncheckedSignal
	Question         = workflows.Question
	QuestionOutcome  = workflows.QuestionOutcome
	Attended         = workflows.Attached
	Attendance       = workflows.Attendance
	Outcome          = history.Outcome
	Quarantine       = history.Quarantined // why a run is not executed
)

// MaxQuestions is how many are kept of one elicitation.
const MaxQuestions = workflows.MaxQuestions

// What became of a question that was not answered.
const (
	Invalid   = workflows.Invalid
	Unable    = workflows.Unable
	Unwilling = workflows.Unwilling
	Sent      = workflows.Sent
)

// The relations of a request to a run.
const (
	Named    = workflows.Named
	Joined   = workflows.Joined
	Here     = workflows.Here
	Inquires = workflows.Inquires
	Leaving  = workflows.Leaving
	Answered = workflows.Answered
	Watching = workflows.Watching
)

// The statuses of runs.
const (
	Running     = workflows.Running
	Waiting     = workflows.Waiting
	Quarantined = workflows.Quarantined
	Completed   = workflows.Completed
	Failed      = workflows.Failed
	Cancelled   = workflows.Cancelled
	Terminated  = workflows.Terminated
	TimedOut    = workflows.TimedOut
)

// Kinds of elicitations. ForCaller is for the caller, a Compensation and a Reconciliation are
// for operators; Credentials wait for a credential that a request of the caller may bring.
const (
	ForCaller      = workflows.ForCaller
	Compensation   = workflows.Compensation
	Reconciliation = workflows.Reconciliation
	Credentials    = workflows.Credentials
)

// The channels by which answers are given.
const (
	ViaForm    = workflows.ViaForm
	ViaPage    = workflows.ViaPage
	ViaCommand = workflows.ViaCommand
	ViaRequest = workflows.ViaRequest
	ViaSignal  = workflows.ViaSignal
)

// The decisions in a Reconciled.
const (
	Happened    = workflows.Happened
	NotHappened = workflows.NotHappened
	Fail        = workflows.Fail
)

// ScriptLimits are those of scripts.
type ScriptLimits = workflows.ScriptLimits

// MaxScriptTime is how long a script may take that was sent.
const MaxScriptTime = workflows.MaxScriptTime

// A StartRequest asks for a run.
type StartRequest struct {
	// ID of the run, NAME/SUFFIX. "" = a new one. An ID that already exists
	// attaches to that run, running or finished.
	ID RunID
	// Request is the name of the request that waits for the run, by which List
	// finds it. Without a space, at most 255 bytes; "" = none.
	Request    string
	Definition *definitions.Definition
	Arguments  json.RawMessage // validated, defaults applied
	Caller     Caller
	Tools      map[string]definitions.Tool // by the name that steps use
	Ruled      bool                        // whether there are rules about who may call what

	// Lacks reports why no run can be started: only one that has the ID is attached to,
	// and without one this is the error. nil = nothing is lacking.
	Lacks error

	// Keep keeps what the calls of the run need of the request, before the run is started,
	// and gives the name of that; drop removes it, if another request has started the run.
	// An error is that of the start. nil = they need nothing.
	Keep func(ctx context.Context, id RunID) (as string, drop func(), err error)

	ScriptLimits *ScriptLimits // of each script of the run; nil = the defaults
	MaxDepth     int           // how deep composite tools may call each other; 0 = definitions.MaxWorkflowDepth
}

// A Started run.
type Started struct {
	ID       RunID
	Attached bool // the run existed already

	// Owner is the caller of the run, where the call joined one of another caller's; ""
	// = the run is the caller's own. Start leaves it empty.
	Owner string
}

// A Run is the state of a run.
type Run struct {
	ID           RunID         `json:"id"`
	Tool         string        `json:"tool"`
	Version      string        `json:"version,omitempty"`
	Status       Status        `json:"status"`
	Caller       string        `json:"caller"`
	Started      time.Time     `json:"started"` // its first execution, however often it has continued or was resumed
	Began        time.Time     `json:"-"`       // the execution of it that is listed
	Closed       *time.Time    `json:"closed,omitempty"`
	Cause        string        `json:"cause,omitempty"`      // why it was terminated, in the words of the operator; "" = it was not, or without a reason
	Error        *Error        `json:"error,omitempty"`      // with which it ended, where Filter.Errors asks for it
	Request      string        `json:"-"`                    // that waits for it, as StartRequest or Attach has named it
	Parent       *Parent       `json:"parent,omitempty"`     // the run whose step has called this one; nil = a caller started it
	Cancelling   bool          `json:"cancelling,omitempty"` // it was asked to cancel; not set in lists
	Elicitations []Elicitation `json:"elicitations,omitempty"`
	WaitingFor   string        `json:"waitingFor,omitempty"` // worker, key, payload, parent, backend, breaker, rate, concurrency, or what is asked of people: approval, compensation, reconciliation, credentials
	Unchecked    []Unchecked   `json:"unchecked,omitempty"`  // signals that wait for a worker with the key with which they were signed
	Unreadable   string        `json:"unreadable,omitempty"` // why Elicitations are missing, such as that a key is missing
	Events       int64         `json:"-"`                    // in the history of its execution; 0 = unknown, as in lists

	execution string // Temporal's ID, of the only execution of a run that no other calls; "" = there may be more
}

// Open are the elicitations that wait for an answer, oldest first.
func (r *Run) Open() []Elicitation {
	var open []Elicitation
	for _, e := range r.Elicitations {
		if e.State == workflows.ElicitationOpen {
			open = append(open, e)
		}
	}
	return open
}

// EndedEarly reports whether the run has ended without completing: it failed, timed
// out, was cancelled or was terminated.
func (r *Run) EndedEarly() bool {
	switch r.Status {
	case workflows.Failed, workflows.TimedOut, workflows.Cancelled, workflows.Terminated:
		return true
	}
	return false
}

// A Detail is a run with its timeline, as `perdure runs show` prints it.
type Detail struct {
	Run
	Arguments json.RawMessage `json:"arguments"`
	Digest    string          `json:"digest"`
	Forwarded string          `json:"-"`                // the name under which the headers and _meta of its call are kept; "" = it has none
	Script    string          `json:"script,omitempty"` // of a definition that is one
	// OnDisconnect is what its definition says; "" = nothing, or it is not readable.
	OnDisconnect definitions.OnDisconnect `json:"-"`
	Steps        []StepRecord             `json:"steps"`             // in the order of starting
	Said         []Said                   `json:"said,omitempty"`    // by scripts, in order
	Refused      []RefusedSignal          `json:"refused,omitempty"` // signals that were not believed, in order; the first of them
	Outcome      *Outcome                 `json:"outcome,omitempty"`
	Problem      string                   `json:"problem,omitempty"` // which worker could not execute the run, and why; "" = it does not wait for one that can

	Quarantine *Quarantine `json:"quarantine,omitempty"` // nil = the run is not quarantined

	// Unprocessed are answers that were sent, by their IDs, each with the ID of its
	// elicitation: no worker has processed them yet. nil = there are none.
	Unprocessed map[string]string `json:"unprocessed,omitempty"`
}

// AnswerUnderWay reports whether an answer to an elicitation was sent that no worker has
// processed yet.
func (d *Detail) AnswerUnderWay(elicitation string) bool {
	return slices.Contains(slices.Collect(maps.Values(d.Unprocessed)), elicitation)
}

// A RefusedSignal is one that the run did not believe.
type RefusedSignal struct {
	At     time.Time `json:"at"`
	Signal string    `json:"signal"` // its name
	Reason string    `json:"reason"`

	// Of an answer, as claimed; not proved.
	ElicitationID string `json:"elicitationId,omitempty"`
	Action        string `json:"action,omitempty"`
	By            string `json:"by,omitempty"`
}

// Said is a message of a script: a line of its log, or its progress.
type Said struct {
	At       time.Time          `json:"at"`
	StepPath workflows.StepPath `json:"stepPath"` // names the line of the script
	Message  string             `json:"message,omitempty"`
	Done     float64            `json:"done,omitempty"`
	Total    float64            `json:"total,omitempty"`
}

// String is the message as a line: "copying (3 of 7)".
func (s Said) String() string {
	if s.Done == 0 && s.Total == 0 {
		return s.Message
	}
	count := strconv.FormatFloat(s.Done, 'f', -1, 64)
	if s.Total > 0 {
		count += " of " + strconv.FormatFloat(s.Total, 'f', -1, 64)
	}
	if s.Message == "" {
		return count
	}
	return fmt.Sprintf("%s (%s)", s.Message, count)
}

// A StepRecord is one execution of a step, as history has it.
type StepRecord struct {
	Path      workflows.StepPath `json:"path"`
	What      string             `json:"what"`   // the tool, what is asked, or until when it waits
	Status    string             `json:"status"` // running, completed, failed, cancelled, terminated, timed_out, needs_credentials, held
	Attempts  int                `json:"attempts,omitempty"`
	Started   time.Time          `json:"started"`
	Ended     *time.Time         `json:"ended,omitempty"`
	Arguments json.RawMessage    `json:"arguments,omitempty"`
	Output    json.RawMessage    `json:"output,omitempty"`
	Error     string             `json:"error,omitempty"`
	Next      *time.Time         `json:"next,omitempty"`    // of a call that waits to be repeated: when, and Error reports why
	Decided   string             `json:"decided,omitempty"` // of a question: what became of it, in words
	Run       RunID              `json:"run,omitempty"`     // that the step has called
	Version   string             `json:"version,omitempty"` // of what that run executes; "" = it has none
}

// An EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	EventStep     EventKind = "step"   // a step started or ended
	EventSaid     EventKind = "said"   // a script reports: a line of its log, or its progress
	EventOpened   EventKind = "opened" // an elicitation opened
	EventQuestion EventKind = "asked"  // an elicitation was shown and not answered; it is still open
	EventClosed   EventKind = "closed" // an elicitation was answered, expired or dropped

	EventAttended    EventKind = "attended"    // the attendance of a request
	EventQuarantined EventKind = "quarantined" // the run is not executed until an operator releases or ends it
	EventReleased    EventKind = "released"    // it is executed again
	EventDone        EventKind = "done"        // the run ended; always the last
)

// An Event is one thing that a run reports to those who follow it.
type Event struct {
	// Seq orders the events of a run and is stable: the same event has the
	// same Seq for every follower, on every replica, after every restart.
	Seq  int64
	Kind EventKind

	StepPath     workflows.StepPath // EventStep, EventSaid
	StepID, What string             // EventStep, EventSaid; What also EventQuarantined: why, and EventReleased: by whom
	StepEnded    bool               // EventStep: false = it started
	StepStatus   string             // EventStep that ended: completed, failed, skipped, cancelled, timed_out, needs_credentials, held
	StepError    string             // EventStep that ended: why it failed, or was skipped; "" = neither
	StepStarted  time.Time          // EventStep: when, by the clock of Temporal
	Activity     string             // EventStep that started: ID of the activity that makes the call, as StepProgress has it; "" = none

	// Done and Total are how far the run is: steps done, of steps known. With a script
	// they are the progress that it reports, and ByScript is set: Total is 0 if it
	// reports none.
	Done, Total float64
	ByScript    bool

	Elicitation *Elicitation  // EventOpened, EventQuestion, EventClosed
	Beside      []Elicitation // EventOpened: all that the run has published with it
	Question    *Question     // EventQuestion
	Outcome     *Outcome      // EventDone
	Attended    *Attended     // EventAttended
	At          time.Time     // when, by the clock of Temporal
}

// An Answer to an elicitation.
type Answer struct {
	ElicitationID string
	// Question is the digest of what the answering person was asked, as Elicitation has it;
	// "" = what is asked now. An answer to anything else is none: where a run was reset,
	// an elicitation may ask something else than before.
	Question string
	Action   string          // accept, decline, cancel
	Content  json.RawMessage // for accept
	By       string          // who answers
	Via      Channel         // by which the answer comes
	// Run is the run as it was read a moment ago, or as one who follows it knows it, with
	// its elicitation; nil = it is read. Who has read it may follow it afterwards without
	// another look.
	Run *Run
	// Allowed reports whether an elicitation is for the one who answers; nil = it is.
	Allowed func(Elicitation) bool
	// QuestionName is that of the question that is answered: the
	// AnswerID of an elicitation that this answer closes begins with it. "" = none.
	QuestionName string
}

// InvalidAnswerError reports why an answer was not taken. The elicitation is still
// open.
type InvalidAnswerError struct{ Reason string }

func (e *InvalidAnswerError) Error() string { return e.Reason }

// A Decision is what became of an elicitation after an answer was sent.
type Decision struct {
	Won    bool    // this answer was the first valid one
	Action string  // of the answer that won
	By     string  // who gave the answer that won
	Via    Channel // by which the answer that won was given
	Means  Meaning // of the answer that won, where that is more than its action
	Run    *Run    // Answer.Run as it was then; nil = that was nil, or it was not read again
}

// StepSkipped is the status of a step that was not executed. It has neither started nor
// ended.
const StepSkipped = "skipped"

// StepHeld is the status of a call that was not made, since the limits of its
// backend held it back. The same call follows.
const StepHeld = history.StepHeld
