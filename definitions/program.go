package definitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/starlark"
)

// A TemplateError says why a template of a step or of the output block could
// not be expanded to what its place needs.
type TemplateError struct {
	Field   string // where it stands: condition, arguments.outer.inner, output.summary.title
	Message string // what is wrong with it
}

// Error gives the field and the message.
func (e *TemplateError) Error() string { return e.Field + ": " + e.Message }

// A Program is a definition that is ready to run: its templates parsed, its
// steps in order. It is immutable and may be used by many runs at a time.
type Program struct {
	Definition *Definition
	Steps      []*Node // in the order of the definition

	order  []*Node
	output *outputBlock
}

// A Node is a step of a program.
type Node struct {
	Step  *Step
	ID    string
	Deps  []string // steps to wait for: dependsOn, and those whose results its templates read; in the order of the definition
	Inner *Node    // what a forEach repeats

	condition  *Template
	arguments  argument
	message    *Template
	collection *Template
	collect    *Template
	duration   *Template // for
	until      *Template
	schema     schemaCache // of the tool

	Probe  *ProbeProgram     // nil = the step has none
	Script *starlark.Program // of a script step
	whole  bool              // the script is the definition, and gets all arguments

	compensation       argument // arguments of the call that undoes the step
	compensationSchema schemaCache
}

// Compile makes a definition ready to run. Every definition without errors by
// Check compiles. The error names the step and the field.
func Compile(d *Definition) (*Program, error) {
	if n := len(d.Steps); n > MaxSteps {
		return nil, fmt.Errorf("there are %d steps; at most %d are allowed", n, MaxSteps)
	}
	p := &Program{Definition: d}
	for _, step := range d.AllSteps() {
		node, err := d.compileStep(step)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", step.ID, err)
		}
		node.whole = d.IsScript()
		p.Steps = append(p.Steps, node)
	}
	if err := p.connect(); err != nil {
		return nil, err
	}
	var err error
	output := d.Output
	if d.IsScript() {
		output = output.fromScript()
	}
	if p.output, err = compileOutput(output); err != nil {
		return nil, err
	}
	return p, nil
}

func (d *Definition) compileStep(step *Step) (*Node, error) {
	n := &Node{Step: step, ID: step.ID}
	fields := []struct {
		name, text string
		into       **Template
	}{
		{"condition", step.Condition, &n.condition},
		{"message", step.Message, &n.message},
		{"collection", step.Collection, &n.collection},
		{"collect", step.Collect, &n.collect},
		{"for", step.For, &n.duration},
		{"until", step.Until, &n.until},
	}
	var err error
	for _, f := range fields {
		if *f.into, err = compileField(f.name, f.text); err != nil {
			return nil, err
		}
	}
	if n.arguments, err = compileArgument(orEmpty(step.Arguments), "arguments"); err != nil {
		return nil, err
	}
	if n.Probe, err = CompileProbe(step.Probe); err != nil {
		return nil, err
	}
	if step.Compensate != nil {
		if n.compensation, err = compileArgument(orEmpty(step.Compensate.Arguments), "compensate.arguments"); err != nil {
			return nil, err
		}
	}
	if step.Type == ScriptStep {
		if n.Script, err = d.compileScript(&step.Code); err != nil {
			return nil, err
		}
	}
	if step.Step != nil {
		if n.Inner, err = d.compileStep(step.Step); err != nil {
			return nil, fmt.Errorf("inner step: %w", err)
		}
	}
	return n, nil
}

func compileField(field, text string) (*Template, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, &TemplateError{Field: field, Message: err.Message}
	}
	return t, nil
}

// connect sets the dependencies of all steps, and the order.
func (p *Program) connect() error {
	ids := map[string]bool{}
	for _, n := range p.Steps {
		if ids[n.ID] {
			return fmt.Errorf("two steps have the id %q", n.ID)
		}
		ids[n.ID] = true
	}
	for _, n := range p.Steps {
		for _, id := range n.Step.DependsOn {
			if !ids[id] {
				return fmt.Errorf("step %q depends on step %q, which does not exist", n.ID, id)
			}
		}
		reads := n.reads()
		for _, other := range p.Steps {
			if slices.Contains(n.Step.DependsOn, other.ID) || reads[other.ID] && other != n {
				n.Deps = append(n.Deps, other.ID)
			}
		}
	}
	return p.sort()
}

// reads gives the steps whose data the templates of n and of its inner step
// read by name.
func (n *Node) reads() map[string]bool {
	ids := map[string]bool{}
	for node := n; node != nil; node = node.Inner {
		for _, t := range node.templates() {
			t.reads(ids)
		}
	}
	return ids
}

// reads adds the steps whose data the template reads.
func (t *Template) reads(ids map[string]bool) {
	for _, ref := range t.Refs() {
		if ref.Root == "steps" && len(ref.Path) > 0 {
			ids[ref.Path[0]] = true
		}
	}
}

// templates gives the templates of n itself.
func (n *Node) templates() []*Template {
	own := []*Template{n.condition, n.message, n.collection, n.collect, n.duration, n.until}
	return slices.Concat(own, n.arguments.templates(), n.compensation.templates(), n.Probe.templates())
}

