package definitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// CheckOptions are what a check may use besides the definitions.
type CheckOptions struct {
	Tools Tools // nil = unknown, and what depends on tools is not checked

	// Definitions finds called composite tools that are not among those checked.
	// nil = none.
	Definitions Definitions

	// All finds all called composite tools, also those checked: if these are versions
	// among others, a name may mean another one. nil = the first of those checked,
	// then Definitions.
	All Definitions

	// Offered are other composite tools, by name: the schema of the arguments of each;
	// nil = it is not known.
	Offered map[string]json.RawMessage

	// MaxDepth bounds the depth of composite tools that call each other; 0 =
	// MaxWorkflowDepth.
	MaxDepth int

	// Permission says which of the definitions' calls are allowed. nil = all; only the
	// callers of hidden tools are checked.
	Permission Permission
	// AllTools lists Tools, for Permission where scripts compute names.
	AllTools func() []Tool
	// AllDefinitions lists all versions of all other composite tools, for the same.
	AllDefinitions func() []*Definition
}

// Check finds all mistakes in definitions that are served together, sorted by place. A
// definition without errors can run.
func Check(defs []*Definition, opts CheckOptions) Diagnostics {
	var diags Diagnostics
	find := opts.among(defs)
	around := &surroundings{tools: opts.Tools, definitions: find, depths: map[*Definition]int{}, names: namesOf(defs), offered: opts.Offered, maxDepth: cmp.Or(opts.MaxDepth, MaxWorkflowDepth),
		permission: opts.Permission, allTools: opts.AllTools, all: opts.list(defs)}
	first, offered := make(map[string]*Definition, len(defs)), map[string]*Definition{}
	for _, d := range defs {
		if d == nil {
			continue // ParseNode has reported it
		}
		c := &checker{newSubject(d), around}
		c.definition()
		if same := first[d.Name]; same == nil {
			first[d.Name] = d
		} else if d.Name != "" {
			c.errorf("name", "duplicate-name", "another definition is named %q, too%s", d.Name, elsewhere(same.At("name")))
		}
		if d.Expose.As != "" && !d.Expose.Hidden {
			if same := offered[d.Expose.As]; same != nil && same.Name != d.Name {
				c.warnf("expose.as", "duplicate-name", "%s is offered as %q, too%s: only one of them is", same.Name, d.Expose.As, elsewhere(same.At("expose.as")))
			}
			offered[d.Expose.As] = d
		}
		for _, diag := range c.diags {
			diags.add(diag)
		}
		if len(diags) > maxReported {
			break
		}
	}
	diags.Sort()
	return diags
}

func namesOf(defs []*Definition) []string {
	var names []string
	for _, d := range defs {
		if d != nil {
			names = append(names, d.Name)
		}
	}
	return names
}

// among finds definitions among those checked, then among the others.
func (o CheckOptions) among(defs []*Definition) Definitions {
	if o.All != nil {
		return o.All
	}
	here := Among(defs)
	return func(ref Reference) (*Definition, bool) {
		d, ok := here(ref)
		if !ok && o.Definitions != nil {
			return o.Definitions(ref)
		}
		return d, ok
	}
}

// list gives the definitions checked, and all others.
func (o CheckOptions) list(defs []*Definition) func() []*Definition {
	return func() []*Definition {
		all := slices.DeleteFunc(slices.Clone(defs), func(d *Definition) bool { return d == nil })
		if o.AllDefinitions != nil {
			all = append(all, o.AllDefinitions()...)
		}
		return all
	}
}

// elsewhere gives a position as the end of a message; "" = unknown.
func elsewhere(pos Position) string {
	if pos.Line == 0 {
		return ""
	}
	return ", at " + pos.String()
}

// A subject is the definition that is checked, with what was found in it.
type subject struct {
	def    *Definition
	diags  Diagnostics
	steps  map[string]*Step // by id, first of each; also that of a script
	nodes  []node           // all steps, inner ones after those around them
	reads  []read           // steps' data that templates read
	owns   []ownRead        // what they read of their own step's output
	placed []placedTemplate // all templates that parse
	starts map[string][]int // of the lines of scripts, by their place; made when they are asked for
}

func newSubject(d *Definition) *subject {
	return &subject{def: d, steps: map[string]*Step{}, starts: map[string][]int{}}
}

