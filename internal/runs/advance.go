package runs

import (
	"cmp"
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// An advance counts how far a run is: with steps by their events, with a script by its
// progress.
type advance struct {
	tools  map[string]definitions.Tool
	plan   map[string]planStep
	under  map[string]int  // calls under way, by step ID
	done   map[string]bool // by step ID
	script bool            // the definition is one
	far    far             // the progress that a script reports
}

// A planStep is a step of the definition, as far as counting needs it.
type planStep struct {
	ID        string               `json:"id"`
	Type      definitions.StepType `json:"type"`
	DependsOn []string             `json:"dependsOn"`

	OnUnknown definitions.OnUnknown `json:"onUnknown"`
	Probe     json.RawMessage       `json:"probe"`
}

func newAdvance() advance {
	return advance{plan: map[string]planStep{}, under: map[string]int{}, done: map[string]bool{}}
}

// now is how much is done, of what there is to do; a total of 0 = it is unknown.
func (a *advance) now() (done, total float64) {
	if a.script {
		return a.far.before + a.far.done, a.far.all()
	}
	return float64(len(a.done)), float64(len(a.plan))
}

// began takes the plan of the run from its input. Without that nothing is counted.
func (a *advance) began(in *workflows.RunInput) {
	a.tools = in.Tools
	var source struct {
		Steps []planStep `json:"steps"`
	}
	_ = json.Unmarshal(in.Definition.Source, &source)
	if len(source.Steps) == 0 {
		a.script = true
		source.Steps = []planStep{{ID: definitions.ScriptID, Type: definitions.ScriptStep}}
	}
	for _, s := range source.Steps {
		a.plan[s.ID] = s
	}
}

// executed notes that another execution continues with the run.
func (a *advance) executed() { clear(a.under) }

func (a *advance) callStarted(c *history.Call) {
	a.under[c.Path.Top()]++
	a.begun(c.Path.Top())
}

func (a *advance) callEnded(c history.CallEnded) {
	id := c.Call.Path.Top()
	if c.Quick {
		a.begun(id)
	} else if a.under[id] > 0 { // else it began before the execution that is read
		a.under[id]--
	}
	switch c.Status {
	case history.StepNeedsCredentials, history.StepHeld:
		return
	}
	if !a.mayGoOn(c) {
		a.finished(id)
	}
}

// mayGoOn reports whether a step may continue after a call: the call was a probe, or
// its outcome is unknown and the run finds out.
func (a *advance) mayGoOn(c history.CallEnded) bool {
	if c.Call.Path.IsProbe() {
		return true
	}
	known := c.Failure.None() || c.Failure.OfCall() && c.Failure.Reported().Category != codes.CategoryOutcomeUnknown
	step, tool := a.plan[c.Call.Path.Top()], a.tools[c.Call.What]
	asks := cmp.Or(step.OnUnknown, tool.OnUnknown) == definitions.Ask
	return !known && !workflows.Repeatable(tool.Effect) && (asks || step.Probe != nil || tool.Probe != nil)
}

func (a *advance) elicitation(c history.ElicitationChanged) {
	e := c.Elicitation
	a.begun(e.StepPath.Top())
	if c.Change == history.Closed && e.Kind == workflows.ForCaller && e.Run == "" { // otherwise the step continues
		a.finished(e.StepPath.Top())
	}
}

func (a *advance) ended(o *Outcome) {
	if o.Status == workflows.Completed {
		for id := range a.plan {
			a.done[id] = true
		}
	}
}

// begun notes that a step has started, so that those before it are done. It counts
// skipped ones, which leave no trace, and those whose end history does not show
// (forEach, and calls of unknown outcome).
func (a *advance) begun(id string) {
	for _, before := range a.plan[id].DependsOn {
		if _, known := a.plan[before]; known && !a.done[before] {
			a.done[before] = true
			a.begun(before)
		}
	}
}

// finished notes that work of a step has ended.
func (a *advance) finished(id string) {
	s, known := a.plan[id]
	if known && !s.Type.Traits().Composed && a.under[id] <= 0 {
		a.done[id] = true
	}
}

// A far is the progress that a script reports. If a script starts to count anew, the
// total continues from what it has counted.
type far struct {
	before, done, total float64 // total 0 = unknown
}

func (f *far) tell(line workflows.ScriptLine) {
	if line.Done <= 0 && line.Total <= 0 { // a line of its log
		return
	}
	if line.Done < f.done {
		f.before += f.done
	}
	f.done, f.total = line.Done, line.Total
}

// all is what there is to do; 0 = unknown.
func (f *far) all() float64 {
	if f.total < f.done {
		return 0
	}
	return f.before + f.total
}
