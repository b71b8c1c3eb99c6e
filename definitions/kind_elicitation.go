package definitions

import (
	"slices"
	"strings"
)

// elicitationKind asks a person.
type elicitationKind struct{}

func (elicitationKind) Type() StepType { return ElicitationStep }

func (elicitationKind) Keys() StepKeys {
	return StepKeys{Own: []string{"message", "schema", "mode", "onDecline", "onCancel"}, Must: []string{"message"}}
}

func (elicitationKind) Traits() Traits { return Traits{Asks: true, Waits: true} }

func (elicitationKind) Output(*Step) []string { return []string{"action", "content", "skipped"} }

func (elicitationKind) Does(s *Step) string { return "ask: " + s.Message }

func (elicitationKind) Look() Look {
	return Look{Symbol: "◆", Fill: "#fff3d6", Line: "#b07d12", Dark: [2]string{"#3d300f", "#e0b04a"}, Shape: Hexagon, Mermaid: [2]string{"{{", "}}"}}
}

func (elicitationKind) Check(at StepCheck) {
	c, n := at.c, at.n
	s := n.step
	if strings.TrimSpace(s.Message) == "" {
		c.stepErrorf(n, "message", "required", "message is required: what the person is asked")
	}
	if !slices.Contains([]Mode{"", FormMode, URLMode}, s.Mode) {
		c.stepErrorf(n, "mode", "elicitation-mode", "mode %q is not known; known values: form and url", s.Mode)
	}
	c.handler(n, "onDecline", s.OnDecline)
	c.handler(n, "onCancel", s.OnCancel)
	(&schemaCheck{c.subject}).elicitationSchema(n)
	c.withinRun(n, "elicitation")
}

func (c *checker) handler(n node, name string, h *Handler) {
	if h == nil || slices.Contains([]Action{Abort, Continue, SkipRemaining}, h.Action) {
		return
	}
	if h.Action == "" {
		c.stepErrorf(n, name, "required", "%s needs an action: abort, continue or skip_remaining", name)
		return
	}
	c.stepErrorf(n, name+".action", "action", "%s: action %q is not known: write %s", name, h.Action, meantAnswer(h.Action))
}
