package convert

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
)

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

// terms are the third and fourth argument of a call: timeout and policy.
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

// policy is the policy(…) of a step's call; "" = none.
func (c *converter) policy(s *definitions.Step, d *dot) (string, error) {
	var parts []string
	if s.Workflow == "" { // for which retry has no effect
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

// retriesOf gives the retries of onError.
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

// undo is the call that undoes a step. Its templates see the step's output, and all
// steps.
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

// probe is the probe(…) of a step's call.
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
