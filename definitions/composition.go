package definitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// Definitions finds the definition that a reference means.
type Definitions func(Reference) (*Definition, bool)

// Among finds definitions in a list: the first of the name, if its version matches. One
// without a version matches only a reference without one.
func Among(defs []*Definition) Definitions {
	return func(ref Reference) (*Definition, bool) {
		i := slices.IndexFunc(defs, func(d *Definition) bool { return d != nil && d.Name == ref.Name })
		if i < 0 || ref.Version != "" && !ref.Matches(defs[i].Version) {
			return nil, false
		}
		return defs[i], true
	}
}

// WorkflowNames gives the composite tools that steps call, and those visible in
// scripts, as written, sorted, once each.
func (d *Definition) WorkflowNames() []string {
	var names []string
	for _, call := range d.Scripts().Calls() {
		if call.Kind == CallsWorkflow && call.Name != "" {
			names = append(names, call.Name)
		}
	}
	for _, s := range d.Steps {
		for ; s != nil; s = s.Step {
			if s.Workflow != "" {
				names = append(names, s.Workflow)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find is the definition that a step calls, by its name as written.
func (find Definitions) Find(workflow string) (*Definition, bool) {
	ref, err := ParseReference(workflow)
	if err != nil || find == nil {
		return nil, false
	}
	return find(ref)
}

// Called gives the definitions that the steps of d call, directly or through others,
// each once; missing has the names that were not found, as written.
func (d *Definition) Called(find Definitions) (called []*Definition, missing []string) {
	seen := map[*Definition]bool{d: true}
	var walk func(d *Definition)
	walk = func(d *Definition) {
		for _, workflow := range d.WorkflowNames() {
			other, ok := find.Find(workflow)
			switch {
			case !ok:
				missing = append(missing, workflow)
			case !seen[other]:
				seen[other] = true
				called = append(called, other)
				walk(other)
			}
		}
	}
	walk(d)
	slices.Sort(missing)
	return called, slices.Compact(missing)
}

// composition checks steps, and scripts, against the composite tools that they
// call.
func (c *callCheck) composition(outputs map[*Step]callee) {
	for _, n := range c.nodes {
		if n.step.Type == WorkflowStep {
			c.callsWorkflow(n, outputs)
		}
		c.scriptWorkflows(n)
	}
}

func (c *callCheck) callsWorkflow(n node, outputs map[*Step]callee) {
	if _, err := ParseReference(n.step.Workflow); err != nil {
		return
	}
	field := template.AtMember(n.path, "workflow")
	what := fmt.Sprintf("workflow %q", n.step.Workflow)
	parameters := c.offeredParameters(n.step.Workflow)
	if other, ok := c.mayCall(n, field, c.def.At(field), n.step.Workflow); ok {
		parameters = other.InputSchema()
		outputs[n.step] = callee{what, other.OutputSchema()}
	}
	if parameters != nil {
		c.against(toolCall{n, "", what, n.step.Arguments, withoutDefaults(parameters)})
	}
}

// scriptWorkflows checks the visible calls of composite tools in a node's script, and
// the names of their arguments.
func (c *callCheck) scriptWorkflows(n node) {
	program, mistakes := c.def.compiler.compile(&n.step.Code)
	if program == nil || len(mistakes) > 0 {
		return
	}
	seen := map[string]bool{}
	for _, call := range seenCalls(program) {
		name := call.name
		if call.kind != CallsWorkflow || name == "" {
			continue
		}
		at, pos := template.AtMember(n.path, "script"), c.scriptPosition(n, call.File, call.Line, call.Column)
		if _, err := ParseReference(name); err != nil {
			c.report(at, pos, SeverityError, "workflow", "%s: call_workflow: %v", n.label, err)
			continue
		}
		if _, ok := c.definitions.Find(name); !ok && seen[name] {
			continue
		}
		seen[name] = true
		parameters := c.offeredParameters(name)
		if other, ok := c.mayCall(n, at, pos, name); ok {
			parameters = other.InputSchema()
		}
		if parameters != nil {
			a := scriptArguments{callCheck: c, node: n, call: call, callee: fmt.Sprintf("workflow %q", name), pos: pos, at: at}
			a.check(withoutDefaults(parameters))
		}
	}
}

// meant suggests a name for an unknown composite tool, as the end of a message.
func (c *callCheck) meant(workflow string) string {
	ref, err := ParseReference(workflow)
	if err != nil || slices.Contains(c.names, ref.Name) { // only the version is unknown
		return ""
	}
	if c.tools != nil {
		if _, ok := c.tools(ref.Name); ok {
			return ", but a tool of a backend, which a step calls with tool"
		}
	}
	others := slices.DeleteFunc(slices.Concat(c.names, template.SortedKeys(c.offered)), func(name string) bool { return name == c.def.Name })
	return template.DidYouMean(ref.Name, others)
}

// isOffered reports whether a reference is to a composite tool of which no more is known.
func (c *callCheck) isOffered(workflow string) bool {
	ref, err := ParseReference(workflow)
	_, offered := c.offered[ref.Name]
	return err == nil && offered
}

// offeredParameters is the schema of the arguments of such a composite tool; nil = it is
// not known, as that of a version.
func (c *callCheck) offeredParameters(workflow string) json.RawMessage {
	if _, known := c.definitions.Find(workflow); known {
		return nil
	}
	return c.offered[workflow]
}

// mayCall gives the composite tool of a call, or reports why the definition cannot
// call it: it is unknown, it calls back, or it calls others too deep.
func (c *callCheck) mayCall(n node, at string, pos Position, workflow string) (*Definition, bool) {
	other, ok := c.definitions.Find(workflow)
	if !ok && c.isOffered(workflow) {
		return nil, false
	}
	if !ok {
		c.report(at, pos, SeverityWarning, "unknown-workflow", "%s: composite tool %q not found here%s; the definition is not offered without it", n.label, workflow, c.meant(workflow))
		return nil, false
	}
	if way := c.definitions.wayBack(other, c.def, nil); way != nil {
		c.report(at, pos, SeverityError, "workflow-cycle", "%s: composite tools call each other: %s", n.label, strings.Join(append([]string{c.def.Title()}, way...), " → "))
		return nil, false
	}
	if other.Expose.Hidden && !other.Expose.Admits(c.def.Name) {
		c.report(at, pos, SeverityError, "callers", "%s: %s is hidden, and %s is not among its callers: expose.callers of %s names the composite tools that call it", n.label, other.Name, c.def.Name, other.Name)
		return nil, false
	}
	if depth := c.definitions.depth(other, c.depths); depth >= c.maxDepth {
		c.report(at, pos, SeverityError, "limit", "%s: %s calls others %d deep; at most %d composite tools may be called within each other", n.label, other.Name, depth, c.maxDepth)
	}
	return other, true
}

// withoutDefaults is the schema of parameters for a caller, who may leave out those
// with defaults.
func withoutDefaults(parameters json.RawMessage) map[string]any {
	schema, err := decodeObject(parameters)
	if err != nil {
		return nil
	}
	properties, _ := schema["properties"].(map[string]any)
	if required, ok := schema["required"].([]any); ok {
		schema["required"] = slices.DeleteFunc(required, func(name any) bool {
			text, _ := name.(string)
			property, _ := properties[text].(map[string]any)
			return property["default"] != nil
		})
	}
	return schema
}

// Title is the name of a definition with its version, if any.
func (d *Definition) Title() string { return strings.TrimSpace(d.Name + " " + d.Version) }

// wayBack gives the titles of the definitions through which from calls to, with both
// ends; nil = it does not.
func (find Definitions) wayBack(from, to *Definition, seen map[*Definition]bool) []string {
	if from == to || from.Name == to.Name && from.Version == to.Version {
		return []string{from.Name}
	}
	if seen == nil {
		seen = map[*Definition]bool{}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, workflow := range from.WorkflowNames() {
		if other, ok := find.Find(workflow); ok {
			if way := find.wayBack(other, to, seen); way != nil {
				return append([]string{from.Title()}, way...)
			}
		}
	}
	return nil
}

// depth is how many definitions call each other below one.
func (find Definitions) depth(d *Definition, known map[*Definition]int) int {
	if deep, ok := known[d]; ok {
		return deep
	}
	known[d] = 0 // a cycle is reported elsewhere
	deepest := 0
	for _, workflow := range d.WorkflowNames() {
		if other, ok := find.Find(workflow); ok {
			deepest = max(deepest, find.depth(other, known)+1)
		}
	}
	known[d] = deepest
	return deepest
}

// Waits reports whether a run of d may wait for a person or for a time: in a step or a
// script, or to reconcile or undo a call by hand. Composite tools that d calls do not
// count.
func (d *Definition) Waits(tools Tools) bool {
	return slices.ContainsFunc(d.AllSteps(), func(s *Step) bool {
		return s.Type.Traits().Waits || s.Step != nil && s.Step.Type.Traits().Waits || s.MayNeedPerson(tools)
	})
}

// MayNeedPerson reports whether a person may have to reconcile or undo what the step, or
// one within it, has called.
func (s *Step) MayNeedPerson(tools Tools) bool {
	tool, _ := tools(s.Tool)
	return s.Compensate != nil || cmp.Or(s.OnUnknown, tool.OnUnknown) == Ask || s.Step != nil && s.Step.MayNeedPerson(tools)
}
