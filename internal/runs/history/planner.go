package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A planner makes one Plan.
type planner struct {
	id        RunID
	execution string
	was       *workflows.RunRecord // of the ended execution
	req       ResumeRequest

	program *definitions.Program
	choice  *choice
	journal map[workflows.StepPath]record.Entry // with which the new one begins
	steps   map[workflows.StepPath]string
	unknown map[workflows.StepPath]workflows.UnknownCall
	called  map[workflows.StepPath]*CalledRun
}

func newPlanner(id RunID, execution string, was *workflows.RunRecord, req ResumeRequest) *planner {
	return &planner{
		id: id, execution: execution, was: was, req: req, choice: newChoice(was, req),
		journal: map[workflows.StepPath]record.Entry{},
		steps:   map[workflows.StepPath]string{},
		unknown: map[workflows.StepPath]workflows.UnknownCall{},
	}
}

func (r *planner) plan() (*ResumePlan, error) {
	in := r.was.Input
	if err := r.compile(&in); err != nil {
		return nil, err
	}
	plan := &ResumePlan{ID: r.id, Execution: r.execution, Number: 1, Was: r.was.Input, By: r.req.By}
	if in.Resumption != nil {
		plan.Number = in.Resumption.Number + 1
	}
	r.findUnknown()
	if err := r.settleCompensations(); err != nil {
		return nil, err
	}
	if err := r.choice.begin(r.program, r.req.From); err != nil {
		return nil, fmt.Errorf("run %s %w", r.id, err)
	}
	if err := r.checkCalled(); err != nil {
		return nil, err
	}
	if err := r.keep(); err != nil {
		return nil, err
	}
	if err := r.give(); err != nil {
		return nil, err
	}
	if err := r.settle(plan); err != nil {
		return nil, err
	}
	r.describe(plan)
	r.describeCalled(plan)
	in.Journal, in.Open, in.Asked, in.Continued, in.Started = r.journal, nil, nil, true, time.Time{}
	in.Resumption = &workflows.Resumption{Of: r.execution, By: r.req.By, Number: plan.Number, Asked: r.was.Asked, Undone: maps.Clone(r.was.Undone)}
	in.MaxJournal = in.MaxValue
	plan.WithoutForwarded, in.Caller.Forwarded = in.Caller.Forwarded != "", ""
	plan.Input = in
	return plan, nil
}

// compile applies the changes of the request to the input.
func (r *planner) compile(in *workflows.RunInput) error {
	d := r.req.Definition
	if d == nil {
		var err error
		if d, err = definitions.FromSource(in.Definition.Source); err != nil {
			return fmt.Errorf("reading the definition of run %s: %w", r.id, err)
		}
	} else {
		name := in.Definition.Name
		in.Definition = workflows.Pin(d)
		in.Definition.Name = name
		for _, name := range d.ToolNames() {
			if _, known := in.Tools[name]; !known {
				return fmt.Errorf("run %s did not use the tool %s, which the new definition calls: a run knows only the tools with which it started; start a new one", r.id, name)
			}
		}
	}
	var err error
	if r.program, err = definitions.Compile(d); err != nil {
		return fmt.Errorf("the definition of run %s: %w", r.id, err)
	}
	if !r.choice.changed {
		return nil
	}
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(in.Arguments, &arguments); err != nil {
		return fmt.Errorf("reading the arguments of run %s: %w", r.id, err)
	}
	maps.Copy(arguments, r.req.Arguments)
	if in.Arguments, err = json.Marshal(arguments); err != nil {
		return fmt.Errorf("the arguments for run %s: %w", r.id, err)
	}
	if in.Arguments, err = d.Arguments(in.Arguments); err != nil {
		return fmt.Errorf("the arguments for run %s: %w", r.id, err)
	}
	return nil
}

