package history

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows"
)

// AskAgain, for a call with an unknown outcome, has the resumed run wait until somebody
// records it.
const AskAgain = "ask"

// A ResumeRequest says how a run is resumed. The zero value: where it ended, with the
// arguments and the definition that it had.
type ResumeRequest struct {
	// Unknown records, by step path, the outcome of calls left unknown: workflows.Happened
	// (with an entry in Results), workflows.NotHappened or AskAgain. Otherwise is for all others; "" =
	// there must be none.
	Unknown   map[workflows.StepPath]string
	Otherwise string

	Results    map[workflows.StepPath]json.RawMessage // by step path: JSON objects that are used as the outputs of tool steps
	From       []string                               // steps that are executed again, with all that depend on them
	Arguments  map[string]json.RawMessage             // arguments with another value than before, by name
	Definition *definitions.Definition                // nil = the one that the run had
	By         string                                 // who resumes the run

	reset bool // a run above was reset, so this one searches histories, too
}

// ChangesRun reports whether the request changes more than the outcome of calls left
// unknown.
func (req ResumeRequest) ChangesRun() bool {
	return len(req.Results)+len(req.From)+len(req.Arguments) > 0 || req.Definition != nil
}

// What a ResumePlan does with an execution of a step.
const (
	PlanReused       = "reused"         // its result is reused
	PlanGiven        = "given"          // the request gives its result
	PlanReusedIfSame = "reused_if_same" // its result is reused if its arguments come out the same; otherwise it is executed again
	PlanAgain        = "executed_again" // it is executed again, though it completed before
	PlanExecuted     = "executed"       // it failed or did not end before, and is executed
	PlanAsked        = "asked"          // the run waits for the outcome of its call
	PlanUnknown      = "unknown"        // the outcome of its call must be recorded first; a ResumePlan has it in OutcomeUnknown
	PlanLeft         = "left"           // the definition has no such step; what it did remains
	PlanUnderWay     = "under_way"      // the run that it called is still under way, and is awaited
)

// A PlannedStep is what a ResumePlan does with one execution of a step.
type PlannedStep struct {
	Path   workflows.StepPath `json:"path"`
	Tool   string             `json:"tool,omitempty"`
	Plan   string             `json:"plan"`             // one of the constants, from PlanReused on
	Effect string             `json:"effect,omitempty"` // effect class of the tool
	Risk   bool               `json:"risk,omitempty"`   // the call may take effect a second time
}

// A ResumePlan is how a run would be resumed.
type ResumePlan struct {
	ID        RunID         `json:"runId"`
	Execution string        `json:"execution"` // Temporal's run ID of the one that is repeated
	Number    int           `json:"time"`      // 1 = the first resumption
	Steps     []PlannedStep `json:"steps"`     // those that began before, by path
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
func (p *ResumePlan) AtRisk() []PlannedStep {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s PlannedStep) bool { return !s.Risk })
}

// UnknownPaths are the paths of OutcomeUnknown.
func (p *ResumePlan) UnknownPaths() []string {
	paths := make([]string, len(p.OutcomeUnknown))
	for i, u := range p.OutcomeUnknown {
		paths[i] = string(u.Path)
	}
	return paths
}

// PlanResume plans the resumption of an execution from its record. called has the resumptions of the
// runs that its steps have called and that did not complete, by step path; nil = none.
func PlanResume(id RunID, execution string, was *workflows.RunRecord, req ResumeRequest, called map[workflows.StepPath]*CalledRun) (*ResumePlan, error) {
	own, _ := req.Split(was)
	p := newPlanner(id, execution, was, own)
	if called != nil {
		p.called = called
	}
	return p.plan()
}

// RepeatedCall says what a call gives that is repeated with its key, once the run is
// resumed as planned.
func (p *ResumePlan) RepeatedCall() string {
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
