package convert

import (
	"cmp"
	"fmt"
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

// body writes the statements of a step, which return its state.
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
		reason := ""
		if c.reasons {
			reason = ", " + starlarkText(s.WhySkipped())
		}
		c.line(indent+1, "return skipped(%s%s)", defaults, reason)
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

// negated is the negation of a condition.
func negated(condition string) string {
	if inner, ok := strings.CutPrefix(condition, "(not "); ok && strings.Count(inner, "(")+1 == strings.Count(inner, ")") && !strings.Contains(inner, " and ") && !strings.Contains(inner, " or ") {
		return strings.TrimSuffix(inner, ")")
	}
	if inner, ok := strings.CutPrefix(condition, "("); ok && strings.Count(condition, " == ") == 1 && !strings.Contains(condition, " and ") && !strings.Contains(condition, " or ") {
		return strings.Replace(strings.TrimSuffix(inner, ")"), " == ", " != ", 1)
	}
	return "not " + condition
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

// script writes a script step as a function within that of the step.
func (c *converter) script(indent int, n *definitions.Node, d *dot) error {
	s := n.Step
	if loads := starlark.Loads("", s.Script); len(loads) > 0 {
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
	place, err := template.SchemaOf(definitions.AnySchema)
	if err != nil {
		return err
	}
	args, err := d.argument("arguments", s.Arguments, place, false)
	if err != nil {
		return err
	}
	c.line(indent, "def body(data):")
	c.paste(indent+1, s.Script)
	c.line(indent, "return completed(within(%q, lambda: plain(body(plain(%s))), %s))", stepLimit(s), args.code, d.named())
	return nil
}

// stepLimit is the timeout of a step.
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
	options, err := loopOptions(n, item, entry)
	if err != nil {
		return err
	}
	width, most := cmp.Or(s.MaxParallel, definitions.DefaultParallel), cmp.Or(s.MaxIterations, definitions.DefaultIterations)
	limit, itemTime := loopLimit(s, most)
	c.line(indent, "return loop(%s, items_of(%s), %s, %d, %d, %s%s%s)", d.named(), items, work, min(width, definitions.MaxParallel), most, limit, innerPath+options, itemTime)
	return nil
}

// loopOptions are the arguments of a loop that have defaults; entry is the parameter of its
// function.
func loopOptions(n *definitions.Node, item *dot, entry string) (options string, err error) {
	if n.Inner.Continues {
		options += ", goes_on = True"
	}
	if output, ok := n.Inner.FailedOutput(); ok {
		options += ", failed_output = " + literalOf(output)
	}
	options += ownWords(n.Inner)
	if n.Step.Collect == "" {
		return options, nil
	}
	item.output = "output"
	collect, err := item.collect(n.Step.Collect)
	return options + fmt.Sprintf(", collect = lambda %s, output: %s", entry, collect), err
}

// loopLimit is the timeout of a loop over at most so many items, and an option with the
// time of an item if the loop may take longer than that; see Step.LoopTime.
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

// wrapped is the function of a step with its error handling.
func (c *converter) wrapped(n *definitions.Node) string {
	f := "step_" + c.vars[n.ID]
	defaults := literalOf(n.Step.Defaults())
	if n.Step.Continues() {
		f = fmt.Sprintf("goes_on(%s, %s, %s%s)", starlarkText(n.ID), f, defaults, ownWords(n))
	}
	if c.mode() != definitions.FailFast {
		after := ""
		if c.reasons {
			after = ", after = " + literalOf(anys(n.Deps))
		}
		f = fmt.Sprintf("lets_others_end(%s, %s, %s%s%s)", starlarkText(n.ID), f, defaults, ownWords(n), after)
	}
	if skipsRest(n.Step) {
		f = fmt.Sprintf("may_skip_rest(%s)", f)
	}
	return f
}
