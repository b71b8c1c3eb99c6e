package definitions

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A ConversionError says why a definition cannot be a script that does exactly
// the same.
type ConversionError struct {
	Where   string // step deploy: condition
	Message string
}

// Error gives the place and the message.
func (e *ConversionError) Error() string { return e.Where + ": " + e.Message }

// Script gives the Starlark script that does what the steps of a definition do.
// With the tools, arguments have the types that their schemas ask for; of a tool
// that is not among them they are text, as they are in a run of which the tool
// says nothing. tools may be nil.
//
// It is an error, a *ConversionError, to convert what scripts have nothing for:
// compensations, probes, questions that are answered in a browser, and
// templates with functions that are not among those that are translated.
func Script(d *Definition, tools Tools) (string, error) {
	if len(d.Steps) == 0 {
		return "", &ConversionError{d.Name, "it has no steps: it is a script already"}
	}
	program, err := Compile(d)
	if err != nil {
		return "", err
	}
	if tools == nil {
		tools = func(string) (Tool, bool) { return Tool{}, false }
	}
	c := &converter{program: program, tools: tools, vars: map[string]string{}, used: map[string]bool{}}
	c.name()
	if err := c.convert(); err != nil {
		return "", err
	}
	return c.header() + c.helpers() + c.out.String(), nil
}

//go:embed convert_helpers.star
var helperSource string

// A converter writes one script.
type converter struct {
	program *Program
	tools   Tools
	vars    map[string]string // names of variables, by step
	used    map[string]bool   // helpers
	out     strings.Builder
	depth   int // of forEach steps around the one that is written
}

// reserved are names that a variable of a step must not have.
var reserved = regexp.MustCompile(`^(and|break|continue|def|elif|else|for|if|in|lambda|load|not|or|pass|return|while|as|assert|async|await|class|del|except|finally|from|global|import|is|nonlocal|raise|try|with|yield|None|True|False|data|steps|result)$`)

// name gives each step a variable.
func (c *converter) name() {
	taken := map[string]bool{}
	for _, m := range helperDef.FindAllStringSubmatch(helperSource, -1) {
		taken[m[1]] = true
	}
	for _, name := range []string{
		"abs", "all", "any", "approve", "bool", "call_tool", "call_workflow", "chr", "dict", "dir", "elicit", "enumerate", "fail", "fixed", "float", "getattr",
		"hasattr", "int", "iterate", "json", "len", "list", "log", "map_parallel", "math", "max", "min", "now", "ord", "parallel", "print", "progress",
		"range", "repr", "retry", "reversed", "run", "skip_rest", "sleep", "sorted", "str", "struct", "sum", "time", "tool_output", "try_call_tool", "tuple", "type", "unique", "zip",
	} {
		taken[name] = true
	}
	for _, n := range c.program.Steps {
		v := notIdentifier.ReplaceAllString(n.ID, "_")
		if v == "" || v[0] >= '0' && v[0] <= '9' {
			v = "_" + v
		}
		for taken[v] || reserved.MatchString(v) {
			v += "_"
		}
		taken[v] = true
		c.vars[n.ID] = v
	}
}

var (
	notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)
	helperDef     = regexp.MustCompile(`(?m)^def ([a-z_]+)\(`)
)

// helper notes the use of a helper and gives its name.
func (c *converter) helper(name string) string {
	c.used[name] = true
	return name
}

