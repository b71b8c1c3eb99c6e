package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// A Program is a compiled definition: its templates parsed, its steps in order. It is
// immutable and may be used by many runs at a time.
type Program struct {
	Definition  *Definition
	Steps       []*Node      // in the order of the definition
	OutputBlock *OutputBlock // nil = none

	order []*Node
}

// A Node is a step of a program.
type Node struct {
	Step  *Step
	ID    string
	Deps  []string // steps to wait for: dependsOn, and those whose results its templates read; in the order of the definition
	Inner *Node    // the inner step of a forEach

	Continues bool // the run continues if the step fails; of an inner step, the loop does

	Templates Templates
	Probe     *ProbeProgram     // nil = the step has none
	Script    *starlark.Program // of a script step

	beside             []string             // content blocks that templates read of the step; see Program.Beside
	workflows          []string             // composite tools visible in the script, as written
	whole              bool                 // the script is the definition, and gets all arguments
	schema             template.SchemaCache // of the tool
	compensationSchema template.SchemaCache
}

// Templates are the parsed texts of a step. The template of an empty field gives "".
type Templates struct {
	Condition, Message, Collection, Collect, For, Until *template.Template

	Arguments    template.Argument
	Compensation template.Argument // of the call that undoes the step
}

// Compile compiles a definition. Every definition that Check finds without errors
// compiles. The error names the step and the field.
func Compile(d *Definition) (*Program, error) {
	if n := len(d.Steps); n > MaxSteps {
		return nil, fmt.Errorf("there are %d steps; at most %d are allowed", n, MaxSteps)
	}
	p := &Program{Definition: d}
	for _, step := range d.AllSteps() {
		node, err := compileStep(step, d.compiler)
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
	if p.OutputBlock, err = compileOutput(output); err != nil {
		return nil, err
	}
	p.noteBeside()
	return p, nil
}

// FailedOutput is the output of the step after a failure with which it, or its loop,
// continues; ok = it has one. An item that only its loop continues has its defaultResults.
func (n *Node) FailedOutput() (output any, ok bool) {
	if n.Step.Continues() || n.Continues && n.Step.DefaultResults.Given {
		return n.Step.Defaults(), true
	}
	return nil, false
}

// compileStep compiles a step, and those within it; scripts compiles its script.
func compileStep(step *Step, scripts *compiler) (*Node, error) {
	n := &Node{Step: step, ID: step.ID, Continues: step.Continues()}
	err := n.Templates.parse(step)
	if err != nil {
		return nil, err
	}
	if n.Probe, err = CompileProbe(step.Probe); err != nil {
		return nil, err
	}
	if step.Code.given() {
		if n.Script, err = scripts.program(&step.Code); err != nil {
			return nil, err
		}
		for _, call := range n.ScriptCalls() {
			if call.Kind == CallsWorkflow && call.Name != "" {
				n.workflows = append(n.workflows, call.Name)
			}
		}
	}
	if step.Step != nil {
		if n.Inner, err = compileStep(step.Step, scripts); err != nil {
			return nil, fmt.Errorf("inner step: %w", err)
		}
		n.Inner.Continues = n.Inner.Continues || n.Continues
	}
	return n, nil
}

// parse parses the texts of a step.
func (t *Templates) parse(step *Step) (err error) {
	for _, f := range []struct {
		name, text string
		into       **template.Template
	}{
		{"condition", step.Condition, &t.Condition},
		{"message", step.Message, &t.Message},
		{"collection", step.Collection, &t.Collection},
		{"collect", step.Collect, &t.Collect},
		{"for", step.For, &t.For},
		{"until", step.Until, &t.Until},
	} {
		if *f.into, err = compileField(f.name, f.text); err != nil {
			return err
		}
	}
	if t.Arguments, err = template.ParseArgument(orEmpty(step.Arguments), "arguments"); err != nil {
		return err
	}
	if step.Compensate != nil {
		t.Compensation, err = template.ParseArgument(orEmpty(step.Compensate.Arguments), "compensate.arguments")
	}
	return err
}

func compileField(field, text string) (*template.Template, error) {
	t, err := template.Parse(text)
	return t, template.InField(field, err)
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
			addReads(ids, t)
		}
	}
	return ids
}

// addReads adds the steps whose data a template reads.
func addReads(ids map[string]bool, t *template.Template) {
	for _, ref := range t.Refs() {
		if ref.Root == "steps" && len(ref.Path) > 0 {
			ids[ref.Path[0]] = true
		}
	}
}

