package definitions

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/workflows/script"
)

// A ConversionError says why a definition cannot be a script that does exactly
// the same.
type ConversionError struct {
	Position
	Where   string // step deploy: condition
	Message string
}

// Error gives the position, the place and the message.
func (e *ConversionError) Error() string {
	where := e.Where
	if at := e.Position.String(); at != "" {
		where = at + ": " + where
	}
	return where + ": " + e.Message
}

// Script gives the Starlark script that does what the steps of a definition do,
// for a definition that has it in their place and is as it was otherwise.
//
// Arguments have the types that the schemas of their tools ask for. Those of a
// tool that is among tools are written with these types; those of another are
// left to the run, which knows what the tool wants then. tools may be nil.
//
// What cannot be converted exactly is a *ConversionError, which says where it
// stands and what to do.
func Script(d *Definition, tools Tools) (string, error) {
	if len(d.Steps) == 0 {
		return "", &ConversionError{d.Pos, d.Name, "it has no steps: it is a script already"}
	}
	program, err := Compile(d)
	if err != nil {
		return "", err
	}
	if tools == nil {
		tools = func(string) (Tool, bool) { return Tool{}, false }
	}
	c := &converter{program: program, tools: tools, params: "data", vars: map[string]string{}, used: map[string]bool{}}
	c.name()
	if err := c.convert(); err != nil {
		return "", err
	}
	return c.header() + c.helpers() + "# The steps.\n\n" + c.out.String(), nil
}

//go:embed convert_helpers.star
var helperSource string

// A converter writes one script.
type converter struct {
	program *Program
	tools   Tools
	params  string            // expression for the arguments of the call
	vars    map[string]string // names of variables, by step
	used    map[string]bool   // helpers
	notes   []string          // for the header
	out     strings.Builder
	depth   int // of forEach steps around the one that is written
}

// lacks is the error of what cannot be converted.
func (c *converter) lacks(where, path, message string) error {
	return &ConversionError{c.program.Definition.at(path), where, message}
}

