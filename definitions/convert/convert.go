package convert

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
)

// A ConversionError says why a definition cannot become an equivalent script.
type ConversionError struct {
	definitions.Position
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

// Script gives a Starlark script that does what the steps of a definition do. It goes
// in their place into an otherwise unchanged definition.
//
// Arguments have the types in the schemas of their tools: written so for a known tool,
// converted in the run for any other. tools may be nil.
//
// A step that cannot be converted exactly is a *ConversionError, with its position
// and what to do.
func Script(d *definitions.Definition, tools definitions.Tools) (string, error) {
	if len(d.Steps) == 0 {
		return "", &ConversionError{d.Pos, d.Name, "it has no steps: it is a script already"}
	}
	program, err := definitions.Compile(d)
	if err != nil {
		return "", err
	}
	if tools == nil {
		tools = definitions.ToolsByName(nil)
	}
	c := newConverter(program, tools)
	if err := c.convert(); err != nil {
		return "", err
	}
	if c.readsReasons { // which the steps before give only where something reads them
		c = newConverter(program, tools)
		c.reasons = true
		if err := c.convert(); err != nil {
			return "", err
		}
	}
	return c.header() + c.helpers() + "# The steps.\n\n" + c.out.String(), nil
}

//go:embed convert_helpers.star
var helperSource string

// A converter writes one script.
type converter struct {
	program *definitions.Program
	tools   definitions.Tools
	params  string            // expression for the arguments of the call
	vars    map[string]string // names of variables, by step
	taken   map[string]bool   // names that variables must not have
	plain   map[string]bool   // steps that are only a call
	notes   []string          // for the header
	depth   int               // forEach steps around the current one

	reasons      bool // skipped steps give a reason
	readsReasons bool // a template may read one

	page
	reason string // why the current template has no expression
}

func newConverter(program *definitions.Program, tools definitions.Tools) *converter {
	c := &converter{program: program, tools: tools, params: "data", vars: map[string]string{}, taken: map[string]bool{}, plain: map[string]bool{}}
	c.name()
	return c
}

// lacks is the error for something that cannot be converted.
func (c *converter) lacks(where, path, message string) error {
	return &ConversionError{c.program.Definition.At(path), where, message}
}

// note adds a sentence to the header, once.
func (c *converter) note(text string) {
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// reserved are names that a step's variable must not have: words of the language, and
// names inside the script's functions.
var reserved = regexp.MustCompile(`^(and|break|continue|def|elif|else|for|if|in|lambda|load|not|or|pass|return|while|as|assert|async|await|class|del|except|finally|from|global|import|is|nonlocal|raise|try|with|yield|steps|params|answer|output|call|body|(item|entry)[0-9]*)$`)

// name gives each step a variable.
func (c *converter) name() {
	taken := c.taken
	for _, m := range helperDef.FindAllStringSubmatch(helperSource, -1) {
		taken[m[1]] = true
	}
	for _, name := range definitions.ScriptLanguage.Names() {
		taken[name] = true
	}
	for _, n := range c.program.Steps {
		for in := n; in != nil; in = in.Inner {
			if in.Script == nil {
				continue
			}
			for _, g := range in.Script.Globals() { // tools there
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
	helperCall    = regexp.MustCompile(`(\.?)\b([a-z_]+)\(`)
	helperDef     = regexp.MustCompile(`(?m)^def ([a-z_]+)\(`)
)

// helpers gives the functions that the steps call, and those that they call, in
// the order of the file.
func (c *converter) helpers() string {
	parts := strings.Split("\n"+helperSource, "\ndef ")[1:]
	source, used := map[string]string{}, map[string]bool{}
	for _, part := range parts {
		name, body, _ := strings.Cut(part, "(")
		source[name] = body
	}
	var use func(code string)
	use = func(code string) {
		for _, call := range helperCall.FindAllStringSubmatch(code, -1) {
			if name := call[2]; call[1] == "" && source[name] != "" && !used[name] {
				used[name] = true
				use(source[name])
			}
		}
	}
	use(c.out.String())
	var b strings.Builder
	for _, part := range parts {
		if name, _, _ := strings.Cut(part, "("); used[name] {
			b.WriteString("def " + strings.TrimRight(part, "\n") + "\n\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "# What templates and steps do, as functions.\n\n" + b.String()
}

// parallel reports whether parallel has to run the steps: some may run side by side,
// or skip others.
func (c *converter) parallel() bool {
	if c.mode() != definitions.FailFast {
		return true
	}
	for i, n := range c.program.Order() {
		if i > 0 && !slices.Contains(n.Deps, c.program.Order()[i-1].ID) || skipsRest(n.Step) {
			return true
		}
	}
	return false
}

func (c *converter) mode() definitions.FailureMode {
	if c.program.Definition.FailureMode == "" {
		return definitions.FailFast
	}
	return c.program.Definition.FailureMode
}

// header is the comment at the top: what the script is, and what it leaves to the
// definition.
func (c *converter) header() string {
	d := c.program.Definition
	var b strings.Builder
	line := func(format string, args ...any) {
		for text := range strings.SplitSeq(view.Text(strings.TrimSpace(fmt.Sprintf(format, args...))), "\n") {
			b.WriteString(strings.TrimRight("# "+strings.TrimSpace(text), " ") + "\n")
		}
	}
	line("%s: %s", d.Name, d.Description)
	line("")
	line("Converted from the definition's steps; the rest of the definition stays as it is. A\nstep is a function; what it gives has the fields that templates read: status,\noutput, error, action, content, by, at.")
	if c.parallel() {
		line("Steps start the moment those before them have ended, as in the graph.")
	}
	if c.mode() != definitions.FailFast {
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

// skipsRest reports whether a step, or one in it, may skip steps that have not begun.
func skipsRest(s *definitions.Step) bool {
	for _, h := range []*definitions.Handler{s.OnDecline, s.OnCancel} {
		if h != nil && h.Action == definitions.SkipRemaining {
			return true
		}
	}
	return s.Step != nil && skipsRest(s.Step)
}

func (c *converter) convert() error {
	if len(c.program.Steps) > scriptWidth && c.parallel() {
		return c.lacks(c.program.Definition.Name, "steps", fmt.Sprintf("a script does at most %d things at a time, and there are %d steps: make a workflow of some", scriptWidth, len(c.program.Steps)))
	}
	if most := mostCalls(c.program.Definition.Steps); most > definitions.MaxScriptCalls {
		c.note(fmt.Sprintf("A script may make %d calls. With as many items as they take, these steps would make %d.", definitions.MaxScriptCalls, most))
	}
	if err := c.defaults(); err != nil {
		return err
	}
	before := map[string]state{}
	for _, n := range c.program.Order() {
		d := &dot{converter: c, where: "step " + n.ID, path: c.pathOf(n), name: n.ID, steps: map[string]state{}}
		for _, id := range n.Deps {
			d.steps[id] = c.state(id)
		}
		if !c.parallel() { // exactly those have ended
			d.every, d.steps = true, maps.Clone(before)
		}
		if err := c.step(n, d); err != nil {
			return err
		}
		before[n.ID] = c.state(n.ID)
	}
	c.runSteps()
	return c.result()
}

// state is the result of a step.
func (c *converter) state(id string) state { return state{c.vars[id], c.plain[id]} }

// before are the states of the steps for which a step waits, by name.
func (c *converter) before(n *definitions.Node) string {
	states := make([]string, len(n.Deps))
	for i, id := range n.Deps {
		states[i] = starlarkText(id) + ": " + c.vars[id]
	}
	return strings.Join(states, ", ")
}

// isPlain reports whether a step is only a call, in order, that completes or ends the
// run.
func (c *converter) isPlain(n *definitions.Node) bool {
	s := n.Step
	calls := s.Type == definitions.ToolStep || s.Type == "" || s.Type == definitions.WorkflowStep
	return calls && !c.parallel() && s.Condition == "" && !s.Continues()
}

// defaults writes the defaults of the parameters, which scripts do not apply.
func (c *converter) defaults() error {
	properties, _ := c.program.Definition.Parameters["properties"].(map[string]any)
	standards := map[string]any{}
	for _, name := range template.SortedKeys(properties) {
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

// scriptWidth is how many branches of a script run at a time.
const scriptWidth = 50

// mostCalls is how many calls steps may make, without those of scripts.
func mostCalls(steps []*definitions.Step) int {
	sum := 0
	for _, s := range steps {
		n := 1
		if s.Step != nil {
			most := s.MaxIterations
			if most == 0 {
				most = definitions.DefaultIterations
			}
			n = most * mostCalls([]*definitions.Step{s.Step})
		}
		sum += n
	}
	return sum
}

// pathOf is the path of a step in the definition.
func (c *converter) pathOf(n *definitions.Node) string {
	return fmt.Sprintf("steps[%d]", slices.Index(c.program.Steps, n))
}

// runSteps writes the calls of the steps' functions.
func (c *converter) runSteps() {
	if !c.parallel() {
		return // each has been called in order
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
	for _, n := range c.program.Order() {
		switch state, defaults := "steps["+starlarkText(n.ID)+"]", literalOf(n.Step.Defaults()); {
		case skips && c.reasons:
			c.line(0, "%s = %s or not_started(%s, {%s})", c.vars[n.ID], state, defaults, c.before(n))
		case skips:
			c.line(0, "%s = %s or skipped(%s)", c.vars[n.ID], state, defaults)
		default:
			c.line(0, "%s = %s", c.vars[n.ID], state)
		}
	}
	if c.mode() == definitions.FailLate {
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
