package definitions

// waitKind waits for a time.
type waitKind struct{}

func (waitKind) Type() StepType { return WaitStep }

func (waitKind) Keys() StepKeys {
	return StepKeys{Own: []string{"for", "until"}, Either: []string{"for", "until"}, Not: []string{"timeout"}}
}

func (waitKind) Traits() Traits { return Traits{Waits: true, Sure: true} }

func (waitKind) Output(*Step) []string { return []string{"until"} }

func (waitKind) Does(s *Step) string {
	if s.Until != "" {
		return "wait until " + s.Until
	}
	return "wait " + s.For
}

func (waitKind) Look() Look {
	return Look{Symbol: "◷", Fill: "#f1eef8", Line: "#7a68a6", Dark: [2]string{"#292340", "#b3a2e0"}, Shape: Pill, Mermaid: [2]string{"([", "])"}}
}

func (waitKind) Check(at StepCheck) {
	c, n := at.c, at.n
	s := n.step
	switch {
	case s.For == "" && s.Until == "":
		c.stepErrorf(n, "for", "required", "for or until is required: how long to wait, or until when")
	case s.For != "" && s.Until != "":
		c.stepErrorf(n, "until", "wait", "a wait has for or until, not both")
	}
	if s.Timeout > 0 {
		c.stepErrorf(n, "timeout", "misplaced", "a wait has no timeout: it ends when its time has come")
	}
	c.literalFor(n)
	if s.Until != "" && !holdsTemplate(s.Until) {
		if _, err := parseUntil(s.Until); err != nil {
			c.neverRuns(n, "until", "wait", "until: %v", err)
		}
	}
}

// literalFor checks a duration that is written without a template.
func (c *checker) literalFor(n node) {
	text := n.step.For
	if text == "" || holdsTemplate(text) {
		return
	}
	parsed, err := parseFor(text)
	switch d := Duration(parsed); {
	case err != nil:
		c.neverRuns(n, "for", "wait", "for: %v", err)
	case d < 0:
		c.stepWarnf(n, "for", "wait", "%s is negative, so the step does not wait", text)
	case d > Duration(MaxWait):
		c.neverRuns(n, "for", "limit", "for is %s; at most %s, ten years, are allowed", text, Duration(MaxWait))
	case RunTimeout(c.def) > 0 && d > RunTimeout(c.def):
		c.stepWarnf(n, "for", "timeout", "the step waits for %s, but the whole run may take no more than %s; raise the definition's timeout", text, RunTimeout(c.def))
	}
}
