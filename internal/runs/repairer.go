package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows"
)

// A repairer makes the plan of one repair.
type repairer struct {
	id        RunID
	execution string
	record    *workflows.Record
	req       RetryRequest

	program   *definitions.Program
	changed   bool            // the definition or the arguments are others than before
	again     map[string]bool // top-level steps that are executed again
	doubtful  map[string]bool // top-level steps whose results count only for the same arguments
	journal   map[string]workflows.JournalEntry
	fates     map[string]string
	unsettled map[string]workflows.Unsettled
	undone    map[string]bool // step paths that were undone
	repeated  map[string]bool // paths of failures after which a script has repeated what failed until it succeeded
	called    map[string]*calledPlan
}

func newRepairer(id RunID, execution string, record *workflows.Record, req RetryRequest) *repairer {
	r := &repairer{
		id: id, execution: execution, record: record, req: req,
		changed:   req.Definition != nil || len(req.Arguments) > 0,
		again:     map[string]bool{},
		doubtful:  map[string]bool{},
		journal:   map[string]workflows.JournalEntry{},
		fates:     map[string]string{},
		unsettled: map[string]workflows.Unsettled{},
		undone:    map[string]bool{},
		repeated:  map[string]bool{},
	}
	for _, path := range record.Redo {
		r.undone[path] = true
	}
	return r
}

func (r *repairer) plan() (*RetryPlan, error) {
	in := r.record.Input
	if err := r.compile(&in); err != nil {
		return nil, err
	}
	plan := &RetryPlan{ID: r.id, Execution: r.execution, Time: 1, by: r.req.By, token: randomName(26)}
	if in.Repair != nil {
		plan.Time = in.Repair.Time + 1
	}
	r.findUnsettled()
	if err := r.settleCompensations(); err != nil {
		return nil, err
	}
	if err := r.selectSteps(); err != nil {
		return nil, err
	}
	if err := r.checkCalled(); err != nil {
		return nil, err
	}
	r.keep()
	if err := r.give(); err != nil {
		return nil, err
	}
	if err := r.settle(plan); err != nil {
		return nil, err
	}
	r.describe(plan)
	r.describeCalled(plan)
	in.Journal, in.Open, in.Asked, in.Continued, in.Started = r.journal, nil, nil, true, time.Time{}
	in.Repair = &workflows.Repair{Of: r.execution, By: r.req.By, Time: plan.Time, Asked: r.record.Asked, Undone: maps.Clone(r.record.Undone)}
	in.MaxJournal = in.MaxValue
	plan.input = in
	return plan, nil
}