// sort takes, again and again, the first step of which all dependencies have
// been taken.
func (p *Program) sort() error {
	taken := map[string]bool{}
	for len(p.order) < len(p.Steps) {
		next := slices.IndexFunc(p.Steps, func(n *Node) bool {
			return !taken[n.ID] && !slices.ContainsFunc(n.Deps, func(id string) bool { return !taken[id] })
		})
		if next < 0 {
			var waiting []string
			for _, n := range p.Steps {
				if !taken[n.ID] {
					waiting = append(waiting, n.ID)
				}
			}
			return fmt.Errorf("steps wait for each other: %s", strings.Join(waiting, ", "))
		}
		taken[p.Steps[next].ID] = true
		p.order = append(p.order, p.Steps[next])
	}
	return nil
}

// Order gives the steps so that each comes after those that it waits for; of
// several that could come next, the first of the definition.
func (p *Program) Order() []*Node { return p.order }

// At gives the node that is executed at a step path such as deploy, check[17] or
// each[2]/inner[0], and the forEach of which it is an item, if it is one. A call
// of a script, such as script/main:12, is executed at the script's node. Both
// are nil where no step stands.
func (p *Program) At(path string) (n, loop *Node) {
	end := len(path)
	if i := strings.IndexAny(path, "[/"); i >= 0 {
		end = i
	}
	i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == path[:end] })
	if i < 0 {
		return nil, nil
	}
	n = p.Steps[i]
	for rest := path[end:]; rest != ""; {
		switch {
		case n.Step.Type == ScriptStep && isSite(rest):
			return n, loop
		case n.Inner == nil:
			return nil, nil
		}
		_, after, closed := strings.Cut(rest, "]")
		if rest[0] != '[' || !closed {
			return nil, nil
		}
		n, loop, rest = n.Inner, n, after
		if n.Inner != nil {
			if rest, closed = strings.CutPrefix(rest, "/"+cmp.Or(n.ID, "step")); !closed {
				return nil, nil
			}
		}
	}
	return n, loop
}

// Condition says whether the step is to run: whether its condition renders to
// true, True or TRUE, white space around it aside, or it has none. What is
// neither that nor false, False or FALSE is an error.
func (n *Node) Condition(s *Scope) (bool, error) {
	if n.Step.Condition == "" {
		return true, nil
	}
	text, err := n.condition.Text(s.data())
	if err != nil {
		return false, &TemplateError{Field: "condition", Message: err.Error()}
	}
	run, err := truth(text)
	if err != nil {
		return false, &TemplateError{Field: "condition", Message: err.Error()}
	}
	return run, nil
}

// truth reads what a condition rendered to.
func truth(text string) (bool, error) {
	switch strings.TrimSpace(text) {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("rendered to %s, which is neither true nor false", excerpt(text))
}

// Arguments expands the arguments of a tool step, with each value of the type
// that the tool's input schema asks for where it can be. A member whose
// expression has no value is left out; such an element of an array is null.
// An empty schema asks for nothing.
func (n *Node) Arguments(s *Scope, inputSchema json.RawMessage) (json.RawMessage, error) {
	return n.arguments.encode(s, &n.schema, inputSchema, "arguments")
}

// anyData is the schema of a script's data: an argument that is exactly one
// expression keeps its value's shape, and text stays text.
var anyData = json.RawMessage(`{"type":"object","additionalProperties":{"$ref":"#/$defs/any"},"$defs":{"any":{` +
	`"type":["string","boolean","integer","number","array","object"],"items":{"$ref":"#/$defs/any"},"additionalProperties":{"$ref":"#/$defs/any"}}}}`)

// Data expands the arguments of a script step into what the script gets as its
// data. A definition that is a script gets the arguments of the call.
func (n *Node) Data(s *Scope) (json.RawMessage, error) {
	if !n.whole {
		return n.Arguments(s, anyData)
	}
	data, err := EncodeValue(orEmpty(s.Params))
	if err != nil {
		return nil, &TemplateError{Field: "arguments", Message: err.Error()}
	}
	return data, nil
}

// Compensation expands the arguments of the call that undoes the step, as
// Arguments does. The scope is that of the step, with its output as Output and
// its own entry in Steps. Without a compensation it is an empty object.
func (n *Node) Compensation(s *Scope, inputSchema json.RawMessage) (json.RawMessage, error) {
	if n.Step.Compensate == nil {
		return json.RawMessage("{}"), nil
	}
	return n.compensation.encode(s, &n.compensationSchema, inputSchema, "compensate.arguments")
}

// Message expands the message of an elicitation.
func (n *Node) Message(s *Scope) (string, error) {
	text, err := n.message.Text(s.data())
	if err != nil {
		return "", &TemplateError{Field: "message", Message: err.Error()}
	}
	return text, nil
}

// Output expands the output block into the result of the run, each property
// of its declared type. It is nil without an output block.
func (p *Program) Output(s *Scope) (json.RawMessage, error) {
	if p.output == nil {
		return nil, nil
	}
	result, err := p.output.expand(s.data())
	if err != nil {
		return nil, err
	}
	encoded, err := encodeExpanded(result)
	if err != nil {
		return nil, &TemplateError{Field: "output", Message: err.Error()}
	}
	return encoded, nil
}
