package definitions

import (
	"fmt"
	"slices"
	"strings"
)

// A StepKind is a type of steps, for the language, its checks and its pictures. A dry
// run needs a view.StepKind and a run a workflows.StepKind, which extend it.
// docs/contributing.md says how to add a type.
type StepKind interface {
	// Type is the value of type in a step of the kind.
	Type() StepType
	// Keys are those of the language that belong to the kind.
	Keys() StepKeys
	// Traits are what the rest of the program asks for.
	Traits() Traits
	// Check reports mistakes in a step, apart from keys that all steps have and keys of
	// other kinds.
	Check(at StepCheck)
	// Output names the possible fields of a step's output; nil = any.
	Output(s *Step) []string
	// Does describes a step in a few words.
	Does(s *Step) string
	// Look is how pictures show steps.
	Look() Look
}

// StepKeys are keys of the language, as they are written in YAML.
type StepKeys struct {
	Own    []string // a step may have these, besides those of all steps
	Must   []string // a step needs all of these
	Either []string // a step needs exactly one of these
	Not    []string // a step must not have these of all steps
}

// Traits of a kind of steps.
type Traits struct {
	Asks     bool // it asks a person, so it has action, content, by and at
	Waits    bool // a run may wait in it for a person or for a time
	Composed bool // it has several parts, each recorded by itself
	Retried  bool // onError may be retry; if not always, Check decides
	Sure     bool // it cannot fail once its time has come
	Blocks   bool // its content is the content blocks of its output
	Counts   bool // if it continues, its output is there also when parts of it have failed
}

// A Shape is the outline of a step in a picture.
type Shape int

// The shapes.
const (
	Box Shape = iota
	Hexagon
	Stack
	Pill
	Square
)

// A Look is how pictures show a step.
type Look struct {
	Symbol     string    // in a terminal, one column wide
	Fill, Line string    // colours of SVG on a light page
	Dark       [2]string // the same on a dark one
	Shape      Shape     // in SVG
	Mermaid    [2]string // the brackets around the text in Mermaid
}

// Kinds are the kinds of steps in one layer of the program.
type Kinds[K StepKind] []K

// Of is the kind of steps of a type; without a type, that of tool steps.
func (all Kinds[K]) Of(typ StepType) (k K, known bool) {
	if typ == "" {
		typ = ToolStep
	}
	i := slices.IndexFunc(all, func(k K) bool { return k.Type() == typ })
	if i < 0 {
		return k, false
	}
	return all[i], true
}

// Must is a kind that is known. It panics if a list of kinds lacks one that the list of
// another layer has.
func Must[K StepKind](k K, known bool) K {
	if !known {
		panic("a list of kinds of steps is not complete")
	}
	return k
}

// kinds of steps of the language, in the order in which messages name them.
var kinds = Kinds[StepKind]{toolKind{}, elicitationKind{}, forEachKind{}, waitKind{}, workflowKind{}, scriptKind{}}

// RegisterKind adds a kind of steps. It is called before there are definitions, such
// as in init, and panics if the type is taken.
func RegisterKind(k StepKind) {
	if _, taken := KindOf(k.Type()); taken {
		panic(fmt.Sprintf("steps of type %s are of another kind", k.Type()))
	}
	kinds = append(kinds, k)
}

// KindOf is the kind of steps of a type, as [Kinds.Of] gives it.
func KindOf(typ StepType) (k StepKind, known bool) { return kinds.Of(typ) }

// Traits of steps of the type; of an unknown type those of the one that is meant, if any.
func (t StepType) Traits() Traits {
	if k, known := KindOf(t); known {
		return k.Traits()
	}
	if meant := meantStepType(string(t)).means; meant != "" {
		return meant.Traits()
	}
	return Traits{}
}

// StepTypes are the types that a step can have, in the order in which messages name them.
func StepTypes() []string {
	types := make([]string, len(kinds))
	for i, k := range kinds {
		types[i] = string(k.Type())
	}
	return types
}