// findUnknown collects the calls whose outcome is unknown.
func (r *planner) findUnknown() {
	for path, e := range r.was.Entries {
		call, _ := e.Kind.(record.Call)
		_, child := e.Kind.(record.Child)
		switch u, err := call.OutcomeUnknown, e.Failure(); {
		case child, e.Output() != nil: // a called run has its own journal
		case u != nil && u.NotHappened:
		case u != nil:
			r.unknown[path] = *u
		case err.Unknown(path):
			r.unknown[path] = workflows.UnknownCall{Call: workflows.ParkedCall{Tool: err.Tool}, Error: *err, Times: 1}
		}
	}
	maps.Copy(r.unknown, r.was.OutcomeUnknown)
}

// settleCompensations reconciles compensations: a step that was undone is executed
// again.
func (r *planner) settleCompensations() error {
	for _, path := range slices.Sorted(maps.Keys(r.unknown)) {
		step := path.Undoes()
		if step == "" {
			continue
		}
		switch r.said(path) {
		case workflows.Happened:
			r.choice.undone[step] = true
			if r.was.Undone == nil {
				r.was.Undone = map[workflows.StepPath]int{}
			}
			r.was.Undone[step]++
			delete(r.unknown, path)
		case workflows.NotHappened:
			delete(r.unknown, path)
		case AskAgain:
			return fmt.Errorf("whether %s undid %s must be known before the run is resumed: say happened or not_happened", path, step)
		}
	}
	return nil
}

func (r *planner) said(path workflows.StepPath) string {
	return cmp.Or(r.req.Unknown[path], r.req.Otherwise)
}

// give records the results in the request.
func (r *planner) give() error {
	for _, path := range slices.Sorted(maps.Keys(r.req.Results)) {
		n, _ := r.program.At(path)
		if n == nil || n.Step.Tool == "" && n.Step.Workflow == "" && !inScript(n, path) {
			return fmt.Errorf("run %s has no tool step at %q whose result could be given", r.id, path)
		}
		if plan := r.called[path]; plan != nil && plan.UnderWay {
			return fmt.Errorf("the run %s that step %s called has not ended, so its result cannot be given; cancel it first", ChildAt(r.was, path).ID, path)
		}
		output, err := objectResult(r.req.Results[path])
		if err != nil {
			return fmt.Errorf("the result for %s: %w", path, err)
		}
		r.journal[path] = r.given(path, output)
		r.steps[path] = PlanGiven
		delete(r.unknown, path)
	}
	return nil
}

// given is the entry of a call, or a called run, whose output the request gives.
func (r *planner) given(path workflows.StepPath, output json.RawMessage) record.Entry {
	was := r.was.Entries[path]
	given := record.Given{Output: output, Effects: was.Effects()}
	if _, child := was.Kind.(record.Child); !child {
		given.Tool = cmp.Or(was.Tool(), r.unknown[path].Call.Tool)
		if err := was.Failure(); err != nil {
			given.Tool = cmp.Or(given.Tool, err.Tool)
		}
	}
	return record.Entry{Order: r.nextOrder(), Kind: given}
}

// nextOrder is after that of all entries.
func (r *planner) nextOrder() int {
	last := 0
	for _, e := range r.journal {
		last = max(last, e.Order)
	}
	return last + 1
}

// objectResult is an output, in its canonical form.
func objectResult(output json.RawMessage) (json.RawMessage, error) {
	v, err := template.DecodeValue(output)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("it must be a JSON object")
	}
	return template.EncodeValue(v)
}