// compile puts what the request changes into the input.
func (r *repairer) compile(in *workflows.RunInput) error {
	d := r.req.Definition
	if d == nil {
		var err error
		if d, err = definitions.FromSource(in.Definition.Source); err != nil {
			return fmt.Errorf("reading the definition of run %s: %w", r.id, err)
		}
	} else {
		in.Definition = workflows.Pinned{Name: in.Definition.Name, Version: d.Version, Digest: d.Digest(), Source: d.Source()}
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
	if !r.changed {
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

// findUnsettled collects the calls of which nobody knows what became.
func (r *repairer) findUnsettled() {
	for path, e := range r.record.Journal {
		switch {
		case e.Result != nil, e.Child != nil: // what a called run has done is with that
		case e.Unsettled != nil && e.Unsettled.NotHappened:
		case e.Unsettled != nil:
			r.unsettled[path] = *e.Unsettled
		case e.Error != nil && e.Error.Category == workflows.CategoryOutcomeUnknown && e.Error.StepPath == path:
			r.unsettled[path] = workflows.Unsettled{Call: workflows.ParkedCall{Tool: e.Error.Tool}, Error: *e.Error, Times: 1}
		}
	}
	for path, u := range r.record.Unsettled {
		r.unsettled[path] = u
	}
}

// compensated is the step that a call at a path undoes, "" if it undoes none.
func compensated(path string) string {
	step, _, ok := strings.Cut(path, "/compensate#")
	if !ok {
		return ""
	}
	return step
}

// settleCompensations takes what is said of calls that undo steps: a step that
// was undone is executed again.
func (r *repairer) settleCompensations() error {
	for _, path := range slices.Sorted(maps.Keys(r.unsettled)) {
		step := compensated(path)
		if step == "" {
			continue
		}
		switch r.said(path) {
		case workflows.Happened:
			r.undone[step] = true
			if r.record.Undone == nil {
				r.record.Undone = map[string]int{}
			}
			r.record.Undone[step]++
			delete(r.unsettled, path)
		case workflows.NotHappened:
			delete(r.unsettled, path)
		case AskAgain:
			return fmt.Errorf("whether %s undid %s must be known before the run is repaired: say happened or not_happened", path, step)
		}
	}
	return nil
}

func (r *repairer) said(path string) string { return cmp.Or(r.req.Unknown[path], r.req.Otherwise) }

// selectSteps finds out which steps are executed again, and whose results may
// no longer fit.
func (r *repairer) selectSteps() error {
	for _, id := range r.req.From {
		if !slices.ContainsFunc(r.program.Steps, func(n *definitions.Node) bool { return n.ID == id }) {
			return fmt.Errorf("run %s has no step %q from which it could go on", r.id, id)
		}
		r.again[id] = true
	}
	for path := range r.undone {
		r.doubtful[topLevel(path)] = true
	}
	for _, n := range r.program.Order() {
		for _, before := range n.Deps {
			r.again[n.ID] = r.again[n.ID] || r.again[before]
			r.doubtful[n.ID] = r.doubtful[n.ID] || r.doubtful[before]
		}
	}
	return nil
}

// keep takes into the journal what need not be done again.
func (r *repairer) keep() {
	r.findRepeated()
	for path, e := range r.record.Journal {
		if strings.HasPrefix(path, "@") && !r.changed { // what a reference meant to the run
			r.journal[path] = e
			continue
		}
		n, loop := r.program.At(path)
		if n != nil && e.Child != nil && e.Result == nil && !r.staysFailed(path, e) {
			if r.keepCalled(path, n, loop, e) {
				continue
			}
			if e.Error == nil { // it was never started, or is to be anew
				r.fates[path] = FateFailed
				continue
			}
		}
		if e.Left && e.Result == nil && e.Error == nil && e.Child == nil { // it was stopped, and has a key
			r.fates[path] = FateFailed
			continue
		}
		if e.Fan != nil && e.Fan.Failed || e.Within != nil || e.Reported != nil { // it is tried again, and all of it, in a time of its own
			continue
		}
		if n == nil || e.Unsettled != nil && e.Result == nil && e.Error == nil {
			continue
		}
		if _, open := r.unsettled[path]; open && e.Error == nil {
			continue
		}
		kept, exact := r.keeps(path, n, loop, e)
		if !kept {
			if e.Result != nil && (n.Step.Tool != "" || n.Step.Workflow != "" || e.Tool != "") {
				r.fates[path] = FateAgain
			} else if n.Step.Type != definitions.ForEachStep && !itself(n, path) {
				r.fates[path] = FateFailed
			}
			continue
		}
		e.Unsettled, e.Exact = nil, e.Exact || exact
		r.journal[path] = e
		delete(r.unsettled, path)
		switch {
		case n.Step.Type == definitions.ForEachStep, e.Skipped, e.Error != nil, itself(n, path), inScript(n, path) && e.Tool == "":
		case e.Exact:
			r.fates[path] = FateSame
		default:
			r.fates[path] = FateReused
		}
	}
}

// keeps says whether what is recorded at a path counts, and whether it does so
// for the same arguments only.
func (r *repairer) keeps(path string, n, loop *definitions.Node, e workflows.JournalEntry) (kept, exact bool) {
	exact = r.changed || r.doubtful[topLevel(path)]
	switch {
	case r.again[topLevel(path)] || r.undone[path]:
		return false, false
	case inScript(n, path) && e.Error != nil:
		return r.staysFailed(path, e), exact
	case inScript(n, path):
		return accepted(path, e.Result), exact
	case e.Error != nil: // a step that continues is done with
		return !exact && (continues(n) || loop != nil && continues(loop)), false
	case e.Skipped:
		return !exact, false
	case n.Step.Type == definitions.ForEachStep, n.Step.Type == definitions.ScriptStep:
		return !exact && string(e.Result) == "{}", false // unless its time was running
	case n.Step.Type == definitions.ElicitationStep:
		return settledGate(n, e.Result), exact
	}
	return true, exact
}

// staysFailed says whether a call of a script that failed counts. It is tried again
// whatever the script made of it, unless the script has repeated it. A called run
// is only told by what it was called with before.
func (r *repairer) staysFailed(path string, e workflows.JournalEntry) bool {
	return r.repeated[path] && (e.Child == nil || !r.changed && !r.doubtful[topLevel(path)])
}

// inScript reports whether a path is that of a call of a script.
func inScript(n *definitions.Node, path string) bool {
	return n.Step.Type == definitions.ScriptStep && strings.Contains(path[strings.LastIndexByte(path, '/')+1:], ":")
}

// itself reports whether a path is that of a script, which starts from its top
// again and finds what it has done.
func itself(n *definitions.Node, path string) bool {
	return n.Step.Type == definitions.ScriptStep && !inScript(n, path)
}

// accepted reports whether a result is no answer of a person but to accept:
// others are asked for again.
func accepted(path string, result json.RawMessage) bool {
	var answer workflows.Answer
	isAnswer := json.Unmarshal(result, &answer) == nil && strings.HasPrefix(answer.ElicitationID, path+"#")
	return !isAnswer || answer.Action == workflows.Accept
}

func continues(n *definitions.Node) bool {
	return n.Step.OnError != nil && n.Step.OnError.Action == definitions.Continue
}

// settledGate says whether the run went on with an answer: one that let the
// step fail is asked for again.
func settledGate(n *definitions.Node, result json.RawMessage) bool {
	var answer workflows.Answer
	if json.Unmarshal(result, &answer) != nil {
		return false
	}
	handler := n.Step.OnCancel
	switch answer.Action {
	case workflows.Accept:
		return true
	case workflows.Decline:
		handler = n.Step.OnDecline
	}
	return continues(n) || handler != nil && handler.Action != "" && handler.Action != definitions.Abort
}

// give takes the results that the request gives.
func (r *repairer) give() error {
	for _, path := range slices.Sorted(maps.Keys(r.req.Results)) {
		n, _ := r.program.At(path)
		if n == nil || n.Step.Tool == "" && n.Step.Workflow == "" && !inScript(n, path) {
			return fmt.Errorf("run %s has no tool step at %q whose result could be given", r.id, path)
		}
		if plan := r.called[path]; plan != nil && plan.goesOn {
			return fmt.Errorf("the run %s that step %s has called goes on: its result cannot be given; cancel it first", r.record.Journal[path].Child.ID, path)
		}
		output, err := objectResult(r.req.Results[path])
		if err != nil {
			return fmt.Errorf("the result for %s: %w", path, err)
		}
		r.journal[path] = r.given(path, output)
		r.fates[path] = FateGiven
		delete(r.unsettled, path)
	}
	return nil
}

// given is the entry of a call, or of a called run, whose result somebody gives.
func (r *repairer) given(path string, output json.RawMessage) workflows.JournalEntry {
	was := r.record.Journal[path]
	e := workflows.JournalEntry{Result: output, Order: r.nextOrder(), Tool: cmp.Or(was.Tool, r.unsettled[path].Call.Tool), Effects: was.Effects}
	if was.Error != nil {
		e.Tool = cmp.Or(e.Tool, was.Error.Tool)
	}
	return e
}

// nextOrder is after that of all entries.
func (r *repairer) nextOrder() int {
	last := 0
	for _, e := range r.journal {
		last = max(last, e.Order)
	}
	return last + 1
}

// objectResult makes a tool's result of its output.
func objectResult(output json.RawMessage) (json.RawMessage, error) {
	v, err := template.DecodeValue(output)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("it must be a JSON object")
	}
	encoded, err := template.EncodeValue(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(workflows.ToolResult{Output: encoded})
}

// settle takes what is said of calls whose outcome is not known.
func (r *repairer) settle(plan *RetryPlan) error {
	for path := range r.req.Unknown {
		if _, ok := r.unsettled[path]; !ok && compensated(path) == "" && r.fates[path] != FateGiven {
			return fmt.Errorf("run %s has no call of unknown outcome at %q", r.id, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.unsettled)) {
		u := r.unsettled[path]
		u.Anew = r.changed
		switch said := r.said(path); said {
		case workflows.Happened:
			output, err := objectResult(json.RawMessage("{}"))
			if err != nil {
				return err
			}
			r.journal[path] = r.given(path, output)
			r.fates[path] = FateGiven
		case workflows.NotHappened:
			delete(r.journal, path)
			if r.record.Input.WasReset { // else the call of then would be found and count
				u.NotHappened = true
				r.journal[path] = workflows.JournalEntry{Unsettled: &u}
			}
			r.fates[path] = FateFailed
		case AskAgain:
			u.Ask = true
			r.journal[path] = workflows.JournalEntry{Unsettled: &u}
			r.fates[path] = FateAsk
		case "":
			plan.Unsettled = append(plan.Unsettled, UnsettledCall{Path: path, Unsettled: u})
		default:
			return fmt.Errorf("what became of %s: %q is not known; say happened, not_happened or ask", path, said)
		}
	}
	return nil
}

// tool finds a tool by the name that a step uses, or that clients know.
func (r *repairer) tool(name string) (definitions.Tool, bool) {
	if t, ok := r.record.Input.Tools[name]; ok {
		return t, true
	}
	for _, t := range r.record.Input.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return definitions.Tool{}, false
}

// describe says what becomes of each step that has begun.
func (r *repairer) describe(plan *RetryPlan) {
	for _, path := range slices.Sorted(maps.Keys(r.fates)) {
		step := RetryStep{Path: path, Fate: r.fates[path]}
		if n, _ := r.program.At(path); n != nil {
			step.Tool = cmp.Or(n.Step.Tool, n.Step.Workflow, r.record.Journal[path].Tool)
		}
		if tool, ok := r.tool(step.Tool); ok {
			step.Effect = string(cmp.Or(tool.Effect, definitions.Unsafe))
			executed := step.Fate == FateAgain && !r.undone[path] || step.Fate == FateSame
			step.Risk = executed && (tool.Effect == "" || tool.Effect == definitions.Unsafe)
		}
		plan.Steps = append(plan.Steps, step)
	}
}
