package deftest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// echo is the value of default under which tools answer with their arguments.
const echo = "echo"

// readCase reads a case; nil if it cannot be read.
func (p *parser) readCase(doc *document, defs []*definitions.Definition, index int) *Case {
	node := &doc.Cases[index]
	c := &Case{index: index, node: node, tools: map[string]definitions.Tool{}, mocks: map[string][]*response{}}
	if !p.decode(node, &c.written) {
		return nil
	}
	w := &c.written
	c.Name, c.Pos = w.Name, w.Pos
	if c.Pos.Line == 0 {
		c.Pos = p.position(node)
		p.errorf(c.Pos, "type", "a case is empty")
		return nil
	}
	if c.Name == "" {
		p.errorf(c.Pos, "required", "name is required: what the case is about")
	}
	c.Definition = p.called(c.Pos, defs, cmp.Or(w.Call, doc.Call))
	if c.Definition == nil {
		return nil
	}
	c.find = definitions.Among(defs)
	c.echo = p.defaults(c.at("default"), w.Default) || w.Default == "" && p.defaults(doc.Pos, doc.Default)
	p.tools(c, doc)
	p.answers(c)
	p.expectations(c)
	return c
}

// called gives the definition that a case calls; nil if it is not found.
func (p *parser) called(pos definitions.Position, defs []*definitions.Definition, name string) *definitions.Definition {
	if defs == nil {
		return nil // already reported
	}
	var names []string
	for _, d := range defs {
		if d.Name == name || name == "" && len(defs) == 1 {
			return d
		}
		names = append(names, d.Name)
	}
	if name == "" {
		p.errorf(pos, "required", "call is required, since there are several definitions: %s", strings.Join(names, ", "))
	} else {
		p.errorf(pos, "unknown-name", "call: definition %q not found; known definitions: %s", name, strings.Join(names, ", "))
	}
	return nil
}

// defaults reads what tools without a response do, and reports whether they echo.
func (p *parser) defaults(pos definitions.Position, name string) bool {
	if name != "" && name != echo {
		p.errorf(pos, "value", "default: %q is not known; the only default is %s: tools without a response answer with their arguments", name, echo)
	}
	return name == echo
}

// tools joins the entries of the file and the case for each tool.
func (p *parser) tools(c *Case, doc *document) {
	used := append(c.Definition.ToolNames(), p.dynamicTools(c, doc)...)
	called, _ := c.Definition.Called(c.find)
	for _, d := range called {
		used = append(used, d.ToolNames()...)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	for _, name := range used {
		as := p.testName(c, doc, name)
		t := doc.Tools[as]
		switch t.Effect {
		case "", definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe:
		default:
			p.errorf(t.Pos, "value", "effect: %q is not known; known values: read, idempotent, keyed, unsafe", t.Effect)
		}
		c.tools[name] = p.tool(name, as, t)
		returns := c.written.Tools[as]
		if returns.IsZero() {
			returns = t.Returns
		}
		if !returns.IsZero() && c.mocks[as] == nil {
			c.mocks[as] = p.responses(c, &returns)
		}
	}
	if len(doc.Tools)+len(c.written.Tools) > 0 {
		p.unused(c, doc, used)
	}
}

// dynamicTools are the tools of the test that scripts may call by a computed name.
func (p *parser) dynamicTools(c *Case, doc *document) []string {
	var names []string
	written := append(slices.Collect(maps.Keys(doc.Tools)), slices.Collect(maps.Keys(c.written.Tools))...)
	for _, name := range written {
		if p.mayBeCalled(c.Definition, name, doc.Tools[name]) {
			names = append(names, name)
		}
	}
	return names
}

// tool joins the file's entry for a tool with what the catalogue knows. as is its name
// in the tests.
func (p *parser) tool(name, as string, written toolFile) definitions.Tool {
	backend, original, dotted := strings.Cut(name, ".")
	if !dotted {
		backend, original = "test", name
	}
	tool := definitions.Tool{Backend: backend, Original: original}
	if p.src.Tools != nil {
		if known, ok := p.src.Tools(name); ok {
			tool = known
			tool.Backend = cmp.Or(tool.Backend, backend)
			tool.Original = cmp.Or(tool.Original, original)
		}
	}
	if written.InputSchema != nil {
		tool.InputSchema = written.InputSchema
	}
	if written.OutputSchema != nil {
		tool.OutputSchema = written.OutputSchema
	}
	tool.Name = as
	tool.Backend = cmp.Or(written.Backend, tool.Backend)
	tool.Original = cmp.Or(written.Original, tool.Original)
	tool.Effect = cmp.Or(written.Effect, tool.Effect, definitions.Unsafe)
	tool.KeyArgument = cmp.Or(written.KeyArgument, tool.KeyArgument)
	return tool
}

// unused reports tools that no step calls: most are misspelled.
func (p *parser) unused(c *Case, doc *document, used []string) {
	for _, name := range slices.Sorted(maps.Keys(c.written.Tools)) {
		if !p.isUsed(doc, used, name) {
			node := c.written.Tools[name]
			p.errorf(p.position(&node), "unknown-name", "tools: no step of %s calls %q; they call %s", c.Definition.Name, name, strings.Join(used, ", "))
		}
	}
	if doc.Call == "" && c.written.Call != "" {
		return // the tools of the file belong to several definitions
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Tools)) {
		if !p.isUsed(doc, used, name) {
			p.errorf(doc.Tools[name].Pos, "unknown-name", "tools: no step of %s calls %q; they call %s", c.Definition.Name, name, strings.Join(used, ", "))
		}
	}
}

