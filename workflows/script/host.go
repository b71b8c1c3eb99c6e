package script

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	bounded "github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/record"
)

// A Host executes what a script asks for. Each method may block on futures of ctx,
// the context of the calling branch, which is cancelled when the branch must stop.
// An error that is no *Error ends the script; the script cannot catch it.
//
// A script that is executed again from the start reaches the same sites. A host
// records by Site.Path what would differ: results, answers, Now, the end of Sleep.
type Host interface {
	// Call calls a tool and gives its output as steps see it: an object,
	// {"text": …} for text.
	Call(ctx workflow.Context, site Site, call ToolCall) (json.RawMessage, error)
	// Elicit asks a person. After an *Error with the code InvalidAnswer it is called
	// again with the reason.
	Elicit(ctx workflow.Context, site Site, question Question) (Answer, error)
	// CallWorkflow calls a composite tool and gives its result.
	CallWorkflow(ctx workflow.Context, site Site, call WorkflowCall) (json.RawMessage, error)
	Sleep(ctx workflow.Context, site Site, d time.Duration) error
	Now(ctx workflow.Context, site Site) (time.Time, error)
	Log(ctx workflow.Context, site Site, text string)
	Progress(ctx workflow.Context, site Site, progress Progress)
	// After calls then at until, unless ctx is cancelled before. It returns the
	// context for what the deadline applies to.
	After(ctx workflow.Context, site Site, until time.Time, then func()) workflow.Context
	// Began gives when a within began and how it ended in an earlier execution;
	// Ended records that.
	Began(ctx workflow.Context, site Site) (record.Deadline, error)
	Ended(site Site, deadline record.Deadline)
	// Report records a failure despite which the script continues.
	Report(ctx workflow.Context, site Site, e *Error)

	// Decide records which branches of a parallel count. Decided gives what an
	// earlier execution has recorded; nil = nothing.
	Decide(site Site, branches Branches)
	Decided(site Site) *Branches
}

// Limits bound what a script may use. A field that is zero has its default. A
// value above the default is taken as it is: callers that take limits from outside
// should only lower them.
type Limits struct {
	bounded.Limits
	Calls    int // of tools and workflows, and elicitations. Default definitions.MaxScriptCalls
	Width    int // of parallel and map_parallel: branches at a time. Default 50
	Branches int // branches of one parallel or map_parallel. Default 1,000

	// Time is from the start of the script to its end, waiting included, by the
	// clock of the workflow. The host enforces it. 0 = the host's default.
	Time time.Duration
}

// DefaultLimits are those of a zero Limits.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	l.Limits = l.Limits.WithDefaults()
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Calls, definitions.MaxScriptCalls)
	set(&l.Width, 50)
	set(&l.Branches, 1000)
	return l
}

// A Tool is a tool that a script may call.
type Tool struct {
	Name     string // as clients know it, e.g. github_get_issue
	Backend  string // e.g. github
	Original string // its name at the backend, e.g. get_issue
	Effects  bool   // each call has an effect
}

// Branches lists the branches of a parallel that count, where that depends on their
// order in time: the one that failed and those before it, or those that had begun
// when one skipped the rest.
type Branches struct {
	Branches []int `json:"branches"` // from 0, in order
	Failed   bool  `json:"failed,omitempty"`
	Unknown  bool  `json:"-"` // set by Decided: a call in it has an unknown outcome
}

type deadlineExceededKey struct{}

// DeadlineExceeded reports whether the time limit around ctx ended in an earlier
// execution, and when. The code then runs as far as it had come: a host stops it at
// the first call without a record.
func DeadlineExceeded(ctx workflow.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(deadlineExceededKey{}).(time.Time)
	return at, ok
}

// A Site is the place of a call to the host.
type Site struct {
	// Path is unique in the run, and the same each time the script is executed: the
	// function, the line, and from the second time on the count: main:12, deploy:7#2,
	// lib.star:f:3. In a branch of parallel it begins with the path of parallel and
	// the branch's number: main:20[3]/deploy:7. The body of the script is main.
	Path string
	bounded.Position
}

// A ToolCall is a call of a tool.
type ToolCall struct {
	Tool    string          // Tool.Name
	Args    json.RawMessage // an object, its keys in order
	Typed   []string        // see Arguments
	Timeout time.Duration   // all attempts together; 0 = the host's default
	Policy
}

// A WorkflowCall is a call of another composite tool.
type WorkflowCall struct {
	Name    string
	Version string // "" = the host's choice
	Args    json.RawMessage
	Typed   []string                           // see Arguments
	Timeout time.Duration                      // 0 = the tool's own
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
	Attempt   int             // from 1; one more for each answer that did not fit
	Reason    string          // why the previous answer did not fit
}

// An Answer is a person's.
type Answer struct {
	Action  string          // accept, decline, cancel, timeout
	Content json.RawMessage // of accept; nil = none
	By      string          // who answered, where that is known
	At      time.Time       // when it was answered or expired
}

// Progress is how far a script is.
type Progress struct {
	Done    float64
	Total   float64 // 0 = unknown
	Message string
}

// InvalidAnswer is the code of an error of Elicit after which the script asks again.
const InvalidAnswer = "invalid_answer"
