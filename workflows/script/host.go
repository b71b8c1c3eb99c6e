package script

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
)

// A Host does what a script asks of the world. Each method may block on futures
// of ctx, which is that of the branch that asks and is cancelled when the
// branch shall stop. An error that is no *Error ends the script, whatever the
// script does about errors.
//
// A script that is executed again from the start reaches the same sites. What
// is not the same each time (results, answers, Now, until when Sleep sleeps) a
// host keeps by Site.Path.
type Host interface {
	// Call calls a tool and gives its output as steps see it: an object,
	// {"text": …} for text.
	Call(ctx workflow.Context, site Site, call ToolCall) (json.RawMessage, error)
	// Elicit asks a person. An *Error with the code InvalidAnswer lets it be
	// asked again with the reason.
	Elicit(ctx workflow.Context, site Site, question Question) (Answer, error)
	// CallWorkflow calls a composite tool and gives its result.
	CallWorkflow(ctx workflow.Context, site Site, call WorkflowCall) (json.RawMessage, error)
	Sleep(ctx workflow.Context, site Site, d time.Duration) error
	Now(ctx workflow.Context, site Site) (time.Time, error)
	Log(ctx workflow.Context, site Site, text string)
	Progress(ctx workflow.Context, site Site, progress Progress)
	// Began is when a within began, and how it has ended in an execution before;
	// Ended keeps that.
	Began(ctx workflow.Context, site Site) (Spell, error)
	Ended(site Site, spell Spell)
	// Report tells of a failure with which the script goes on.
	Report(ctx workflow.Context, site Site, e *Error)

	// Decide keeps which branches of a parallel count. Decided gives what an
	// execution before has kept; nil = nothing.
	Decide(site Site, fan Fan)
	Decided(site Site) *Fan
}

// A Fan says which branches of a parallel count, where that depends on which was
// first: those up to the one that it has failed with, or those that had begun
// when one skipped the rest.
type Fan struct {
	Branches []int `json:"branches"` // from 0, in order
	Failed   bool  `json:"failed,omitempty"`
	Unknown  bool  `json:"-"` // Decided says so: a call in it was left of which nobody knows whether it was executed
}

// A Spell is the time of one within.
type Spell struct {
	Began time.Time `json:"began"`
	Ended string    `json:"ended,omitempty"` // InTime, OutOfTime; "" = not yet
}

// How a Spell ends.
const (
	InTime    = "in_time"
	OutOfTime = "out_of_time"
)

type outOfTimeKey struct{}

// RanOut says that what goes on in ctx has run out of its time in an execution
// before this one, and when. It is executed as far as it had come by then: a host
// stops it where that has not recorded anything.
func RanOut(ctx workflow.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(outOfTimeKey{}).(time.Time)
	return at, ok
}

// A Site is where a script asks something of the world.
type Site struct {
	// Path is what no other call of the run has, and the same call has each time
	// the script is executed: the function, the line, and from the second time on
	// the number of times: main:12, deploy:7#2, lib.star:f:3. In a branch of
	// parallel it begins with the path of that and the branch's number:
	// main:20[3]/deploy:7. The body of the script is called main.
	Path     string
	File     string
	Function string
	Line     int
	Column   int
}

func (s Site) String() string { return fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column) }

// A ToolCall is what a script wants of a tool.
type ToolCall struct {
	Tool    string          // Tool.Name
	Args    json.RawMessage // an object, its keys in order
	Typed   []string        // see Arguments
	Timeout time.Duration   // all attempts together; 0 = the host's default
	Policy
}

// A WorkflowCall is what a script wants of another composite tool.
type WorkflowCall struct {
	Name    string
	Version string // "" = the host's choice
	Args    json.RawMessage
	Typed   []string                           // see Arguments
	Timeout time.Duration                      // 0 = what the tool says
	Undo    func(output json.RawMessage) *Undo // see Policy
}

// A Question is for a person.
type Question struct {
	Message   string
	Schema    json.RawMessage // of the content of an answer; nil = none is wanted
	Timeout   time.Duration   // 0 = the host's default
	Validate  bool            // whether the content must fit the schema
	Mode      string          // form, url: where it is answered; "" = form
	Approval  bool            // approve asks
	Approvers []string        // who answers: subjects, and groups as group:NAME; nil = the host's choice
	Attempt   int             // from 1; more = the answers before did not fit
	Reason    string          // why the answer before did not fit
}

// An Answer is a person's.
type Answer struct {
	Action  string          // accept, decline, cancel, timeout
	Content json.RawMessage // of accept; nil = none
	By      string          // who answered, where that is known
}

// Progress is how far a script is.
type Progress struct {
	Done    float64
	Total   float64 // 0 = unknown
	Message string
}

// InvalidAnswer is the code of an error of Elicit after which it is asked again.
const InvalidAnswer = "invalid_answer"

// Codes of errors that are a script's own.
const (
	CodeFailed = "script_failed" // it called fail
	CodeError  = "script_error"  // it did what Starlark does not allow
)

// An Error is why a script failed, or a call of it.
type Error struct {
	Code      string          // stable, for machines
	Category  string          // as the host has them: tool, timeout, declined, cancelled, outcome_unknown, limit, template, …
	Message   string          //
	Tool      string          // that failed; "" = none
	Path      string          // Site.Path of the call that failed
	Attempt   int             // of the call; 0 = unknown
	Retryable bool            // whether calling again may help
	Final     bool            // retry must not repeat it
	Unknown   bool            // nobody knows whether the call was executed, which must not be repeated
	Fatal     bool            // the run is being stopped: nothing in the script catches it
	Details   json.RawMessage // anything more; nil = nothing
	Site      Site            // where the script stood; set by Run
	Backtrace string          // of the script's functions, outermost first, set by Run; before, that of what was called
}

func (e *Error) Error() string { return e.Message }
