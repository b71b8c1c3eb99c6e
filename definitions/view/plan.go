package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A Plan says what a call of a composite tool would do, as far as its arguments
// decide it. What only a run can find out is marked and never guessed.
type Plan struct {
	Tool        string                  `json:"tool"`
	Version     string                  `json:"version,omitempty"`
	Digest      string                  `json:"digest"`
	Arguments   json.RawMessage         `json:"arguments"`         // with defaults
	Problem     string                  `json:"problem,omitempty"` // why the run is certain to fail; "" = it may complete
	Timeout     definitions.Duration    `json:"timeout"`           // of the run
	FailureMode definitions.FailureMode `json:"failureMode"`
	RunAs       definitions.RunAs       `json:"runAs,omitempty"` // "" = definitions.AsCaller
	Steps       []PlannedStep           `json:"steps"`           // in the order in which they can start
	Approvals   []PlannedApproval       `json:"approvals,omitempty"`
	Writes      []PlannedWrite          `json:"writes,omitempty"`
	AtMost      PlanLimits              `json:"atMost"`
	Output      []PlannedValue          `json:"output,omitempty"` // properties of the output block; nil = the output of the last completed step
}

// A Certainty says whether something will happen.
type Certainty string

// The certainties. Yes means: if the run gets there.
const (
	Yes     Certainty = "yes"
	No      Certainty = "no"
	Depends Certainty = "depends" // on what only a run can find out
)

// A PlannedStep is a step, or the inner step of a forEach for one item.
type PlannedStep struct {
	Path  string               `json:"path"` // the ID; of an inner step each[2], or each[*] if the items are unknown
	Type  definitions.StepType `json:"type"`
	Stage int                  `json:"stage,omitempty"` // 1 = starts at once; steps of one stage run beside each other; 0 = an inner step
	After []string             `json:"after,omitempty"` // steps that it waits for
	Runs  Certainty            `json:"runs"`

	Condition *PlannedValue `json:"condition,omitempty"`
	Problem   string        `json:"problem,omitempty"` // why the step is certain to fail

	*PlannedCall               // of a tool step
	Compensate   *PlannedCall  `json:"compensate,omitempty"` // undoes it
	Question     *PlannedValue `json:"question,omitempty"`   // of an elicitation
	Wait         *PlannedValue `json:"wait,omitempty"`       // named for or until
	Loop         *PlannedLoop  `json:"loop,omitempty"`       // of a forEach

	Workflow          string              `json:"workflow,omitempty"`          // the composite tool that is called, as it is written
	WorkflowArguments []PlannedValue      `json:"workflowArguments,omitempty"` // of that call
	Called            *Plan               `json:"called,omitempty"`            // what that does
	Script            []PlannedScriptCall `json:"script,omitempty"`            // calls of a script, as far as visible

	Timeout definitions.Duration `json:"timeout,omitempty"` // of the step, all attempts together
	OnError *definitions.OnError `json:"onError,omitempty"`
}

// A PlannedCall is a call of a tool.
type PlannedCall struct {
	Tool      string             `json:"tool"`
	Backend   string             `json:"backend,omitempty"` // "" = no backend offers the tool
	Effect    definitions.Effect `json:"effect"`
	Arguments []PlannedValue     `json:"arguments,omitempty"`
}

// A PlannedLoop has the items of a forEach.
type PlannedLoop struct {
	Collection PlannedValue  `json:"collection"` // without its value; Items has the first elements
	Count      *int          `json:"count,omitempty"`
	Most       int           `json:"most"`            // items
	Parallel   int           `json:"parallel"`        // at a time
	Items      []PlannedItem `json:"items,omitempty"` // the first; one without a value if they are unknown
}

// A PlannedItem is the inner step for one item.
type PlannedItem struct {
	Key   string          `json:"key,omitempty"`  // of an object's member
	Value json.RawMessage `json:"item,omitempty"` // nil = not known
	Step  PlannedStep     `json:"step"`
}

// A ValueState says how much of a value is known.
type ValueState string

// The states of a value.
const (
	Known   ValueState = "known"
	Waits   ValueState = "waits"   // for steps, or other data of a run
	LeftOut ValueState = "leftOut" // its expression has no value
	Fails   ValueState = "fails"   // its template cannot be expanded
)

// A PlannedValue is the value of a template.
type PlannedValue struct {
	Name        string          `json:"name,omitempty"` // path of an argument or of an output property: opts.ids[2]
	Type        string          `json:"type,omitempty"` // of an output property
	Description string          `json:"description,omitempty"`
	State       ValueState      `json:"state"`
	Value       json.RawMessage `json:"value,omitempty"`    // if known
	Template    string          `json:"template,omitempty"` // unless it is known
	Partly      string          `json:"partly,omitempty"`   // the template with its known parts expanded; "" = none
	WaitsFor    []string        `json:"waitsFor,omitempty"` // IDs of steps; workflow.id and the like
	Error       string          `json:"error,omitempty"`
}