// settle reconciles calls of unknown outcome.
func (r *planner) settle(plan *ResumePlan) error {
	for path := range r.req.Unknown {
		if _, ok := r.unknown[path]; !ok && path.Undoes() == "" && r.steps[path] != PlanGiven {
			return fmt.Errorf("run %s has no call with unknown outcome at %q", r.id, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.unknown)) {
		u := r.unknown[path]
		u.Anew = r.choice.changed
		switch said := r.said(path); said {
		case workflows.Happened:
			r.journal[path] = r.given(path, json.RawMessage("{}"))
			r.steps[path] = PlanGiven
		case workflows.NotHappened:
			u.NotHappened = true
			if u.Call.Sent.IsZero() {
				u.Call.Sent = time.Now().UTC()
			}
			delete(r.journal, path)
			if e, kept := unknownEntry(u).Carry(record.Terms{Reason: r.choice.reason}); kept {
				r.journal[path] = e
			}
			r.steps[path] = PlanExecuted
		case AskAgain:
			u.Ask = true
			r.journal[path] = unknownEntry(u)
			r.steps[path] = PlanAsked
		case "":
			plan.OutcomeUnknown = append(plan.OutcomeUnknown, PlannedUnknown{Path: path, UnknownCall: u})
		default:
			return fmt.Errorf("outcome of %s: %q is not known; use happened, not_happened or ask", path, said)
		}
	}
	return nil
}

func unknownEntry(u workflows.UnknownCall) record.Entry {
	return record.Entry{Kind: record.Call{OutcomeUnknown: &u}}
}

// tool finds a tool by the name that a step uses, or that clients know.
func (r *planner) tool(name string) (definitions.Tool, bool) {
	if t, ok := r.was.Input.Tools[name]; ok {
		return t, true
	}
	for _, t := range r.was.Input.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return definitions.Tool{}, false
}

// inOrder are the steps that had begun, in the order in which the definition executes
// them; calls of a script in that in which they were recorded.
func (r *planner) inOrder() []workflows.StepPath {
	order := map[string]int{}
	for i, n := range r.program.Order() {
		order[n.ID] = i
	}
	recorded := func(path workflows.StepPath) int {
		if !path.IsScriptCall() {
			return 0
		}
		return cmp.Or(r.was.Entries[path].Order, math.MaxInt)
	}
	paths := slices.Sorted(maps.Keys(r.steps))
	slices.SortStableFunc(paths, func(a, b workflows.StepPath) int {
		return cmp.Or(order[a.Top()]-order[b.Top()], cmp.Compare(recorded(a), recorded(b)))
	})
	return paths
}

// describe adds the fate of each step that had begun.
func (r *planner) describe(plan *ResumePlan) {
	for _, path := range r.inOrder() {
		step := PlannedStep{Path: path, Plan: r.steps[path], Tool: r.was.Entries[path].Tool()}
		if n, _ := r.program.At(path); n != nil {
			step.Tool = cmp.Or(n.Step.Tool, n.Step.Workflow, step.Tool)
		}
		if tool, ok := r.tool(step.Tool); ok {
			step.Effect = string(cmp.Or(tool.Effect, definitions.Unsafe))
			step.Risk = r.mayExecuteAgain(path, tool) && !r.isSafeToRepeat(path, tool.Effect)
		}
		plan.Steps = append(plan.Steps, step)
	}
}

// isSafeToRepeat reports whether a call that is made once more has no second effect. The key of a
// keyed one depends on its arguments.
func (r *planner) isSafeToRepeat(path workflows.StepPath, effect definitions.Effect) bool {
	if effect == definitions.Keyed {
		return !r.choice.mayBeOther(path)
	}
	return workflows.Repeatable(effect)
}

// mayExecuteAgain reports whether what a step has done with a tool may be done once more. That of
// a step that is gone may be what another one is to do, such as the same under a new name.
func (r *planner) mayExecuteAgain(path workflows.StepPath, with definitions.Tool) bool {
	switch r.steps[path] {
	case PlanAgain:
		return !r.choice.undone[path]
	case PlanExecuted:
		_, unknown := r.was.Input.EarlierUnknown[path]
		return unknown
	case PlanReusedIfSame:
		return true
	case PlanLeft:
		return slices.ContainsFunc(r.program.Definition.ToolNames(), func(name string) bool {
			tool, ok := r.tool(name)
			return ok && tool.Name == with.Name
		})
	}
	return false
}
