package definitions

// scriptKind runs a script.
type scriptKind struct{}

func (scriptKind) Type() StepType { return ScriptStep }

func (scriptKind) Keys() StepKeys {
	return StepKeys{Own: []string{"arguments", "script", "scriptFile", "modules", "pinned", "tools"}}
}

func (scriptKind) Traits() Traits { return Traits{Waits: true, Composed: true} }

func (scriptKind) Check(at StepCheck) { at.c.script(at.n) }

func (scriptKind) Output(*Step) []string { return nil }

func (scriptKind) Does(s *Step) string { return "script " + s.ScriptFile }

func (scriptKind) Look() Look {
	return Look{Symbol: "λ", Fill: "#fdeeee", Line: "#a54a4a", Dark: [2]string{"#3a1d1d", "#e08a8a"}, Shape: Box, Mermaid: [2]string{"[/", "\\]"}}
}
