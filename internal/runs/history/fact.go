package history

import (
	"encoding/json"
	"time"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/workflows"
)

// A Fact is one thing that has happened to a run: one of the types below.
type Fact interface{ fact() }

// How an execution came about.
type How string

// The ways. An execution that was made by a reset has copied how its predecessor
// did, and begins with Reset.
const (
	Called    How = "called"
	Continued How = "continued" // as the history of the one before had grown long
	Resumed   How = "resumed"   // somebody resumed the run
)

// Began: an execution of the run began.
type Began struct {
	How    How
	Input  workflows.RunInput
	Unread error // why Input is empty; nil = it is not
}

// Reset: somebody has used Temporal's reset.
type Reset struct{ By, Reason string }

// CallStarted: a call was put on its way. Of a call that is executed inside the
// workflow task there is CallEnded only.
type CallStarted struct {
	Call  *Call
	input *commonpb.Payloads
	codec codec
}

// CallTried: a worker has taken the call up.
type CallTried struct {
	Call   *Call
	Number int     // of the attempt, from 1
	Before Failure // of the attempt before; the zero Failure = none
}

// CallEnded: a call has come to its end, or will be made again as Status says.
type CallEnded struct {
	Call    *Call
	Status  string  // one of the Step constants
	Failure Failure // the zero Failure = it did not fail
	Message string  // why it failed, for people; "" = it did not
	Unsent  bool    // no worker has taken it up
	Quick   bool    // it was executed inside the workflow task: there was no CallStarted

	before time.Time // when it ended, if the history reports that later; zero = at that moment
	result *commonpb.Payloads
	codec  codec
}

// At is when the call ended; moment is when the history reports it.
func (c CallEnded) At(moment time.Time) time.Time {
	if c.before.IsZero() {
		return moment
	}
	return c.before
}

// WaitStarted: a step, or a line of a script, waits for something other than an answer.
type WaitStarted struct{ Wait *Wait }

// WaitEnded: it waits no more.
type WaitEnded struct {
	Wait   *Wait
	Status string
}

// A Change is what happened to an elicitation.
type Change string

// The changes.
const (
	Opened Change = "opened"
	Asked  Change = "asked" // somebody was asked and did not answer; it is still open
	Closed Change = "closed"
)

// ElicitationChanged: an elicitation opened or closed, or somebody did not answer it.
type ElicitationChanged struct {
	Change      Change
	Elicitation workflows.Elicitation   // as it is now
	Question    workflows.Question      // of Asked
	Beside      []workflows.Elicitation // all that the run has published with it; nil = it has not published it
}

// AnswerSent: an answer has reached the run, which need not have taken it.
type AnswerSent struct{ Answer workflows.Answer }

// Attended: a request says how it stands to the run. The proof is not checked.
type Attended struct{ Signal workflows.Signal }

// Ruled: it is known what becomes of a signal, from the run or, of what an operator
// says about a quarantine, from its proof.
type Ruled struct {
	workflows.Ruling
	Path workflows.StepPath // of the elicitation that an answer names, where that is known
}

// Said: a script has said something of its work. Each place of it is said once.
type Said struct{ workflows.ScriptLine }

// CancelRequested: somebody has asked to cancel the run.
type CancelRequested struct{ Reason string }

// TaskFailed: a worker could not execute the run, as one that cannot read it, or of a
// build that does not understand it; it is given out again. Of failures in a row, history
// has the first.
type TaskFailed struct {
	Worker  string
	Failure Failure
}

// WorkerLost: a workflow task was lost with its worker, or took too long.
type WorkerLost struct{}

// Alone: a worker executes the run, and no other one meanwhile.
type Alone struct{ Worker string }

// Quarantined: the run is not executed until an operator releases or ends it.
type Quarantined struct {
	Since  time.Time         `json:"since"`
	Reason string            `json:"reason"`
	Losses []quarantine.Loss `json:"losses"` // of its workflow task with a worker, as far as Temporal knows
}

// Released: it is executed again. By is "" where nobody is named.
type Released struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Ended: the execution has ended, and with it the run, unless somebody resets or
// resumes it.
type Ended struct {
	Outcome *Outcome
	again   func() *Outcome
}

// Again reads the outcome again, which could not be read.
func (e Ended) Again() *Outcome { return e.again() }

func (Began) fact()              {}
func (Reset) fact()              {}
func (CallStarted) fact()        {}
func (CallTried) fact()          {}
func (CallEnded) fact()          {}
func (WaitStarted) fact()        {}
func (WaitEnded) fact()          {}
func (ElicitationChanged) fact() {}
func (AnswerSent) fact()         {}
func (Attended) fact()           {}
func (Ruled) fact()              {}
func (Said) fact()               {}
func (CancelRequested) fact()    {}
func (TaskFailed) fact()         {}
func (WorkerLost) fact()         {}
func (Alone) fact()              {}
func (Quarantined) fact()        {}
func (Released) fact()           {}
func (Ended) fact()              {}

// What a call, a wait or an elicitation has come to.
const (
	StepRunning   = "running"
	StepCompleted = "completed"
	StepFailed    = "failed"
	StepCancelled = "cancelled"
	StepTimedOut  = "timed_out"
	// StepTerminated: it was under way as its run was terminated.
	StepTerminated = "terminated"
	// StepNeedsCredentials: a call was not executed for lack of a credential; it is
	// made again.
	StepNeedsCredentials = "needs_credentials"
	// StepHeld: a call was not made, since the limits of its backend held it back;
	// it is made again.
	StepHeld = "held"
)

// ToolCall is what the tool was called with. Of a call that is none of a tool it
// is of no meaning.
func (c CallStarted) ToolCall() (call workflows.ToolCall, err error) {
	err = c.codec.FromPayloads(c.input, &call)
	return call, err
}

// Arguments of the call; nil = they cannot be read.
func (c CallStarted) Arguments() json.RawMessage {
	if c.Call.Activity == "" {
		var in workflows.RunInput
		_ = c.codec.FromPayloads(c.input, &in)
		return in.Arguments
	}
	call, _ := c.ToolCall()
	return call.Arguments
}

// ToolResult is what the tool has given.
func (c CallEnded) ToolResult() (result workflows.ToolResult, err error) {
	err = c.codec.FromPayloads(c.result, &result)
	return result, err
}

// Output of the call; nil = it has none, or it cannot be read.
func (c CallEnded) Output() json.RawMessage {
	if c.result == nil {
		return nil
	}
	if outcome := c.called(); outcome != nil {
		if outcome.Result == nil {
			return nil
		}
		return outcome.Result.Output
	}
	result, _ := c.ToolResult()
	return result.Output
}