// A PlannedApproval is an elicitation.
type PlannedApproval struct {
	Step      string               `json:"step"`           // its ID; that of the forEach, where it is within one
	Each      bool                 `json:"each,omitempty"` // it is asked for each item
	Asked     Certainty            `json:"asked"`
	Timeout   definitions.Duration `json:"timeout"`
	OnDecline definitions.Action   `json:"onDecline"`
	OnCancel  definitions.Action   `json:"onCancel"`         // also when the elicitation expires
	Before    []string             `json:"before,omitempty"` // steps that start only after it

	ends bool // any answer but accept ends the run with a failure
}

// A PlannedWrite is a step that calls a tool whose effect is not read.
type PlannedWrite struct {
	Step      string             `json:"step"`
	Tool      string             `json:"tool"`
	Effect    definitions.Effect `json:"effect"`
	Runs      Certainty          `json:"runs"`
	AtMost    int64              `json:"atMost"`              // calls
	Approvals []WriteApproval    `json:"approvals,omitempty"` // before it
}

// A WriteApproval says whether an approval that is not accepted prevents a write.
type WriteApproval struct {
	Step  string    `json:"step"`
	Holds Certainty `json:"holds"`
}

// PlanLimits are the most that a run can do. Compensations, which only a failed run
// calls, are counted apart.
type PlanLimits struct {
	Calls         int64 `json:"calls"`    // of tools, without further attempts
	Attempts      int64 `json:"attempts"` // of these calls, by onError
	Writes        int64 `json:"writes"`   // of these calls, those whose effect is not read
	Questions     int64 `json:"questions"`
	Compensations int64 `json:"compensations"`
}

func (l *PlanLimits) add(n int64, other PlanLimits) {
	l.Calls = plus(l.Calls, times(n, other.Calls))
	l.Attempts = plus(l.Attempts, times(n, other.Attempts))
	l.Writes = plus(l.Writes, times(n, other.Writes))
	l.Questions = plus(l.Questions, times(n, other.Questions))
	l.Compensations = plus(l.Compensations, times(n, other.Compensations))
}

// plus and times stay at the largest number rather than wrap around.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// PlanOptions are what a plan may read besides the definition.
type PlanOptions struct {
	Tools       definitions.Tools       // looked up, never called; nil = none
	Definitions definitions.Definitions // that steps call; nil = none
	MaxDepth    int                     // of definitions that call each other; 0 = definitions.MaxWorkflowDepth
}

// Limits of a plan: composite tools that call each other may make millions of calls, and
// each may have all of a large argument.
const (
	maxPlanned      = 2_000    // steps
	maxPlannedBytes = 32 << 20 // of their arguments
)

// ErrTooLarge reports that a plan has more steps, or larger arguments, than one may have.
var ErrTooLarge = fmt.Errorf("the plan has more than %d steps, with those of the composite tools that are called, or more than %d bytes of arguments; make a dry run of a part", maxPlanned, maxPlannedBytes)

// An extent counts what the planners of one plan have planned.
type extent struct {
	steps, bytes int
	programs     map[*definitions.Definition]*definitions.Program // of those that are called
}

// add counts a step that is begun, and reports whether the plan has room for it.
func (e *extent) add() bool {
	e.steps++
	return !e.tooLarge()
}

func (e *extent) tooLarge() bool { return e.steps > maxPlanned || e.bytes > maxPlannedBytes }

// take counts the values of a step.
func (e *extent) take(lists ...[]PlannedValue) {
	for _, values := range lists {
		for _, v := range values {
			e.bytes += len(v.Value)
		}
	}
}

func (e *extent) compile(d *definitions.Definition) (*definitions.Program, error) {
	if program := e.programs[d]; program != nil {
		return program, nil
	}
	program, err := definitions.Compile(d)
	e.programs[d] = program
	return program, err
}

// NewPlan plans a run with arguments. Nothing is called. The error is a
// *definitions.ArgumentsError if the arguments do not fit the parameters, or ErrTooLarge.
func NewPlan(p *definitions.Program, args json.RawMessage, o PlanOptions) (*Plan, error) {
	if o.Tools == nil {
		o.Tools = definitions.ToolsByName(nil)
	}
	o.MaxDepth = cmp.Or(o.MaxDepth, definitions.MaxWorkflowDepth)
	args, err := p.Definition.Arguments(args)
	if err != nil {
		return nil, err
	}
	params, err := object(args)
	if err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	plan := newPlan(p.Definition)
	plan.Arguments = args
	pl := &planner{PlanOptions: o, program: p, params: params, known: knowledge{}, steps: map[string]*plannedNode{}, unknown: map[string]*Plan{},
		extent: &extent{programs: map[*definitions.Definition]*definitions.Program{}}}
	if pl.plan(plan); pl.extent.tooLarge() {
		return nil, ErrTooLarge
	}
	return plan, nil
}

// newPlan begins the plan of a definition with what does not depend on arguments.
func newPlan(d *definitions.Definition) *Plan {
	return &Plan{
		Tool: d.Name, Version: d.Version, Digest: d.Digest(), RunAs: d.RunAs,
		Timeout: definitions.RunTimeout(d), FailureMode: cmp.Or(d.FailureMode, definitions.FailFast),
	}
}