// A StepCheck is the check of one step.
type StepCheck struct {
	c *checker
	n node
}

// Step that is looked at.
func (s StepCheck) Step() *Step { return s.n.step }

// Errorf reports a mistake in a key of the step, such as onError.action, with one of
// the codes of diagnostics.
func (s StepCheck) Errorf(key, code, format string, args ...any) {
	s.c.stepErrorf(s.n, key, code, format, args...)
}

// Warnf reports what is likely to be a mistake.
func (s StepCheck) Warnf(key, code, format string, args ...any) {
	s.c.stepWarnf(s.n, key, code, format, args...)
}

// A stepKey is a key that only steps of some kinds have.
type stepKey struct {
	name string
	set  func(*Step) bool
}

// stepKeys are these keys.
var stepKeys = []stepKey{
	{"tool", func(s *Step) bool { return s.Tool != "" }},
	{"arguments", func(s *Step) bool { return s.Arguments != nil }},
	{"onUnknown", func(s *Step) bool { return s.OnUnknown != "" }},
	{"probe", func(s *Step) bool { return s.Probe != nil }},
	{"compensate", func(s *Step) bool { return s.Compensate != nil }},
	{"workflow", func(s *Step) bool { return s.Workflow != "" }},
	{"message", func(s *Step) bool { return s.Message != "" }},
	{"schema", func(s *Step) bool { return s.Schema != nil }},
	{"mode", func(s *Step) bool { return s.Mode != "" }},
	{"onDecline", func(s *Step) bool { return s.OnDecline != nil }},
	{"onCancel", func(s *Step) bool { return s.OnCancel != nil }},
	{"collection", func(s *Step) bool { return s.Collection != "" }},
	{"itemVar", func(s *Step) bool { return s.ItemVar != "" }},
	{"maxParallel", func(s *Step) bool { return s.MaxParallel != 0 }},
	{"maxIterations", func(s *Step) bool { return s.MaxIterations != 0 }},
	{"step", func(s *Step) bool { return s.Step != nil }},
	{"collect", func(s *Step) bool { return s.Collect != "" }},
	{"script", func(s *Step) bool { return s.Script != "" }},
	{"scriptFile", func(s *Step) bool { return s.ScriptFile != "" }},
	{"modules", func(s *Step) bool { return s.Modules != nil }},
	{"pinned", func(s *Step) bool { return s.Pinned != nil }},
	{"tools", func(s *Step) bool { return s.Tools != nil }},
	{"for", func(s *Step) bool { return s.For != "" }},
	{"until", func(s *Step) bool { return s.Until != "" }},
}

// owners are the types of steps that have the key.
func (k stepKey) owners() []string {
	var types []string
	for _, kind := range kinds {
		if k.of(kind) {
			types = append(types, string(kind.Type()))
		}
	}
	return types
}

func (k stepKey) of(kind StepKind) bool { return slices.Contains(kind.Keys().Own, k.name) }

// misplacedKeys reports keys that belong to steps of other kinds.
func (c *checker) misplacedKeys(n node, kind StepKind) {
	if n.step.Type == "" && n.step.Tool == "" {
		return // toolKind reports the missing type
	}
	for _, key := range stepKeys {
		if key.name == "tool" && n.step.Type == WorkflowStep && n.step.Workflow == "" {
			continue // workflowKind says what to write
		}
		if !key.of(kind) && key.set(n.step) {
			c.stepErrorf(n, key.name, "misplaced", "%s belongs to a step of type %s, and this one is of type %s%s",
				key.name, strings.Join(key.owners(), " or "), kind.Type(), map[bool]string{true: " since it has no type"}[n.step.Type == ""])
		}
	}
}

// likelyType is the type that the first key of a step which tool steps do not have
// belongs to; "" = none.
func (n node) likelyType() string {
	for _, key := range stepKeys {
		if !key.of(toolKind{}) && key.set(n.step) {
			return key.owners()[0]
		}
	}
	return ""
}
