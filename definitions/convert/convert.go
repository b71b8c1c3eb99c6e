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
)

// A ConversionError says why a definition cannot be a script that does exactly
// the same.
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

// Script gives the Starlark script that does what the steps of a definition do,
// for a definition that has it in their place and is as it was otherwise.
//
// Arguments have the types that the schemas of their tools ask for. Those of a
// tool that is among tools are written with these types; those of another are
// left to the run, which knows what the tool wants then. tools may be nil.
//
// What cannot be converted exactly is a *ConversionError, which says where it
// stands and what to do.
func Script(d *definitions.Definition, tools definitions.Tools) (string, error) {
	if len(d.Steps) == 0 {
		return "", &ConversionError{d.Pos, d.Name, "it has no steps: it is a script already"}
	}
	program, err := definitions.Compile(d)
	if err != nil {
		return "", err
	}
	if tools == nil {
		tools = func(string) (definitions.Tool, bool) { return definitions.Tool{}, false }
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
	program *definitions.Program
	tools   definitions.Tools
	params  string            // expression for the arguments of the call
	vars    map[string]string // names of variables, by step
	used    map[string]bool   // helpers
	notes   []string          // for the header
	out     strings.Builder
	depth   int // of forEach steps around the one that is written
}

// lacks is the error of what cannot be converted.
func (c *converter) lacks(where, path, message string) error {
	return &ConversionError{c.program.Definition.At(path), where, message}
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
	for _, name := range definitions.ScriptLanguage.Names() {
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
	helperCall    = regexp.MustCompile(`\b([a-z_]+)\(`)
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
	parts := strings.Split("\n"+helperSource, "\ndef ")[1:]
	for changed := true; changed; {
		changed = false
		for _, part := range parts {
			name, body, _ := strings.Cut(part, "(")
			if !c.used[name] {
				continue
			}
			for _, call := range helperCall.FindAllStringSubmatch(body, -1) {
				if inner := call[1]; !c.used[inner] {
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

// skipsRest says whether a step, or one in it, may skip what has not begun.
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
	before := map[string]string{}
	for i, n := range c.program.Order() {
		d := &dot{converter: c, where: "step " + n.ID, path: c.pathOf(n), name: n.ID, steps: map[string]string{}}
		for _, id := range n.Deps {
			d.steps[id] = c.vars[id]
		}
		if !c.parallel() { // exactly those have ended
			d.every = true
			if i > 0 {
				before[c.program.Order()[i-1].ID] = c.vars[c.program.Order()[i-1].ID]
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

// scriptWidth is how many branches of a script there are at a time.
const scriptWidth = 50

// mostCalls is how many calls steps may come to, those of scripts left out.
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

// pathOf is where a step stands in the definition.
func (c *converter) pathOf(n *definitions.Node) string {
	return fmt.Sprintf("steps[%d]", slices.Index(c.program.Steps, n))
}

func (c *converter) line(indent int, format string, args ...any) {
	c.out.WriteString(strings.Repeat("    ", indent))
	fmt.Fprintf(&c.out, format, args...)
	c.out.WriteByte('\n')
}

// runSteps writes what calls the functions of the steps.
func (c *converter) runSteps() {
	if !c.parallel() {
		for _, n := range c.program.Order() {
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
	for _, n := range c.program.Order() {
		if skips {
			c.line(0, "%s = steps[%s] or %s(%s)", c.vars[n.ID], starlarkText(n.ID), c.helper("skipped"), literalOf(n.Step.Defaults()))
		} else {
			c.line(0, "%s = steps[%s]", c.vars[n.ID], starlarkText(n.ID))
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

// result writes what the script returns.
func (c *converter) result() error {
	all := make([]string, len(c.program.Order()))
	d := &dot{converter: c, where: "output", steps: map[string]string{}, every: true, ended: true}
	for i, n := range c.program.Order() {
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
func (d *dot) properties(indent int, properties map[string]*definitions.Property, path string) (string, error) {
	var b strings.Builder
	missing := false
	for _, name := range template.SortedKeys(properties) {
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

func (d *dot) property(indent int, p *definitions.Property, path string) (string, error) {
	value, err := d.propertyValue(indent, p, path)
	switch {
	case err != nil:
		return "", err
	case p.Default != nil:
		v, err := template.AsType(p.Default, p.Type)
		if err != nil {
			return "", d.converter.lacks("output."+path+": default", "output.properties", err.Error()+": give it the type that it stands in for")
		}
		return fmt.Sprintf("%s(lambda: %s, %s)", d.converter.helper("otherwise"), value, literalOf(v)), nil
	case p.Type != "string" && p.Properties == nil:
		return fmt.Sprintf("%s(%s, %s)", d.converter.helper("must"), starlarkText(path), value), nil
	}
	return value, nil
}

func (d *dot) propertyValue(indent int, p *definitions.Property, path string) (string, error) {
	if p.Properties != nil {
		return d.properties(indent+1, p.Properties, path+".")
	}
	value, err := d.value(path, p.Value, []string{p.Type})
	if err != nil || p.Type == "string" {
		return value, err
	}
	return fmt.Sprintf("%s(%s, %s)", d.converter.helper("in_type"), value, starlarkText(p.Type)), nil
}

// Definition is a definition with the script that its steps became in their
// place. Of its output block it keeps what the properties are: what they are
// comes from the script.
func Definition(d *definitions.Definition, script string) *definitions.Definition {
	converted := d.Clone()
	converted.Steps, converted.Script = nil, script
	for _, s := range d.Steps {
		for ; s != nil; s = s.Step {
			converted.Tools = append(converted.Tools, s.Tools...)
		}
	}
	if d.Output != nil {
		converted.Output = &definitions.Output{Properties: withoutValues(d.Output.Properties), Required: d.Output.Required}
	}
	return converted
}

func withoutValues(properties map[string]*definitions.Property) map[string]*definitions.Property {
	bare := make(map[string]*definitions.Property, len(properties))
	for _, name := range template.SortedKeys(properties) {
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