func (p *parser) answers(c *Case) {
	for _, a := range c.written.Answers {
		switch a.Action {
		case "accept", "decline", "cancel":
		case "":
			p.errorf(a.Pos, "required", "action is required: accept, decline or cancel")
		default:
			p.errorf(a.Pos, "value", "action: %q is not known; known values: accept, decline, cancel", a.Action)
		}
		if a.Content != nil && a.Action != "accept" {
			p.errorf(a.Pos, "value", "content: only an answer with action accept has content")
		}
		if a.Step != "" {
			p.step(c, a.Pos, "step", a.Step)
		}
	}
}

// step reports a step, or the path of one, that the definition does not have.
func (p *parser) step(c *Case, pos definitions.Position, field, path string) {
	if !hasStep(c.Definition, path) {
		p.errorf(pos, "unknown-name", "%s: %s has no step %q; known steps: %s", field, c.Definition.Name, path, strings.Join(stepIDs(c.Definition), ", "))
	}
}

func hasStep(d *definitions.Definition, path string) bool {
	return slices.Contains(stepIDs(d), definitions.StepPath(path).Top())
}

func stepIDs(d *definitions.Definition) []string {
	steps := d.AllSteps()
	ids := make([]string, len(steps))
	for i, s := range steps {
		ids[i] = s.ID
	}
	return ids
}

// expectations checks before the run that what is expected names steps and tools of
// the definition.
func (p *parser) expectations(c *Case) {
	e := &c.written.Expect
	if e.Result != nil && e.ResultIncludes != nil {
		p.errorf(e.Pos, "value", "result is the whole result and resultIncludes a part of it; one of the two is enough")
	}
	if e.Error != nil && (e.Result != nil || e.ResultIncludes != nil) {
		p.errorf(e.Error.Pos, "value", "a run has either a result or an error")
	}
	for field, ids := range map[string][]string{"completed": e.Completed, "failed": e.Failed, "skipped": e.Skipped, "compensated": e.Compensated} {
		for i, id := range ids {
			p.step(c, c.at("expect", field, i), field, id)
		}
	}
	for _, q := range e.Elicitations {
		if q.Step != "" {
			p.step(c, q.Pos, "step", q.Step)
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(e.Calls)) {
		if !c.calls(tool) {
			p.errorf(c.at("expect", "calls", tool), "unknown-name", "calls: no step of %s calls %q; they call %s",
				c.Definition.Name, tool, strings.Join(c.Definition.ToolNames(), ", "))
		}
		p.expectedCalls(e.Calls[tool])
	}
	for i, order := range e.Order {
		p.order(c, c.at("expect", "order", i), order)
	}
}

// expectedCalls checks the entry of a tool in calls.
func (p *parser) expectedCalls(node yaml.Node) {
	_, diags := readCalls(p.file.Name, &node)
	p.diags = append(p.diags, diags...)
}

// before separates names in order.
const before = " before "

func (p *parser) order(c *Case, pos definitions.Position, order string) {
	names := strings.Split(order, before)
	if len(names) < 2 {
		p.errorf(pos, "value", "order: %q does not say what comes first; write: a before b", order)
		return
	}
	for _, name := range names {
		if !c.calls(name) && !hasStep(c.Definition, name) {
			p.errorf(pos, "unknown-name", "order: %q is neither a step of %s nor a tool that it calls", name, c.Definition.Name)
		}
	}
}

// at gives the position of the value at a path of keys and indices in a case, or of
// the nearest value around it.
func (c *Case) at(path ...any) definitions.Position {
	node := c.node
	for _, step := range path {
		next := definitions.Child(node, step)
		if next == nil {
			break
		}
		node = next
	}
	return definitions.Position{File: c.Pos.File, Line: node.Line, Column: node.Column}
}