// helpers gives those that are used, and those that they use, in the order of
// the file.
func (c *converter) helpers() string {
	parts := regexp.MustCompile(`(?m)^def `).Split(helperSource, -1)[1:]
	for changed := true; changed; {
		changed = false
		for _, part := range parts {
			name, body, _ := strings.Cut(part, "(")
			if !c.used[name] {
				continue
			}
			for _, other := range parts {
				inner, _, _ := strings.Cut(other, "(")
				if !c.used[inner] && regexp.MustCompile(`\b`+inner+`\b`).MatchString(body) {
					c.used[inner], changed = true, true
				}
			}
		}
	}
	var b strings.Builder
	for _, part := range parts {
		if name, _, _ := strings.Cut(part, "("); c.used[name] {
			b.WriteString("def " + strings.TrimRight(part, "\n") + "\n\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "# What templates and steps do, as functions.\n\n" + b.String()
}

func (c *converter) header() string {
	d := c.program.Definition
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n#\n# Converted from the definition's steps. A step is a function; what it gives has the\n# fields that templates read: status, output, error, action, content.\n", d.Name, strings.ReplaceAll(strings.TrimSpace(d.Description), "\n", "\n# "))
	if c.parallel() {
		b.WriteString("# Steps start the moment those before them have ended, as in the graph.\n")
	}
	if d.FailureMode != FailFast && d.FailureMode != "" {
		fmt.Fprintf(&b, "# failureMode was %s: a step that fails does not stop the other branches.\n", d.FailureMode)
	}
	return b.String() + "\n"
}

// parallel says whether steps may run side by side, or with a word about each
// other, so that parallel has to run them.
func (c *converter) parallel() bool {
	if c.mode() != FailFast {
		return true
	}
	for i, n := range c.program.order {
		if i > 0 && !slices.Contains(n.Deps, c.program.order[i-1].ID) || skipsRest(n.Step) {
			return true
		}
	}
	return false
}

func (c *converter) mode() FailureMode {
	if c.program.Definition.FailureMode == "" {
		return FailFast
	}
	return c.program.Definition.FailureMode
}

func skipsRest(s *Step) bool {
	for _, h := range []*Handler{s.OnDecline, s.OnCancel} {
		if h != nil && h.Action == SkipRemaining {
			return true
		}
	}
	return false
}

func (c *converter) convert() error {
	for _, n := range c.program.order {
		if err := c.step(n); err != nil {
			return err
		}
	}
	c.runSteps()
	return c.result()
}

func (c *converter) line(indent int, format string, args ...any) {
	c.out.WriteString(strings.Repeat("    ", indent))
	fmt.Fprintf(&c.out, format, args...)
	c.out.WriteByte('\n')
}

// step writes the function of a step.
func (c *converter) step(n *Node) error {
	params := make([]string, len(n.Deps))
	for i, id := range n.Deps {
		params[i] = c.vars[id]
	}
	c.line(0, "def step_%s(%s):", c.vars[n.ID], strings.Join(params, ", "))
	if err := c.body(1, n, &dot{converter: c, where: "step " + n.ID, steps: n.Deps}); err != nil {
		return err
	}
	c.line(0, "")
	return nil
}

// body writes what a step does, which returns its state.
func (c *converter) body(indent int, n *Node, d *dot) error {
	s := n.Step
	if err := unconvertible(s, d.where); err != nil {
		return err
	}
	if s.Condition != "" {
		condition, err := d.condition(s.Condition)
		if err != nil {
			return err
		}
		c.line(indent, "if not (%s):", condition)
		c.line(indent+1, "return %s(%s)", c.helper("skipped"), literalOf(orEmpty(s.DefaultResults)))
	}
	switch s.Type {
	case ScriptStep:
		return &ConversionError{d.where, "it is a script already: its text can stand in a function"}
	case ElicitationStep:
		return c.elicitation(indent, s, d)
	case ForEachStep:
		return c.forEach(indent, n, d)
	case WaitStep:
		return c.wait(indent, s, d)
	case WorkflowStep:
		return c.workflow(indent, s, d)
	}
	return c.tool(indent, s, d)
}

func unconvertible(s *Step, where string) error {
	for what, is := range map[string]bool{
		"compensate": s.Compensate != nil, "probe": s.Probe != nil, "onUnknown": s.OnUnknown != "", "mode: url": s.Mode == URLMode, "until": s.Until != "",
	} {
		if is {
			return &ConversionError{where, "scripts have nothing for " + what}
		}
	}
	return nil
}

func (c *converter) tool(indent int, s *Step, d *dot) error {
	tool, known := c.tools(s.Tool)
	var schema json.RawMessage
	if known {
		schema = tool.InputSchema
	}
	args, err := d.arguments(s.Arguments, schema)
	if err != nil {
		return err
	}
	// tool_output gives the text of a tool as it is; call_tool would read JSON in it.
	call := fmt.Sprintf("tool_output(%q, %s%s)", s.Tool, args, c.timeout(s))
	c.line(indent, "return %s(%s)", c.helper("completed"), c.retried(s, call))
	return nil
}

// timeout is the third argument of a call, where the step says one.
func (c *converter) timeout(s *Step) string {
	if s.Timeout == 0 {
		return ""
	}
	return fmt.Sprintf(", %q", time.Duration(s.Timeout).String())
}

// retried wraps a call into retry where the step says so.
func (c *converter) retried(s *Step, call string) string {
	if s.OnError == nil || s.OnError.Action != Retry {
		return call
	}
	delay := time.Duration(s.OnError.RetryDelay)
	if delay == 0 {
		delay = DefaultRetryDelay
	}
	return fmt.Sprintf("retry(lambda: %s, attempts = %d, delay = %q, backoff = 1.5)", call, s.OnError.RetryCount+1, delay.String())
}

func (c *converter) workflow(indent int, s *Step, d *dot) error {
	args, err := d.arguments(s.Arguments, nil)
	if err != nil {
		return err
	}
	name, version, versioned := strings.Cut(s.Workflow, "@")
	if versioned {
		args += fmt.Sprintf(", version = %q", version)
	}
	c.line(indent, "return %s(%s)", c.helper("completed"), c.retried(s, fmt.Sprintf("call_workflow(%q, %s)", name, args)))
	return nil
}

func (c *converter) wait(indent int, s *Step, d *dot) error {
	text, err := d.text(s.For)
	if err != nil {
		return err
	}
	c.line(indent, "return %s(%s)", c.helper("waited"), text)
	return nil
}

func (c *converter) elicitation(indent int, s *Step, d *dot) error {
	message, err := d.text(s.Message)
	if err != nil {
		return err
	}
	schema := ""
	if s.Schema != nil {
		schema = ", schema = " + literalOf(s.Schema)
	}
	limit := time.Duration(s.Timeout)
	if limit == 0 {
		limit = DefaultStepTimeout
	}
	goOn := ""
	if s.OnError != nil && s.OnError.Action == Continue {
		goOn = ", go_on = True"
	}
	c.line(indent, "answer = elicit(%s%s, timeout = %q)", message, schema, limit.String())
	c.line(indent, "return %s(%q, answer, %s, on_decline = %q, on_cancel = %q%s)", c.helper("answered"), s.ID, literalOf(orEmpty(s.DefaultResults)),
		handlerOf(s.OnDecline), handlerOf(s.OnCancel), goOn)
	return nil
}

func handlerOf(h *Handler) Action {
	if h == nil {
		return Abort
	}
	return h.Action
}

// forEach writes a loop, with its inner step as a function of one item.
func (c *converter) forEach(indent int, n *Node, d *dot) error {
	s := n.Step
	items, err := d.valueFor(s.Collection, []string{"array", "object"})
	if err != nil {
		return err
	}
	c.depth++
	defer func() { c.depth-- }()
	entry := "entry"
	if c.depth > 1 {
		entry = fmt.Sprintf("entry%d", c.depth)
	}
	item := d.inside(entry, s)
	work := fmt.Sprintf("item%d", c.depth)
	c.line(indent, "def %s(%s):", work, entry)
	if skipsRest(n.Inner.Step) {
		return &ConversionError{d.where, "scripts have nothing for skip_remaining in a forEach"}
	}
	if err := c.body(indent+1, n.Inner, item); err != nil {
		return err
	}
	width, most := s.MaxParallel, s.MaxIterations
	if width == 0 {
		width = DefaultParallel
	}
	if most == 0 {
		most = DefaultIterations
	}
	options := ""
	inner := n.Inner.Step.OnError != nil && n.Inner.Step.OnError.Action == Continue
	switch {
	case inner:
		options = ", stops = False, failed_output = " + literalOf(orEmpty(n.Inner.Step.DefaultResults))
	case s.OnError != nil && s.OnError.Action == Continue:
		options = ", stops = False"
	}
	if s.Collect != "" {
		collect, err := item.collect(s.Collect)
		if err != nil {
			return err
		}
		options += fmt.Sprintf(", collect = lambda %s, output: %s", entry, collect)
	}
	c.line(indent, "return %s(%s(%s), %s, %d, %d%s)", c.helper("loop"), c.helper("items_of"), items, work, min(width, MaxParallel), most, options)
	return nil
}

// wrapped is the function of a step with what its failure means.
func (c *converter) wrapped(n *Node) string {
	f := "step_" + c.vars[n.ID]
	defaults := literalOf(orEmpty(n.Step.DefaultResults))
	if n.Step.OnError != nil && n.Step.OnError.Action == Continue {
		f = fmt.Sprintf("%s(%s, %s)", c.helper("goes_on"), f, defaults)
	}
	if c.mode() != FailFast {
		f = fmt.Sprintf("%s(%s, %s)", c.helper("lets_others_end"), f, defaults)
	}
	if skipsRest(n.Step) {
		f = fmt.Sprintf("%s(%s)", c.helper("may_skip_rest"), f)
	}
	return f
}

// runSteps writes what calls the functions of the steps.
func (c *converter) runSteps() {
	if !c.parallel() {
		for _, n := range c.program.order {
			args := make([]string, len(n.Deps))
			for i, id := range n.Deps {
				args[i] = c.vars[id]
			}
			c.line(0, "%s = %s(%s)", c.vars[n.ID], c.wrapped(n), strings.Join(args, ", "))
		}
		return
	}
	c.line(0, "steps = parallel({")
	for _, n := range c.program.order {
		c.line(1, "%q: %s,", n.ID, c.wrapped(n))
	}
	c.line(0, "}, max = %d, after = {", MaxSteps)
	for _, n := range c.program.order {
		if len(n.Deps) > 0 {
			c.line(1, "%q: %s,", n.ID, literalOf(anys(n.Deps)))
		}
	}
	c.line(0, "})")
	for _, n := range c.program.order {
		c.line(0, "%s = steps[%q] or %s(%s)", c.vars[n.ID], n.ID, c.helper("skipped"), literalOf(orEmpty(n.Step.DefaultResults)))
	}
	if c.mode() == FailLate {
		c.line(0, "for s in steps.values():")
		c.line(1, "if s and s[\"status\"] == \"failed\" and s.get(\"broken\", False):")
		c.line(2, "fail(s[\"error\"])")
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// result writes what the script returns.
func (c *converter) result() error {
	all := make([]string, len(c.program.order))
	ids := make([]string, len(c.program.order))
	for i, n := range c.program.order {
		all[i], ids[i] = c.vars[n.ID], n.ID
	}
	block := c.program.Definition.Output
	if block == nil {
		c.line(0, "return %s(%s)", c.helper("last_output"), strings.Join(all, ", "))
		return nil
	}
	d := &dot{converter: c, where: "output", steps: ids}
	properties, err := d.properties(1, block.Properties, "")
	if err != nil {
		return err
	}
	c.line(0, "result = %s", properties)
	for _, name := range block.Required {
		c.line(0, "%s(%q, result.get(%q))", c.helper("must"), name, name)
	}
	c.line(0, "return result")
	return nil
}

// properties is the dict of an output block, or of an object in it.
func (d *dot) properties(indent int, properties map[string]*Property, path string) (string, error) {
	var b strings.Builder
	b.WriteString(d.converter.helper("given") + "({\n")
	for _, name := range sortedKeys(properties) {
		p := properties[name]
		value, err := d.property(indent, p, path+name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s%s: %s,\n", strings.Repeat("    ", indent), starlarkText(name), value)
	}
	return b.String() + strings.Repeat("    ", indent-1) + "})", nil
}

func (d *dot) property(indent int, p *Property, path string) (string, error) {
	if p.Properties != nil {
		if p.Default != nil {
			return "", &ConversionError{"output." + path, "scripts have nothing for the default of an object"}
		}
		return d.properties(indent+1, p.Properties, path+".")
	}
	value, err := d.valueFor(p.Value, []string{p.Type})
	if err != nil {
		return "", err
	}
	value = fmt.Sprintf("%s(%s, %q)", d.converter.helper("output_as"), value, p.Type)
	switch {
	case p.Default != nil:
		v, err := inType(p.Default, p.Type)
		if err != nil {
			return "", &ConversionError{"output." + path, "default: " + err.Error()}
		}
		d.converter.helper("otherwise")
		return fmt.Sprintf("otherwise(%s, %s)", value, literalOf(v)), nil
	case p.Type != "string":
		return fmt.Sprintf("%s(%q, %s)", d.converter.helper("must"), path, value), nil
	}
	return value, nil
}
