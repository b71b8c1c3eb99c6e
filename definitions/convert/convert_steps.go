package convert

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// step writes the function of a step.
func (c *converter) step(n *definitions.Node, d *dot) error {
	if c.isPlain(n) {
		c.plain[n.ID] = true
		call, err := c.call(n.Step, d)
		c.line(0, "%s = %s\n", c.vars[n.ID], call)
		return err
	}
	params := make([]string, len(n.Deps))
	for i, id := range n.Deps {
		params[i] = c.vars[id]
	}
	c.line(0, "def step_%s(%s):", c.vars[n.ID], strings.Join(params, ", "))
	if err := c.body(1, n, d); err != nil {
		return err
	}
	c.line(0, "")
	if !c.parallel() {
		args := make([]string, len(n.Deps))
		for i, id := range n.Deps {
			args[i] = c.vars[id]
		}
		c.line(0, "%s = %s(%s)\n", c.vars[n.ID], c.wrapped(n), strings.Join(args, ", "))
	}
	return nil
}

// body writes what a step does, which returns its state.
func (c *converter) body(indent int, n *definitions.Node, d *dot) error {
	s := n.Step
	if s.Condition != "" {
		condition, err := d.condition("condition", s.Condition)
		if err != nil {
			return err
		}
		defaults, err := c.literal(s.Defaults())
		if err != nil {
			return err
		}
		c.line(indent, "if %s:", negated(condition))
		c.line(indent+1, "return skipped(%s)", defaults)
	}
	switch s.Type {
	case definitions.ScriptStep:
		return c.script(indent, n, d)
	case definitions.ElicitationStep:
		return c.elicitation(indent, s, d)
	case definitions.ForEachStep:
		return c.forEach(indent, n, d)
	case definitions.WaitStep:
		return c.wait(indent, s, d)
	case definitions.WorkflowStep, definitions.ToolStep, "":
		call, err := c.call(s, d)
		c.line(indent, "return completed(%s)", call)
		return err
	}
	return fmt.Errorf("steps of type %s cannot be converted", s.Type)
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

// call is the call of a tool or of another definition.
func (c *converter) call(s *definitions.Step, d *dot) (string, error) {
	tool, known := c.tools(s.Tool)
	if s.Workflow != "" {
		tool, known = definitions.Tool{}, false
	}
	args, err := d.arguments("arguments", s.Arguments, tool, known)
	if err != nil {
		return "", err
	}
	how, err := c.policy(s, d)
	if err != nil {
		return "", err
	}
	args += c.terms(s, how)
	if s.Workflow == "" {
		// tool_output gives the text of a tool as it is; call_tool would read JSON in it.
		return fmt.Sprintf("tool_output(%s, %s)", starlarkText(s.Tool), args), nil
	}
	name, version, versioned := strings.Cut(s.Workflow, "@")
	if versioned {
		args += fmt.Sprintf(", version = %q", version)
	}
	return fmt.Sprintf("call_workflow(%s, %s)", starlarkText(name), args), nil
}

// terms are the third and the fourth argument of a call: how long it may take,
// and what belongs to it besides.
func (c *converter) terms(s *definitions.Step, how string) string {
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
func (c *converter) policy(s *definitions.Step, d *dot) (string, error) {
	var parts []string
	if s.Workflow == "" { // where retry does nothing
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
func retriesOf(e *definitions.OnError) []string {
	if e == nil || e.Action != definitions.Retry || e.RetryCount == 0 {
		return nil
	}
	parts := []string{fmt.Sprintf("retries = %d", min(e.RetryCount, definitions.MaxRetries))}
	if e.RetryDelay != 0 {
		parts = append(parts, fmt.Sprintf("delay = %q", time.Duration(e.RetryDelay)))
	}
	return parts
}

// undo is the call that undoes a step. Its templates see the step's output, and
// the step among the others.
func (c *converter) undo(u *definitions.Compensation, at *dot) (string, error) {
	d := *at
	d.steps = maps.Clone(at.steps)
	d.output, d.timeless = "output", true
	if len(d.indexes) == 0 {
		d.steps[d.name] = state{"output", true}
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
func (c *converter) probe(p *definitions.Probe, at *dot) (string, error) {
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
		for_ definitions.Duration
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
		parts = append(parts, "result = lambda call, output: "+result.code)
	}
	return "probe(" + strings.Join(parts, ", ") + ")", nil
}

func (c *converter) wait(indent int, s *definitions.Step, d *dot) error {
	field, template, helper := "for", s.For, "wait_for"
	if s.Until != "" {
		field, template, helper = "until", s.Until, "wait_until"
	}
	text, err := d.text(field, template)
	if err != nil {
		return err
	}
	c.line(indent, "return %s(%s)", helper, text)
	return nil
}

func (c *converter) elicitation(indent int, s *definitions.Step, d *dot) error {
	message, err := d.text("message", s.Message)
	if err != nil {
		return err
	}
	limit := time.Duration(s.Timeout)
	if limit == 0 {
		limit = definitions.DefaultStepTimeout
	}
	options := ""
	if s.Schema != nil {
		options = ", schema = " + literalOf(s.Schema)
	}
	options += fmt.Sprintf(", timeout = %q", limit)
	if s.Mode == definitions.URLMode {
		options += `, mode = "url"`
	}
	handlers := ""
	if s.Continues() {
		handlers = ", go_on = True"
	}
	c.line(indent, "answer = elicit(%s%s)", message, options)
	c.line(indent, "return answered(%s, answer, %s, %q, on_decline = %q, on_cancel = %q%s)", d.named(), literalOf(s.Defaults()),
		limit.Round(time.Millisecond), handlerOf(s.OnDecline), handlerOf(s.OnCancel), handlers)
	return nil
}

func handlerOf(h *definitions.Handler) definitions.Action {
	if h == nil {
		return definitions.Abort
	}
	return h.Action
}

// script writes a step that is a script as a function in that of the step.
func (c *converter) script(indent int, n *definitions.Node, d *dot) error {
	s := n.Step
	if loads, _ := starlark.Loads("", s.Script); len(loads) > 0 {
		return c.lacks(d.where+": script", template.AtMember(d.path, "script"), fmt.Sprintf("it loads %s, which a function cannot: put into the script of the step what it takes from there", loads[0].Module))
	}
	for _, g := range n.Script.Globals() {
		if helperDef.MatchString("def "+g.Name+"(") && strings.Contains(helperSource, "def "+g.Name+"(") {
			return c.lacks(d.where+": script", template.AtMember(d.path, "script"), fmt.Sprintf("the tool %s has the name of a function of the converted script: write call_tool(%[1]q, …)", g.Name))
		}
	}
	if len(s.Tools) > 0 {
		c.note(fmt.Sprintf("The definition needs tools: [%s], as the step %s had it.", strings.Join(s.Tools, ", "), d.name))
	}
	var cache template.SchemaCache
	place, err := cache.Of(definitions.AnySchema)
	if err != nil {
		return err
	}
	args, err := d.argument("arguments", s.Arguments, place, false)
	if err != nil {
		return err
	}
	c.line(indent, "def body(data):")
	c.out.WriteString(starlark.Indent(s.Script, strings.Repeat("    ", indent+1)) + "\n")
	c.line(indent, "return completed(within(%q, lambda: plain(body(plain(%s))), %s))", stepLimit(s), args.code, d.named())
	return nil
}

// stepLimit is how long a step may take.
func stepLimit(s *definitions.Step) time.Duration {
	if s.Timeout == 0 {
		return definitions.DefaultStepTimeout
	}
	return time.Duration(s.Timeout)
}

// forEach writes a loop, with its inner step as a function of one item.
func (c *converter) forEach(indent int, n *definitions.Node, d *dot) error {
	s := n.Step
	items, ok := d.container("collection", s.Collection)
	if !ok {
		var err error
		if items, err = d.collection(s.Collection); err != nil {
			return err
		}
	}
	c.depth++
	defer func() { c.depth-- }()
	entry, work := "entry", "item"
	if c.depth > 1 {
		entry, work = fmt.Sprintf("entry%d", c.depth), fmt.Sprintf("item%d", c.depth)
	}
	item := d.inside(entry, s)
	inner, innerPath := *item, ""
	if n.Inner.Inner != nil {
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
		width = definitions.DefaultParallel
	}
	if most == 0 {
		most = definitions.DefaultIterations
	}
	options := innerPath
	switch {
	case n.Inner.Step.Continues():
		options += ", goes_on = True, failed_output = " + literalOf(n.Inner.Step.Defaults())
	case s.Continues():
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
	limit, itemTime := loopLimit(s, most)
	c.line(indent, "return loop(%s, items_of(%s), %s, %d, %d, %s%s%s)", d.named(), items, work, min(width, definitions.MaxParallel), most, limit, options, itemTime)
	return nil
}

// loopLimit is the timeout of a loop over at most so many items, and an option with
// the time of an item where the loop may take longer than that; see Step.LoopTime.
func loopLimit(s *definitions.Step, most int) (limit, itemTime string) {
	longest := s.LoopTime(most)
	switch {
	case longest == 0:
		return "None", ""
	case s.Timeout > 0 || longest == definitions.DefaultStepTimeout:
		return fmt.Sprintf("%q", longest), ""
	default:
		return fmt.Sprintf("%q", definitions.DefaultStepTimeout), fmt.Sprintf(", item_time = %q", s.Step.Timeout)
	}
}

// wrapped is the function of a step with what its failure means.
func (c *converter) wrapped(n *definitions.Node) string {
	f := "step_" + c.vars[n.ID]
	defaults := literalOf(n.Step.Defaults())
	if n.Step.Continues() {
		f = fmt.Sprintf("goes_on(%s, %s, %s%s)", starlarkText(n.ID), f, defaults, ownWords(n))
	}
	if c.mode() != definitions.FailFast {
		f = fmt.Sprintf("lets_others_end(%s, %s, %s%s)", starlarkText(n.ID), f, defaults, ownWords(n))
	}
	if skipsRest(n.Step) {
		f = fmt.Sprintf("may_skip_rest(%s)", f)
	}
	return f
}