func object(data json.RawMessage) (map[string]any, error) {
	v, err := template.DecodeValue(data)
	members, _ := v.(map[string]any)
	return members, err
}

// knowledge has, by ID, what templates can read of a step: a map[string]any, a
// template.Partial or template.Unknown.
type knowledge map[string]any

// A planner makes one plan.
type planner struct {
	PlanOptions
	program *definitions.Program
	depth   int // of definitions that call each other
	params  any // a map[string]any, or a template.Partial
	known   knowledge
	steps   map[string]*plannedNode
	unknown map[string]*Plan // of definitions that scripts call, by depth and digest
	extent  *extent          // of the whole plan
}

// A plannedNode is a planned step of the graph.
type plannedNode struct {
	*PlannedStep
	node   *definitions.Node
	limits PlanLimits
}

// endsTheRun reports whether a step is certain to fail, and steps that wait for it then
// do not start.
func (n *plannedNode) endsTheRun() bool {
	return n.Runs == Yes && n.Problem != "" && !n.node.Step.Continues()
}

func (pl *planner) plan(plan *Plan) {
	for _, n := range pl.program.Order() {
		step, limits := pl.step(n, n.ID, pl.data(pl.known), firstItems)
		step.After, step.Stage = n.Deps, 1
		for _, id := range n.Deps {
			step.Stage = max(step.Stage, pl.steps[id].Stage+1)
			if pl.steps[id].endsTheRun() {
				step.Problem, limits = fmt.Sprintf("it never starts, since step %s fails", id), PlanLimits{}
			}
		}
		pl.steps[n.ID] = &plannedNode{&step, n, limits}
		pl.known[n.ID] = afterStep(n.Step, step.Runs, step.Problem)
		plan.AtMost.add(1, limits)
	}
	for _, n := range pl.program.Steps {
		plan.Steps = append(plan.Steps, *pl.steps[n.ID].PlannedStep)
	}
	slices.SortStableFunc(plan.Steps, func(a, b PlannedStep) int { return a.Stage - b.Stage })
	pl.approvals(plan)
	if out := pl.program.OutputBlock; out != nil {
		plan.Output = pl.output(out.Properties, pl.atEnd())
		requireOutput(plan.Output, out.Required)
	}
	plan.Problem = pl.problem(plan)
}

// requireOutput marks a required property that is left out as failing.
func requireOutput(values []PlannedValue, required []string) {
	for i, v := range values {
		if v.State == LeftOut && slices.Contains(required, v.Name) {
			values[i].State, values[i].Error = Fails, "is required and has no value"
		}
	}
}

// problem says why the run is certain to fail.
func (pl *planner) problem(plan *Plan) string {
	for _, n := range pl.program.Order() {
		if step := pl.steps[n.ID]; step.endsTheRun() && plan.FailureMode != definitions.BestEffort {
			return fmt.Sprintf("step %s: %s", n.ID, step.Problem)
		}
	}
	for _, v := range plan.Output {
		if v.State == Fails {
			return fmt.Sprintf("output.%s: %s", v.Name, v.Error)
		}
	}
	return ""
}

// data is the data of templates, unknown in parts.
type data map[string]any

// Data implements definitions.Data.
func (d data) Data() map[string]any { return d }

// data is the data of templates before a step.
func (pl *planner) data(known knowledge) data {
	return data{
		"params":  pl.params,
		"steps":   template.Partial(known),
		"vars":    map[string]any{},
		"forEach": map[string]any{},
		"workflow": template.Partial{
			"id": template.Unknown{}, "status": "running", "step_count": template.Unknown{}, "duration_ms": template.Unknown{}, "start_time": template.Unknown{},
		},
	}
}

// atEnd is the data of the output block. By then a step may also have been skipped
// with the rest, or have failed in a run that continues.
func (pl *planner) atEnd() data {
	known := knowledge{}
	for id, step := range pl.steps {
		known[id] = template.Unknown{}
		if step.Runs == No {
			known[id] = pl.known[id]
		}
	}
	d := pl.data(known)
	workflow := d["workflow"].(template.Partial)
	workflow["status"] = "completed"
	return d
}

// afterStep is the knowledge about a step when those that wait for it start. They do
// not start if it failed and did not continue.
func afterStep(s *definitions.Step, runs Certainty, problem string) any {
	switch {
	case runs == No:
		return definitions.StepScope{Status: "skipped", Output: s.Defaults(), Content: s.Content(s.Defaults())}.Data()
	case runs == Depends || problem != "" || s.Continues():
		return template.Unknown{}
	case !s.Type.Traits().Asks:
		return template.Partial{"status": "completed", "error": "", "output": template.Unknown{}, "content": template.Unknown{}}
	case continuesAfter(s.OnDecline) || continuesAfter(s.OnCancel):
		return template.Unknown{}
	}
	accepted := template.Partial{"action": "accept", "content": template.Unknown{}}
	return template.Partial{"status": "completed", "error": "", "action": "accept", "content": template.Unknown{}, "output": accepted}
}

func continuesAfter(h *definitions.Handler) bool { return h != nil && h.Action == definitions.Continue }