// templates gives the templates of n itself.
func (n *Node) templates() []*template.Template {
	t := &n.Templates
	own := []*template.Template{t.Condition, t.Message, t.Collection, t.Collect, t.For, t.Until}
	return slices.Concat(own, t.Arguments.Templates(), t.Compensation.Templates(), n.Probe.templates())
}

// sort repeatedly takes the first step whose dependencies have all been taken.
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

// Order gives the steps so that each comes after those that it waits for; of several
// possible next steps, the first of the definition.
func (p *Program) Order() []*Node { return p.order }

// Data is what templates read. A *Scope is that of a run.
type Data interface{ Data() map[string]any }

// Condition reports whether the step is to run: its condition gives true, True or TRUE,
// but for white space around it, or it has none. Anything else but false, False or
// FALSE is an error.
func (n *Node) Condition(d Data) (bool, error) {
	if n.Step.Condition == "" {
		return true, nil
	}
	return holds("condition", n.Templates.Condition, d)
}

// ConditionReads says what the condition of the step reads, for people; "" = nothing.
func (n *Node) ConditionReads(d Data) string {
	if n.Templates.Condition == nil {
		return ""
	}
	return n.Templates.Condition.DescribeReads(d.Data())
}

// holds reports whether a template gives true.
func holds(field string, t *template.Template, d Data) (bool, error) {
	text, err := t.Text(d.Data())
	if err != nil {
		return false, template.InField(field, err)
	}
	holds, err := Truth(text)
	return holds, template.InField(field, err)
}

// Truth reads the text of a condition.
func Truth(text string) (bool, error) {
	switch strings.TrimSpace(text) {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("rendered to %s, which is neither true nor false", template.Excerpt(text))
}

// Arguments expands the arguments of a tool step, each value in the type of the tool's
// input schema if possible. A member whose expression is missing is left out; such an
// element of an array is null. With an empty schema all values are text.
func (n *Node) Arguments(d Data, inputSchema json.RawMessage) (json.RawMessage, error) {
	return encoded("arguments", n.Templates.Arguments, d, &n.schema, inputSchema)
}

func encoded(field string, a template.Argument, d Data, cache *template.SchemaCache, inputSchema json.RawMessage) (json.RawMessage, error) {
	schema, err := cache.Of(inputSchema)
	if err != nil {
		return nil, template.InField(field, err)
	}
	return a.Encode(d.Data(), schema, field)
}

// AnySchema is the schema of a script's data: an argument that is exactly one
// expression keeps its value's shape, and text stays text.
var AnySchema = json.RawMessage(`{"type":"object","additionalProperties":{"$ref":"#/$defs/any"},"$defs":{"any":{` +
	`"type":["string","boolean","integer","number","array","object"],"items":{"$ref":"#/$defs/any"},"additionalProperties":{"$ref":"#/$defs/any"}}}}`)

// Data expands the arguments of a script step into the script's data. A definition that
// is a script gets the arguments of the call.
func (n *Node) Data(d Data) (json.RawMessage, error) {
	if !n.whole {
		return n.Arguments(d, AnySchema)
	}
	data, err := template.EncodeValue(d.Data()["params"])
	return data, template.InField("arguments", err)
}

// Compensation expands the arguments of the call that undoes the step, as
// Arguments does. The scope is that of the step, with its output as Output and
// its own entry in Steps. Without a compensation it is an empty object.
func (n *Node) Compensation(d Data, inputSchema json.RawMessage) (json.RawMessage, error) {
	if n.Step.Compensate == nil {
		return json.RawMessage("{}"), nil
	}
	return encoded("compensate.arguments", n.Templates.Compensation, d, &n.compensationSchema, inputSchema)
}

// Message expands the message of an elicitation.
func (n *Node) Message(d Data) (string, error) {
	text, err := n.Templates.Message.Text(d.Data())
	return text, template.InField("message", err)
}

// Output expands the output block into the result of the run, each property
// of its declared type. It is nil without an output block.
func (p *Program) Output(d Data, standIn StandIn) (json.RawMessage, error) {
	if p.OutputBlock == nil {
		return nil, nil
	}
	result, err := p.OutputBlock.expand(d.Data(), standIn)
	if err != nil {
		return nil, err
	}
	encoded, err := template.EncodeExpanded(result)
	return encoded, template.InField("output", err)
}
