package view

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
)

// A StepKind is a type of steps as a dry run needs it.
type StepKind interface {
	definitions.StepKind
	// Plan completes p.Step, and gives the most that the step can do.
	Plan(p StepPlan) PlanLimits
	// Headline says in a few words what a planned step would do.
	Headline(s PlannedStep) string
}

// A StepPlan is the plan of one step, under way.
type StepPlan struct {
	Step *PlannedStep // to be completed
	Node *definitions.Node

	planner *planner
	path    string
	data    data
	shown   int // items of a forEach
}

// kinds of steps that can be planned.
var kinds = definitions.Kinds[StepKind]{
	toolKind{definitions.Must(definitions.KindOf(definitions.ToolStep))},
	elicitationKind{definitions.Must(definitions.KindOf(definitions.ElicitationStep))},
	forEachKind{definitions.Must(definitions.KindOf(definitions.ForEachStep))},
	waitKind{definitions.Must(definitions.KindOf(definitions.WaitStep))},
	workflowKind{definitions.Must(definitions.KindOf(definitions.WorkflowStep))},
	scriptKind{definitions.Must(definitions.KindOf(definitions.ScriptStep))},
}

// RegisterKind adds a kind of steps, to definitions too, as
// [definitions.RegisterKind] does.
func RegisterKind(k StepKind) {
	definitions.RegisterKind(k)
	kinds = append(kinds, k)
}

// KindOf is the kind of steps of a type, as [definitions.Kinds.Of] gives it.
func KindOf(typ definitions.StepType) (k StepKind, known bool) { return kinds.Of(typ) }

type toolKind struct{ definitions.StepKind }

func (toolKind) Plan(p StepPlan) PlanLimits {
	p.Step.PlannedCall = p.planner.call(p.Node.Step.Tool, p.Node.Templates.Arguments, "arguments", p.data, p.Step)
	return callLimits(p.Step.PlannedCall, p.Node.Step.OnError)
}

func (toolKind) Headline(s PlannedStep) string {
	if s.PlannedCall == nil { // a plan of another build
		return "calls a tool"
	}
	return calls(s.PlannedCall)
}

type elicitationKind struct{ definitions.StepKind }

func (elicitationKind) Plan(p StepPlan) PlanLimits {
	message, err := p.Node.Message(p.data)
	question := planned(p.Node.Templates.Message, p.data, message, true, err)
	p.Step.Question = &question
	p.Step.blame("message", question)
	return PlanLimits{Questions: 1}
}

func (elicitationKind) Headline(PlannedStep) string { return "asks a person" }

type forEachKind struct{ definitions.StepKind }

func (forEachKind) Plan(p StepPlan) (limits PlanLimits) {
	p.Step.Loop, limits = p.planner.loop(p.Node, p.path, p.data, p.shown, p.Step)
	return limits
}

func (forEachKind) Headline(s PlannedStep) string {
	switch {
	case s.Loop == nil: // a plan of another build
		return "for each item"
	case s.Loop.Count == nil:
		return fmt.Sprintf("for each of at most %s, %d at a time", counted(int64(s.Loop.Most), "item"), s.Loop.Parallel)
	}
	return fmt.Sprintf("for each of %s, %d at a time", counted(int64(*s.Loop.Count), "item"), s.Loop.Parallel)
}

type waitKind struct{ definitions.StepKind }

func (waitKind) Plan(p StepPlan) PlanLimits {
	name, t := "for", p.Node.Templates.For
	if p.Node.Step.Until != "" {
		name, t = "until", p.Node.Templates.Until
	}
	text, err := p.Node.WaitText(p.data)
	value := planned(t, p.data, text, true, err)
	value.Name = name
	p.Step.Wait, p.Step.Timeout = &value, 0
	p.Step.blame(name, value)
	return PlanLimits{}
}

func (waitKind) Headline(PlannedStep) string { return "waits" }

type workflowKind struct{ definitions.StepKind }

func (workflowKind) Plan(p StepPlan) PlanLimits { return p.planner.workflow(p.Node, p.data, p.Step) }

func (workflowKind) Headline(s PlannedStep) string { return "calls the composite tool " + s.Workflow }

type scriptKind struct{ definitions.StepKind }

func (scriptKind) Plan(p StepPlan) PlanLimits { return p.planner.script(p.Node, p.data, p.Step) }

func (scriptKind) Headline(PlannedStep) string { return "runs a script" }
