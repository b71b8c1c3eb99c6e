// Package resume plans how a run that has ended without completing is resumed: what
// of its record counts, and what is executed again. It asks Temporal nothing.
package resume

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// RunID is that of internal/runs.
type RunID = history.RunID

// What a Request can record of a call with an unknown outcome.
const (
	Happened    = workflows.Happened
	NotHappened = workflows.NotHappened
	// AskAgain has the resumed run wait until somebody records the outcome.
	AskAgain = "ask"
)

// A Request says how a run is resumed. The zero value: where it ended, with the
// arguments and the definition that it had.
type Request struct {
	// Unknown records, by step path, the outcome of calls left unknown: Happened (with
	// an entry in Results), NotHappened or AskAgain. Otherwise is for all others; "" =
	// there must be none.
	Unknown   map[workflows.StepPath]string
	Otherwise string

	Results    map[workflows.StepPath]json.RawMessage // by step path: JSON objects that are used as the outputs of tool steps
	From       []string                               // steps that are executed again, with all that depend on them
	Arguments  map[string]json.RawMessage             // arguments with another value than before, by name
	Definition *definitions.Definition                // nil = the one that the run had
	By         string                                 // who resumes the run
}

// Changes reports whether the request changes more than the outcome of calls left
// unknown.
func (req Request) Changes() bool {
	return len(req.Results)+len(req.From)+len(req.Arguments) > 0 || req.Definition != nil
}

// What a Plan does with an execution of a step.
const (
	Reused       = "reused"         // its result is reused
	Given        = "given"          // the request gives its result
	ReusedIfSame = "reused_if_same" // its result is reused if its arguments come out the same; otherwise it is executed again
	Again        = "executed_again" // it is executed again, though it completed before
	Executed     = "executed"       // it failed or did not end before, and is executed
	Asked        = "asked"          // the run waits for the outcome of its call
	Unknown      = "unknown"        // the outcome of its call must be recorded first; a Plan has it in OutcomeUnknown
	UnderWay     = "under_way"      // the run that it called is still under way, and is awaited
)

// A Step is what a Plan does with one execution of a step.
type Step struct {
	Path   workflows.StepPath `json:"path"`
	Tool   string             `json:"tool,omitempty"`
	Plan   string             `json:"plan"`             // one of the constants, from Reused on
	Effect string             `json:"effect,omitempty"` // effect class of the tool
	Risk   bool               `json:"risk,omitempty"`   // an unsafe call may take effect a second time
}

// A Plan is how a run would be resumed.
type Plan struct {
	ID        RunID  `json:"runId"`
	Execution string `json:"execution"` // Temporal's run ID of the one that is repeated
	Time      int    `json:"time"`      // 1 = the first resumption
	Steps     []Step `json:"steps"`     // those that began before, by path
	// OutcomeUnknown are the calls whose outcome must be recorded first.
	OutcomeUnknown []PlannedUnknown `json:"unknown,omitempty"`
	// WithoutForwarded means that the run was started with headers or _meta for backends,
	// which were kept until it ended: its calls are made without them.
	WithoutForwarded bool `json:"withoutForwarded,omitempty"`

	Was   workflows.RunInput `json:"-"` // what the execution that is repeated began with
	Input workflows.RunInput `json:"-"` // what the one that resumes the run begins with
	By    string             `json:"-"` // who resumes the run
	Token string             `json:"-"` // of this plan and no other; "" = of none
}

// A PlannedUnknown call was sent, and its outcome is unknown.
type PlannedUnknown struct {
	Path workflows.StepPath `json:"path"`
	workflows.UnknownCall
}

// AtRisk are the steps that may take effect a second time.
func (p *Plan) AtRisk() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return !s.Risk })
}

// UnknownPaths are the paths of OutcomeUnknown.
func (p *Plan) UnknownPaths() []string {
	paths := make([]string, len(p.OutcomeUnknown))
	for i, u := range p.OutcomeUnknown {
		paths[i] = string(u.Path)
	}
	return paths
}

// Of plans the resumption of an execution from its record. called has the resumptions of the
// runs that its steps have called and that did not complete, by step path; nil = none.
func Of(id RunID, execution string, was *workflows.Journal, req Request, called map[workflows.StepPath]*Called) (*Plan, error) {
	own, _ := req.Split(was)
	p := newPlanner(id, execution, was, own)
	if called != nil {
		p.called = called
	}
	return p.plan()
}

// RepeatedCall says what a call gives that is repeated with its key, once the run is
// resumed as planned.
func (p *Plan) RepeatedCall() string {
	const gets = "gets the result of the resumed run"
	was, err := definitions.FromSource(p.Was.Definition.Source)
	now, errNow := definitions.FromSource(p.Input.Definition.Source)
	if err != nil || errNow != nil {
		return ""
	}
	arguments, err := now.Arguments(p.Was.Arguments)
	if err != nil {
		return "once the new definition is offered, the same call is refused, since its arguments do not fit (" + err.Error() + "); the run has the result"
	}
	key, _ := was.Key(p.Was.Arguments)
	if keyNow, err := now.Key(arguments); err != nil || keyNow != key {
		return "once the new definition is offered, the same call starts a new run, since another business key is made of its arguments"
	}
	if !sameJSON(p.Was.Arguments, p.Input.Arguments) {
		return "the same call, with its key and the arguments that it had, " + gets + "; with the arguments set here it is refused (key_reused)"
	}
	return "the same call, with its key and its arguments, " + gets
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := template.DecodeValue(a)
	y, errY := template.DecodeValue(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// ErrOutcomeUnknown says that the outcome of calls must be recorded before a resumption.
var ErrOutcomeUnknown = errors.New("the outcome of calls is unknown")
