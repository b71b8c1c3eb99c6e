package definitions

import (
	"regexp"
	"slices"
	"strings"
)

// toolKind calls a tool of a backend.
type toolKind struct{}

func (toolKind) Type() StepType { return ToolStep }

func (toolKind) Keys() StepKeys {
	return StepKeys{Own: []string{"tool", "arguments", "onUnknown", "probe", "compensate"}, Must: []string{"tool"}}
}

func (toolKind) Traits() Traits { return Traits{Retried: true, Blocks: true} }

func (toolKind) Output(*Step) []string { return nil }

func (toolKind) Does(s *Step) string { return s.Tool }

func (toolKind) Look() Look {
	return Look{Symbol: "○", Fill: "#eef4ff", Line: "#4a6fa5", Dark: [2]string{"#16263f", "#7ea6e0"}, Shape: Box, Mermaid: [2]string{"[", "]"}}
}

func (toolKind) Check(at StepCheck) {
	c, n := at.c, at.n
	switch tool := n.step.Tool; {
	case tool == "" && n.step.Type == "" && n.likelyType() != "":
		c.stepErrorf(n, "tool", "required", "type is required for a step without a tool; what this one has belongs to type: %s", n.likelyType())
	case tool == "":
		c.stepErrorf(n, "tool", "required", "tool is required: the name of the tool to call")
	default:
		c.toolName(n, "tool", tool)
	}
	if !slices.Contains([]OnUnknown{"", FailUnknown, Ask}, n.step.OnUnknown) {
		c.stepErrorf(n, "onUnknown", "on-unknown", "onUnknown %q is not known; known values: fail and ask", n.step.OnUnknown)
	}
	c.probe(n)
	c.compensation(n)
}

// IsToolName reports whether a step can call a tool of a name.
func IsToolName(name string) bool { return toolPattern.MatchString(name) }

func (c *checker) toolName(n node, field, tool string) {
	switch {
	case IsToolName(tool):
	case foreignTool.MatchString(tool):
		c.stepErrorf(n, field, "tool-name", "tool %q: a tool of a backend is written with _ between: write %s", tool, strings.NewReplacer("/", "_", ":", "_").Replace(tool))
	default:
		c.stepErrorf(n, field, "tool-name", "tool %q: the name of a tool is letters, digits, ., _ and -, with a letter or digit first", tool)
	}
}

// foreignTool is a tool of a backend as other systems write it.
var foreignTool = regexp.MustCompile(`^[a-zA-Z0-9][\w.-]*[/:][\w.-]+$`)

// probe checks the call that finds out whether the step's was executed.
func (c *checker) probe(n node) {
	p := n.step.Probe
	if p == nil {
		return
	}
	if p.Tool == "" {
		c.stepErrorf(n, "probe.tool", "required", "probe: tool is required: the read tool that knows whether the call was executed")
	} else {
		c.toolName(n, "probe.tool", p.Tool)
	}
	if p.Happened == "" && p.NotHappened == "" {
		c.stepErrorf(n, "probe", "required", "probe: happened or notHappened is required: how to tell by the output of the tool")
	}
	if p.Delay < 0 {
		c.stepErrorf(n, "probe.delay", "limit", "probe: delay must not be negative")
	}
	if p.Timeout < 0 {
		c.stepErrorf(n, "probe.timeout", "limit", "probe: timeout must not be negative")
	}
}

// compensation checks the call that undoes a tool step.
func (c *checker) compensation(n node) {
	undo := n.step.Compensate
	if undo == nil {
		return
	}
	if undo.Tool == "" {
		c.stepErrorf(n, "compensate.tool", "required", "compensate: tool is required: the name of the tool that undoes the step")
	} else {
		c.toolName(n, "compensate.tool", undo.Tool)
	}
	if undo.Timeout < 0 {
		c.stepErrorf(n, "compensate.timeout", "limit", "compensate: timeout must not be negative")
	}
	switch e := undo.OnError; {
	case e == nil:
	case e.Action != Retry:
		c.stepErrorf(n, "compensate.onError.action", "action", "compensate: onError can be retry only; what cannot be undone in the end is for a person to settle")
	default:
		c.retry(n, "compensate.onError", e)
	}
}