// note says something in the header, once.
func (c *converter) note(text string) {
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// reserved are names that a variable of a step must not have: words of the
// language, and names that the script has inside of its functions.
var reserved = regexp.MustCompile(`^(and|break|continue|def|elif|else|for|if|in|lambda|load|not|or|pass|return|while|as|assert|async|await|class|del|except|finally|from|global|import|is|nonlocal|raise|try|with|yield|steps|params|answer|output|call|body|(item|entry)[0-9]*)$`)

// name gives each step a variable.
func (c *converter) name() {
	taken := map[string]bool{}
	for _, m := range helperDef.FindAllStringSubmatch(helperSource, -1) {
		taken[m[1]] = true
	}
	for _, name := range script.Builtins() {
		taken[name] = true
	}
	for _, n := range c.program.Steps {
		for in := n; in != nil; in = in.Inner {
			if in.Script == nil {
				continue
			}
			for _, g := range in.Script.Globals() { // which are tools there
				taken[g.Name], taken[strings.TrimPrefix(g.Name, "step_")] = true, true
			}
		}
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
				if !c.used[inner] && regexp.MustCompile(`\b`+inner+`\(`).MatchString(body) {
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

// header says what the script is, and what it leaves to the definition.
func (c *converter) header() string {
	d := c.program.Definition
	var b strings.Builder
	line := func(format string, args ...any) {
		for text := range strings.SplitSeq(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
			b.WriteString(strings.TrimRight("# "+strings.TrimSpace(text), " ") + "\n")
		}
	}
	line("%s: %s", d.Name, d.Description)
	line("")
	line("Converted from the definition's steps; the rest of the definition stays as it is. A\nstep is a function; what it gives has the fields that templates read: status,\noutput, error, action, content.")
	if c.parallel() {
		line("Steps start the moment those before them have ended, as in the graph.")
	}
	if c.mode() != FailFast {
		line("failureMode: %s says what report(…) means: it belongs to the definition, still.", d.FailureMode)
	}
	if strings.Contains(c.out.String(), "typed(") {
		line("typed(x) gets the type that the schema of the tool asks for.")
	}
	for _, note := range c.notes {
		line("%s", note)
	}
	return b.String() + "\n"
}

// skipsRest says whether a step, or one in it, may skip what has not begun.
func skipsRest(s *Step) bool {
	for _, h := range []*Handler{s.OnDecline, s.OnCancel} {
		if h != nil && h.Action == SkipRemaining {
			return true
		}
	}
	return s.Step != nil && skipsRest(s.Step)
}

func (c *converter) convert() error {
	if len(c.program.Steps) > scriptWidth && c.parallel() {
		return c.lacks(c.program.Definition.Name, "steps", fmt.Sprintf("a script does at most %d things at a time, and there are %d steps: make a workflow of some", scriptWidth, len(c.program.Steps)))
	}
	if most := mostCalls(c.program.Definition.Steps); most > maxScriptCalls {
		c.note(fmt.Sprintf("A script may make %d calls. With as many items as they take, these steps would make %d.", maxScriptCalls, most))
	}
	if err := c.defaults(); err != nil {
		return err
	}
	before := map[string]string{}
	for i, n := range c.program.order {
		d := &dot{converter: c, where: "step " + n.ID, path: c.pathOf(n), name: n.ID, steps: map[string]string{}}
		for _, id := range n.Deps {
			d.steps[id] = c.vars[id]
		}
		if !c.parallel() { // exactly those have ended
			d.every = true
			if i > 0 {
				before[c.program.order[i-1].ID] = c.vars[c.program.order[i-1].ID]
			}
			maps.Copy(d.steps, before)
		}
		if err := c.step(n, d); err != nil {
			return err
		}
	}
	c.runSteps()
	return c.result()
}

// defaults writes those of the parameters, which a script alone does not have.
func (c *converter) defaults() error {
	properties, _ := c.program.Definition.Parameters["properties"].(map[string]any)
	standards := map[string]any{}
	for _, name := range sortedKeys(properties) {
		if schema, ok := properties[name].(map[string]any); ok && schema["default"] != nil {
			standards[name] = schema["default"]
		}
	}
	if len(standards) == 0 {
		return nil
	}
	code, err := c.literal(any(standards))
	c.params = "params"
	c.line(0, "params = %s | data  # the defaults of the parameters", code)
	c.line(0, "")
	return err
}

// scriptWidth is how many branches of a script there are at a time.
const scriptWidth = 50

// mostCalls is how many calls steps may come to, those of scripts left out.
func mostCalls(steps []*Step) int {
	sum := 0
	for _, s := range steps {
		n := 1
		if s.Step != nil {
			most := s.MaxIterations
			if most == 0 {
				most = DefaultIterations
			}
			n = most * mostCalls([]*Step{s.Step})
		}
		sum += n
	}
	return sum
}

// pathOf is where a step stands in the definition.
func (c *converter) pathOf(n *Node) string {
	return fmt.Sprintf("steps[%d]", slices.Index(c.program.Steps, n))
}

func (c *converter) line(indent int, format string, args ...any) {
	c.out.WriteString(strings.Repeat("    ", indent))
	fmt.Fprintf(&c.out, format, args...)
	c.out.WriteByte('\n')
}

// step writes the function of a step.
func (c *converter) step(n *Node, d *dot) error {
	params := make([]string, len(n.Deps))
	for i, id := range n.Deps {
		params[i] = c.vars[id]
	}
	c.line(0, "def step_%s(%s):", c.vars[n.ID], strings.Join(params, ", "))
	if err := c.body(1, n, d); err != nil {
		return err
	}
	c.line(0, "")
	return nil
}

// body writes what a step does, which returns its state.
func (c *converter) body(indent int, n *Node, d *dot) error {
	s := n.Step
	if s.Condition != "" {
		condition, err := d.condition("condition", s.Condition)
		if err != nil {
			return err
		}
		defaults, err := c.literal(any(orEmpty(s.DefaultResults)))
		if err != nil {
			return err
		}
		c.line(indent, "if %s:", negated(condition))
		c.line(indent+1, "return %s(%s)", c.helper("skipped"), defaults)
	}
	switch s.Type {
	case ScriptStep:
		return c.script(indent, n, d)
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

// negated is the opposite of a condition.
func negated(condition string) string {
	if inner, ok := strings.CutPrefix(condition, "(not "); ok && strings.Count(inner, "(")+1 == strings.Count(inner, ")") && !strings.Contains(inner, " and ") && !strings.Contains(inner, " or ") {
		return strings.TrimSuffix(inner, ")")
	}
	if inner, ok := strings.CutPrefix(condition, "("); ok && strings.Count(condition, " == ") == 1 && !strings.Contains(condition, " and ") && !strings.Contains(condition, " or ") {
		return strings.Replace(strings.TrimSuffix(inner, ")"), " == ", " != ", 1)
	}
	return "not " + condition
}

func (c *converter) tool(indent int, s *Step, d *dot) error {
	tool, known := c.tools(s.Tool)
	args, err := d.arguments("arguments", s.Arguments, tool, known)
	if err != nil {
		return err
	}
	how, err := c.policy(s, d)
	if err != nil {
		return err
	}
	// tool_output gives the text of a tool as it is; call_tool would read JSON in it.
	c.line(indent, "return %s(tool_output(%s, %s%s))", c.helper("completed"), starlarkText(s.Tool), args, c.terms(s, how))
	return nil
}

// terms are the third and the fourth argument of a call: how long it may take,
// and what belongs to it besides.
func (c *converter) terms(s *Step, how string) string {
	switch {
	case s.Timeout == 0 && how == "":
		return ""
	case how == "":
		return fmt.Sprintf(", %q", time.Duration(s.Timeout))
	case s.Timeout == 0:
		return ", None, " + how
	}
	return fmt.Sprintf(", %q, %s", time.Duration(s.Timeout), how)
}

// policy is what belongs to the call of a step besides its arguments; "" =
// nothing.
func (c *converter) policy(s *Step, d *dot) (string, error) {
	var parts []string
	if s.Type != WorkflowStep { // where retry does nothing
		parts = retriesOf(s.OnError)
	}
	if s.OnUnknown != "" {
		parts = append(parts, fmt.Sprintf("on_unknown = %q", s.OnUnknown))
	}
	if s.Probe != nil {
		probe, err := c.probe(s.Probe, d)
		if err != nil {
			return "", err
		}
		parts = append(parts, "probe = "+probe)
	}
	if s.Compensate != nil {
		undo, err := c.undo(s.Compensate, d)
		if err != nil {
			return "", err
		}
		parts = append(parts, "undo = "+undo)
	}
	if parts == nil {
		return "", nil
	}
	return "policy(" + strings.Join(parts, ", ") + ")", nil
}

// retriesOf is what onError: retry says.
func retriesOf(e *OnError) []string {
	if e == nil || e.Action != Retry || e.RetryCount == 0 {
		return nil
	}
	parts := []string{fmt.Sprintf("retries = %d", min(e.RetryCount, MaxRetries))}
	if e.RetryDelay != 0 {
		parts = append(parts, fmt.Sprintf("delay = %q", time.Duration(e.RetryDelay)))
	}
	return parts
}

// undo is the call that undoes a step. Its templates see the step's output, and
// the step among the others.
func (c *converter) undo(u *Compensation, at *dot) (string, error) {
	d := *at
	d.steps = maps.Clone(at.steps)
	d.output, d.timeless = "output", true
	if len(d.indexes) == 0 {
		d.steps[d.name] = c.helper("completed") + "(output)"
	}
	tool, known := c.tools(u.Tool)
	args, err := d.arguments("compensate.arguments", u.Arguments, tool, known)
	if err != nil {
		return "", err
	}
	parts := []string{starlarkText(u.Tool)}
	if args != "{}" {
		parts = append(parts, "lambda output: "+args)
	}
	if u.Timeout != 0 {
		parts = append(parts, fmt.Sprintf("timeout = %q", time.Duration(u.Timeout)))
	}
	return "undo(" + strings.Join(append(parts, retriesOf(u.OnError)...), ", ") + ")", nil
}

// probe is what finds out whether a call was executed.
func (c *converter) probe(p *Probe, at *dot) (string, error) {
	d := *at
	d.call, d.timeless = "call", true
	tool, known := c.tools(p.Tool)
	args, err := d.arguments("probe.arguments", p.Arguments, tool, known)
	if err != nil {
		return "", err
	}
	parts := []string{starlarkText(p.Tool)}
	if args != "{}" {
		parts = append(parts, "lambda call: "+args)
	}
	for _, f := range []struct {
		name string
		for_ Duration
	}{{"delay", p.Delay}, {"timeout", p.Timeout}} {
		if f.for_ != 0 {
			parts = append(parts, fmt.Sprintf("%s = %q", f.name, time.Duration(f.for_)))
		}
	}
	d.output = "output"
	for _, f := range []struct{ name, field, text string }{{"happened", "probe.happened", p.Happened}, {"not_happened", "probe.notHappened", p.NotHappened}} {
		if f.text == "" {
			continue
		}
		holds, err := d.condition(f.field, f.text)
		if err != nil {
			return "", err
		}
		parts = append(parts, fmt.Sprintf("%s = lambda call, output: %s", f.name, holds))
	}
	if strings.TrimSpace(p.Result) != "" {
		result, err := d.value("probe.result", p.Result, []string{"object"})
		if err != nil {
			return "", err
		}
		parts = append(parts, "result = lambda call, output: "+result)
	}
	return "probe(" + strings.Join(parts, ", ") + ")", nil
}

func (c *converter) workflow(indent int, s *Step, d *dot) error {
	args, err := d.arguments("arguments", s.Arguments, Tool{}, false)
	if err != nil {
		return err
	}
	how, err := c.policy(s, d)
	if err != nil {
		return err
	}
	args += c.terms(s, how)
	name, version, versioned := strings.Cut(s.Workflow, "@")
	if versioned {
		args += fmt.Sprintf(", version = %q", version)
	}
	c.line(indent, "return %s(call_workflow(%s, %s))", c.helper("completed"), starlarkText(name), args)
	return nil
}

func (c *converter) wait(indent int, s *Step, d *dot) error {
	field, template, helper := "for", s.For, "wait_for"
	if s.Until != "" {
		field, template, helper = "until", s.Until, "wait_until"
	}
	text, err := d.text(field, template)
	if err != nil {
		return err
	}
	c.line(indent, "return %s(%s)", c.helper(helper), text)
	return nil
}

func (c *converter) elicitation(indent int, s *Step, d *dot) error {
	message, err := d.text("message", s.Message)
	if err != nil {
		return err
	}
	limit := time.Duration(s.Timeout)
	if limit == 0 {
		limit = DefaultStepTimeout
	}
	options := ""
	if s.Schema != nil {
		options = ", schema = " + literalOf(s.Schema)
	}
	options += fmt.Sprintf(", timeout = %q", limit)
	if s.Mode == URLMode {
		options += `, mode = "url"`
	}
	handlers := ""
	if continues(s) {
		handlers = ", go_on = True"
	}
	c.line(indent, "answer = elicit(%s%s)", message, options)
	c.line(indent, "return %s(%s, answer, %s, %q, on_decline = %q, on_cancel = %q%s)", c.helper("answered"), d.named(), literalOf(orEmpty(s.DefaultResults)),
		limit.Round(time.Millisecond), handlerOf(s.OnDecline), handlerOf(s.OnCancel), handlers)
	return nil
}

func handlerOf(h *Handler) Action {
	if h == nil {
		return Abort
	}
	return h.Action
}

// script writes a step that is a script as a function in that of the step.
func (c *converter) script(indent int, n *Node, d *dot) error {
	s := n.Step
	if loads, _ := script.Loads(s.file(), s.Script); len(loads) > 0 {
		return c.lacks(d.where+": script", join(d.path, "script"), fmt.Sprintf("it loads %s, which a function cannot: put into the script of the step what it takes from there", loads[0].Module))
	}
	for _, g := range n.Script.Globals() {
		if helperDef.MatchString("def "+g.Name+"(") && strings.Contains(helperSource, "def "+g.Name+"(") {
			return c.lacks(d.where+": script", join(d.path, "script"), fmt.Sprintf("the tool %s has the name of a function of the converted script: write call_tool(%[1]q, …)", g.Name))
		}
	}
	if len(s.Tools) > 0 {
		c.note(fmt.Sprintf("The definition needs tools: [%s], as the step %s had it.", strings.Join(s.Tools, ", "), d.name))
	}
	var cache schemaCache
	place, err := cache.place(anyData)
	if err != nil {
		return err
	}
	args, err := d.argument("arguments", orEmpty(s.Arguments), func(string) schemaPlace { return place }, false)
	if err != nil {
		return err
	}
	c.line(indent, "def body(data):")
	c.out.WriteString(script.Indent(s.Script, strings.Repeat("    ", indent+1)) + "\n")
	c.line(indent, "return %s(within(%q, lambda: %s(body(%[3]s(%[4]s))), %[5]s))", c.helper("completed"), stepLimit(s), c.helper("plain"), args, d.named())
	return nil
}

// stepLimit is how long a step may take.
func stepLimit(s *Step) time.Duration {
	if s.Timeout == 0 {
		return DefaultStepTimeout
	}
	return time.Duration(s.Timeout)
}

// forEach writes a loop, with its inner step as a function of one item.
func (c *converter) forEach(indent int, n *Node, d *dot) error {
	s := n.Step
	items, err := d.value("collection", s.Collection, []string{"array", "object"})
	if err != nil {
		return err
	}
	c.depth++
	defer func() { c.depth-- }()
	entry, work := "entry", "item"
	if c.depth > 1 {
		entry, work = fmt.Sprintf("entry%d", c.depth), fmt.Sprintf("item%d", c.depth)
	}
	item := d.inside(entry, s)
	inner, innerPath := *item, ""
	if n.Inner.Step.Type == ForEachStep {
		id := n.Inner.Step.ID
		if id == "" {
			id = "step"
		}
		inner.name += "/" + id
		id = "/" + id
		innerPath = fmt.Sprintf(", inner = %q", id)
	}
	c.line(indent, "def %s(%s):", work, entry)
	if err := c.body(indent+1, n.Inner, &inner); err != nil {
		return err
	}
	width, most := s.MaxParallel, s.MaxIterations
	if width == 0 {
		width = DefaultParallel
	}
	if most == 0 {
		most = DefaultIterations
	}
	options := innerPath
	switch {
	case continues(n.Inner.Step):
		options += ", goes_on = True, failed_output = " + literalOf(orEmpty(n.Inner.Step.DefaultResults))
	case continues(s):
		options += ", goes_on = True"
	}
	options += ownWords(n.Inner)
	if s.Collect != "" {
		item.output = "output"
		collect, err := item.collect(s.Collect)
		if err != nil {
			return err
		}
		options += fmt.Sprintf(", collect = lambda %s, output: %s", entry, collect)
	}
	c.line(indent, "return %s(%s, %s(%s), %s, %d, %d, %q%s)", c.helper("loop"), d.named(), c.helper("items_of"), items, work, min(width, MaxParallel), most, stepLimit(s), options)
	return nil
}

// wrapped is the function of a step with what its failure means.
func (c *converter) wrapped(n *Node) string {
	f := "step_" + c.vars[n.ID]
	defaults := literalOf(orEmpty(n.Step.DefaultResults))
	if continues(n.Step) {
		f = fmt.Sprintf("%s(%s, %s, %s%s)", c.helper("goes_on"), starlarkText(n.ID), f, defaults, ownWords(n))
	}
	if c.mode() != FailFast {
		f = fmt.Sprintf("%s(%s, %s, %s%s)", c.helper("lets_others_end"), starlarkText(n.ID), f, defaults, ownWords(n))
	}
	if skipsRest(n.Step) {
		f = fmt.Sprintf("%s(%s)", c.helper("may_skip_rest"), f)
	}
	return f
}

// ownWords says of a step in which what fails is a script that its message is
// its own.
func ownWords(n *Node) string {
	for n.Inner != nil {
		n = n.Inner
	}
	if n.Step.Type == ScriptStep {
		return ", own_words = True"
	}
	return ""
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
	for _, n := range c.program.Steps {
		c.line(1, "%s: %s,", starlarkText(n.ID), c.wrapped(n))
	}
	c.line(0, "}, after = {")
	for _, n := range c.program.Steps {
		if len(n.Deps) > 0 {
			c.line(1, "%s: %s,", starlarkText(n.ID), literalOf(anys(n.Deps)))
		}
	}
	c.line(0, "})")
	skips := slices.ContainsFunc(c.program.Definition.Steps, skipsRest)
	for _, n := range c.program.order {
		if skips {
			c.line(0, "%s = steps[%s] or %s(%s)", c.vars[n.ID], starlarkText(n.ID), c.helper("skipped"), literalOf(orEmpty(n.Step.DefaultResults)))
		} else {
			c.line(0, "%s = steps[%s]", c.vars[n.ID], starlarkText(n.ID))
		}
	}
	if c.mode() == FailLate {
		c.line(0, "if any([\"broken\" in s for s in steps.values() if s]):")
		c.line(1, "return None  # failureMode: continue; the run fails with what was reported")
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
	d := &dot{converter: c, where: "output", steps: map[string]string{}, every: true, ended: true}
	for i, n := range c.program.order {
		all[i] = c.vars[n.ID]
		d.steps[n.ID] = c.vars[n.ID]
	}
	block := c.program.Definition.Output
	if block == nil {
		c.line(0, "return %s(%s)", c.helper("last_output"), strings.Join(all, ", "))
		return nil
	}
	properties, err := d.properties(1, block.Properties, "")
	if err != nil {
		return err
	}
	c.line(0, "return %s(lambda: %s, %s)", c.helper("output_block"), properties, literalOf(anys(block.Required)))
	return nil
}

// properties is the dict of an output block, or of an object in it.
func (d *dot) properties(indent int, properties map[string]*Property, path string) (string, error) {
	var b strings.Builder
	missing := false
	for _, name := range sortedKeys(properties) {
		p := properties[name]
		value, err := d.property(indent, p, path+name)
		if err != nil {
			return "", err
		}
		missing = missing || p.Type == "string" && p.Default == nil
		fmt.Fprintf(&b, "%s%s: %s,\n", strings.Repeat("    ", indent), starlarkText(name), value)
	}
	object := "{\n" + b.String() + strings.Repeat("    ", indent-1) + "}"
	if missing { // a text that is missing is left out
		object = d.converter.helper("given") + "(" + object + ")"
	}
	return object, nil
}

func (d *dot) property(indent int, p *Property, path string) (string, error) {
	value, err := d.propertyValue(indent, p, path)
	switch {
	case err != nil:
		return "", err
	case p.Default != nil:
		v, err := inType(p.Default, p.Type)
		if err != nil {
			return "", d.converter.lacks("output."+path+": default", "output.properties", err.Error()+": give it the type that it stands in for")
		}
		return fmt.Sprintf("%s(lambda: %s, %s)", d.converter.helper("otherwise"), value, literalOf(v)), nil
	case p.Type != "string" && p.Properties == nil:
		return fmt.Sprintf("%s(%s, %s)", d.converter.helper("must"), starlarkText(path), value), nil
	}
	return value, nil
}

func (d *dot) propertyValue(indent int, p *Property, path string) (string, error) {
	if p.Properties != nil {
		return d.properties(indent+1, p.Properties, path+".")
	}
	value, err := d.value(path, p.Value, []string{p.Type})
	if err != nil || p.Type == "string" {
		return value, err
	}
	return fmt.Sprintf("%s(%s, %s)", d.converter.helper("in_type"), value, starlarkText(p.Type)), nil
}

// Converted is a definition with the script that its steps became in their
// place. Of its output block it keeps what the properties are: what they are
// comes from the script.
func Converted(d *Definition, script string) *Definition {
	converted := *d
	converted.Steps, converted.Script = nil, script
	converted.written, converted.scripts = nil, &codeCache{}
	for _, s := range d.Steps {
		for ; s != nil; s = s.Step {
			converted.Tools = append(converted.Tools, s.Tools...)
		}
	}
	if d.Output != nil {
		converted.Output = &Output{Properties: withoutValues(d.Output.Properties), Required: d.Output.Required}
	}
	return &converted
}

func withoutValues(properties map[string]*Property) map[string]*Property {
	bare := make(map[string]*Property, len(properties))
	for _, name := range sortedKeys(properties) {
		p := *properties[name]
		switch {
		case p.Properties != nil && p.Default != nil: // which may stand in for all of it
			p.Properties = nil
		case p.Properties != nil:
			p.Properties = withoutValues(p.Properties)
		}
		p.Value, p.Default = "", nil // the script has put it in
		bare[name] = &p
	}
	return bare
}
