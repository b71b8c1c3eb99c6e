package definitions

import (
	"fmt"
	"github.com/perdure/perdure/definitions/template"
	"slices"
)

// A Use is a call that a definition can make, of a tool or of a composite tool.
type Use struct {
	In     *Definition // that can make it, itself or through others that it calls
	By     *Definition // whose step, compensation, probe or script makes it
	As     string      // the composite tool with whose permission it is made; "" = the caller's
	Tool   string      // the tool's name for clients, a pattern of such names, or an unknown composite tool; "" = Called is called
	Called *Definition
}

// A Permission says why a call is not allowed; "" = it is.
type Permission func(Use) string

// A permissionCheck checks whether calls are allowed.
type permissionCheck struct {
	*subject
	*surroundings
}

// permissions checks the permission of all calls that the definition can make, also
// through other composite tools.
func (c *permissionCheck) permissions() {
	if c.permission == nil {
		return
	}
	for _, n := range c.nodes {
		c.permitTool(n, template.AtMember(n.path, "tool"), c.def.At(template.AtMember(n.path, "tool")), n.step.Tool)
		if p := n.step.Probe; p != nil {
			c.permitTool(n, template.AtMember(n.path, "probe.tool"), c.def.At(template.AtMember(n.path, "probe.tool")), p.Tool)
		}
		if undo := n.step.Compensate; undo != nil {
			c.permitTool(n, template.AtMember(n.path, "compensate.tool"), c.def.At(template.AtMember(n.path, "compensate.tool")), undo.Tool)
		}
		c.permitWorkflow(n, template.AtMember(n.path, "workflow"), c.def.At(template.AtMember(n.path, "workflow")), n.step.Workflow)
		for i, pattern := range n.step.Tools {
			at := template.AtElement(template.AtMember(n.path, "tools"), i)
			if why := c.reach().patterns(c.def, []string{pattern}); why != "" {
				c.report(at, c.def.At(at), SeverityError, "permission", "%s: tools: %q: %s", n.label, pattern, why)
			}
		}
		c.permitScript(n)
	}
}

func (c *permissionCheck) permitScript(n node) {
	program, mistakes := c.def.compiler.compile(&n.step.Code)
	if program == nil || len(mistakes) > 0 {
		return
	}
	at := template.AtMember(n.path, "script")
	var tools []string
	for _, call := range seenCalls(program) {
		pos := c.scriptPosition(n, call.File, call.Line, call.Column)
		switch {
		case call.isTool():
			tools = append(tools, call.name)
			c.permitTool(n, at, pos, call.name)
		case call.kind == CallsWorkflow:
			c.permitWorkflow(n, at, pos, call.name)
		}
	}
	for _, name := range c.def.compiler.toolNames(&n.step.Code) { // also those that are only named
		if !slices.Contains(tools, name) {
			c.permitTool(n, at, c.def.At(at), name)
		}
	}
}

// permitTool reports that a tool must not be called; "" = none, or known only in a run.
func (c *permissionCheck) permitTool(n node, at string, pos Position, name string) {
	if name == "" {
		return
	}
	if why := c.reach().tool(c.def, name); why != "" {
		c.report(at, pos, SeverityError, "permission", "%s: %s", n.label, why)
	}
}

func (c *permissionCheck) permitWorkflow(n node, at string, pos Position, name string) {
	other, ok := c.definitions.Find(name)
	if ok && other.Expose.Hidden && !other.Expose.Admits(c.def.Name) { // reported already
		return
	}
	if why := c.reach().reference(c.def, name); why != "" {
		c.report(at, pos, SeverityError, "permission", "%s: %s", n.label, why)
	}
}

// A reach finds calls that are not allowed below a definition. Each method gives the
// reason of the first one; "" = none.
type reach struct {
	*permissionCheck
	as   string           // the composite tool with whose permission calls are made; "" = the caller's
	seen map[reached]bool // composite tools that were visited
}

type reached struct {
	of *Definition
	as string
}

func (c *permissionCheck) reach() reach {
	return reach{permissionCheck: c, seen: map[reached]bool{}}.in(c.def)
}

// in is the reach within a called definition.
func (r reach) in(d *Definition) reach {
	if d.RunAs == AsComposite {
		r.as = d.Name
	}
	return r
}

func (r reach) tool(by *Definition, name string) string {
	if r.tools != nil {
		if t, ok := r.tools(name); ok {
			name = t.Name
		}
	}
	return r.permission(Use{In: r.def, By: by, As: r.as, Tool: name})
}

// patterns checks what a script may call by computed names: known tools and composite
// tools, and the patterns themselves for later ones.
func (r reach) patterns(by *Definition, patterns []string) string {
	if len(patterns) == 0 {
		return ""
	}
	var tools []Tool
	if r.allTools != nil {
		tools = r.allTools()
	}
	for _, t := range tools {
		if !MatchesTool(patterns, t.Name) && !MatchesTool(patterns, t.Backend+"."+t.Original) {
			continue
		}
		if why := r.permission(Use{In: r.def, By: by, As: r.as, Tool: t.Name}); why != "" {
			return why
		}
	}
	for _, other := range r.all() {
		if !MatchesTool(patterns, other.Name) || other.Expose.Hidden && !other.Expose.Admits(by.Name) { // a run is refused it
			continue
		}
		if why := r.workflow(by, other); why != "" {
			return why
		}
	}
	for _, pattern := range patterns {
		known := slices.ContainsFunc(tools, func(t Tool) bool { return pattern == t.Name || pattern == t.Backend+"."+t.Original })
		if _, ok := r.definitions.Find(pattern); ok || known {
			continue
		}
		if why := r.permission(Use{In: r.def, By: by, As: r.as, Tool: pattern}); why != "" {
			return why
		}
	}
	return ""
}

// reference checks a call of a composite tool by its name as written. An unknown one
// counts by its name: it may come later.
func (r reach) reference(by *Definition, name string) string {
	if other, ok := r.definitions.Find(name); ok {
		return r.workflow(by, other)
	}
	ref, err := ParseReference(name)
	if err != nil { // reported already
		return ""
	}
	return r.permission(Use{In: r.def, By: by, As: r.as, Tool: ref.Name})
}

func (r reach) workflow(by, other *Definition) string {
	if why := r.permission(Use{In: r.def, By: by, As: r.as, Called: other}); why != "" {
		return why
	}
	below := r.in(other)
	at := reached{other, below.as}
	if r.seen[at] {
		return ""
	}
	r.seen[at] = true
	if why := below.everything(other); why != "" {
		return fmt.Sprintf("in %s, which it calls: %s", other.Title(), why)
	}
	return ""
}

// everything checks all calls of a definition.
func (r reach) everything(d *Definition) string {
	for _, name := range d.ToolNames() {
		if why := r.tool(d, name); why != "" {
			return why
		}
	}
	if why := r.patterns(d, d.Scripts().ToolPatterns()); why != "" {
		return why
	}
	for _, name := range d.WorkflowNames() {
		if why := r.reference(d, name); why != "" {
			return why
		}
	}
	return ""
}