// Surroundings are what a definition may call.
type surroundings struct {
	tools       Tools
	definitions Definitions
	depths      map[*Definition]int        // of those looked at, as depth gives them
	names       []string                   // of all definitions checked together
	offered     map[string]json.RawMessage // CheckOptions.Offered
	maxDepth    int                        // of composite tools that call each other
	permission  Permission
	allTools    func() []Tool
	all         func() []*Definition
}

// A checker checks one definition and its steps. The other checks are of schemas
// (schemaCheck), templates (templateCheck), dependencies (graphCheck), calls
// (callCheck) and permission (permissionCheck).
type checker struct {
	*subject
	*surroundings
}

// A node is a step and where it is.
type node struct {
	step  *Step
	path  string   // e.g. steps[2] or steps[2].step
	label string   // in messages
	outer *Step    // top-level step that it is or is in
	vars  []string // forEach variables that its templates may read
}

func (n node) inner() bool { return n.step != n.outer }

var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	idPattern   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	toolPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
	// workflowPattern is a name, perhaps with a version or constraint.
	workflowPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}(@[0-9A-Za-z^~<>=!|*,. +-]{1,100})?$`)
	varPattern      = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	versionPattern  = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

func (c *checker) definition() {
	d := c.def
	switch {
	case d.Name == "" && d.written != nil && d.written.resource:
		c.errorf("name", "required", "spec.name is required: it is what the tool is called, which metadata.name is not")
	case d.Name == "":
		c.errorf("name", "required", "name is required")
	case !namePattern.MatchString(d.Name):
		c.errorf("name", "name", "name %q: a name is 1 to 64 letters, digits, _, . and -, with a letter or digit first", d.Name)
	}
	if strings.TrimSpace(d.Description) == "" {
		c.errorf("description", "required", "description is required: clients choose the tool by it")
	}
	if n := len(d.Description); n > MaxDescription {
		c.errorf("description", "limit", "description has %d bytes; %d are allowed, since every client gets it", n, MaxDescription)
	}
	if d.Version != "" && !versionPattern.MatchString(d.Version) {
		c.errorf("version", "version", "version %q is not a semantic version such as 1.4.0", d.Version)
	}
	if d.Timeout < 0 {
		c.errorf("timeout", "limit", "timeout must not be negative")
	}
	if modes := []FailureMode{"", FailFast, FailLate, BestEffort}; !slices.Contains(modes, d.FailureMode) {
		c.errorf("failureMode", "failure-mode", "failureMode %q is not known%s; known values: abort, continue and best_effort",
			d.FailureMode, template.DidYouMean(string(d.FailureMode), []string{string(FailFast), string(FailLate), string(BestEffort)}))
	}
	if known := []RunAs{"", AsCaller, AsComposite}; !slices.Contains(known, d.RunAs) {
		c.errorf("runAs", "run-as", "runAs %q is not known%s; known values: caller and composite",
			d.RunAs, template.DidYouMean(string(d.RunAs), []string{string(AsCaller), string(AsComposite)}))
	}
	c.expose()
	schemas, graph := &schemaCheck{c.subject}, &graphCheck{c.subject}
	schemas.parameters()
	c.businessKey()
	c.allSteps()
	schemas.output()
	(&templateCheck{c.subject}).references()
	if len(d.Steps) <= MaxSteps { // too many steps are reported already
		graph.graph()
	}
	graph.defaultResults()
	graph.contents()
	(&callCheck{c.subject, c.surroundings}).calls()
	(&permissionCheck{c.subject, c.surroundings}).permissions()
}

// expose checks who sees the tool, and under which name.
func (c *checker) expose() {
	e := c.def.Expose
	if e.Hidden && (e.As != "" || e.Groups != nil || e.Subjects != nil) {
		c.errorf("expose.hidden", "expose", "expose: a tool that is hidden is offered to nobody, under no name")
	}
	if e.Groups != nil && len(e.Groups) == 0 {
		c.errorf("expose.groups", "expose", "expose: groups is empty: name whose members see the tool, leave groups out, or say hidden: true for nobody")
	}
	if e.Subjects != nil && len(e.Subjects) == 0 {
		c.errorf("expose.subjects", "expose", "expose: subjects is empty: name who sees the tool, leave subjects out, or say hidden: true for nobody")
	}
	if e.Callers != nil && len(e.Callers) == 0 {
		c.errorf("expose.callers", "expose", "expose: callers is empty: name the composite tools that call it, or leave callers out")
	}
	if e.Hidden && e.Callers == nil {
		c.errorf("expose.hidden", "expose", "expose: a tool that is hidden is called by no client, so callers is required: the composite tools that call it, such as callers: [release]")
	}
	for i, caller := range e.Callers {
		if _, err := path.Match(caller, ""); err != nil || caller == "" {
			c.errorf(template.AtElement("expose.callers", i), "expose", "expose: callers: %q is no name and no pattern of names, such as release_*", caller)
		}
	}
	if e.As != "" && !namePattern.MatchString(e.As) {
		c.errorf("expose.as", "name", "expose: as %q: a name is 1 to 64 letters, digits, _, . and -, with a letter or digit first", e.As)
	}
}

func (c *checker) allSteps() {
	if c.def.IsScript() {
		c.wholeScript()
	}
	switch n := len(c.def.Steps); {
	case n == 0 && !c.def.IsScript():
		c.errorf("steps", "required", "steps: at least one step is required, or script instead")
	case n > 0 && c.def.IsScript():
		c.errorf("steps", "script", "a definition has steps or a script, not both; a script can be a step, too (type: script)")
		return
	case n > MaxSteps:
		c.errorf("steps", "limit", "steps: there are %d; at most %d are allowed", n, MaxSteps)
	}
	for i, s := range c.def.Steps {
		n := node{step: s, path: fmt.Sprintf("steps[%d]", i), label: fmt.Sprintf("step %d", i+1), outer: s}
		if s.ID != "" {
			n.label = fmt.Sprintf("step %q", s.ID)
		}
		c.stepID(n)
		for depth := 0; n.step != nil && depth < maxNesting; depth++ {
			c.step(n)
			n = n.innerNode()
		}
	}
}

// innerNode is the inner step of a forEach, or a node without step.
func (n node) innerNode() node {
	inner := node{step: n.step.Step, path: n.path + ".step", label: n.label, outer: n.outer, vars: n.vars}
	if !n.inner() {
		inner.label += ", inner step"
	}
	if n.step.Step != nil {
		inner.vars = n.itemVars()
	}
	return inner
}

// itemVars gives the forEach variables that the templates of one item may read.
func (n node) itemVars() []string {
	return append(slices.Clone(n.vars), n.step.ItemName(), "index", "key")
}

func (c *checker) stepID(n node) {
	switch id := n.step.ID; {
	case id == "":
		c.stepErrorf(n, "id", "required", "id is required")
	case !idPattern.MatchString(id):
		c.stepErrorf(n, "id", "id", "an id is 1 to 64 letters, digits, _ and -")
	case c.steps[id] != nil:
		c.stepErrorf(n, "id", "duplicate-step", "another step has this id, too")
	}
	if c.steps[n.step.ID] == nil {
		c.steps[n.step.ID] = n.step
	}
}

func (c *subject) stepErrorf(n node, field, check, format string, args ...any) {
	c.errorf(template.AtMember(n.path, field), check, "%s: %s", n.label, fmt.Sprintf(format, args...))
}

func (c *subject) stepWarnf(n node, field, check, format string, args ...any) {
	c.warnf(template.AtMember(n.path, field), check, "%s: %s", n.label, fmt.Sprintf(format, args...))
}

func (c *subject) errorf(path, check, format string, args ...any) {
	c.report(path, c.def.At(path), SeverityError, check, format, args...)
}

func (c *subject) warnf(path, check, format string, args ...any) {
	c.report(path, c.def.At(path), SeverityWarning, check, format, args...)
}

// report adds a diagnostic unless the value at the path could not be read, which is
// reported already.
func (c *subject) report(path string, pos Position, severity Severity, check, format string, args ...any) {
	if c.def.written != nil {
		for p := path; p != ""; p = parent(p) {
			if c.def.written.faulty[p] {
				return
			}
		}
	}
	c.diags.add(Diagnostic{pos, severity, fmt.Sprintf(format, args...), check})
}
