package definitions

// workflowKind calls another composite tool.
type workflowKind struct{}

func (workflowKind) Type() StepType { return WorkflowStep }

func (workflowKind) Keys() StepKeys {
	return StepKeys{Own: []string{"arguments", "compensate", "workflow"}, Must: []string{"workflow"}}
}

// Traits: Check refuses retry, which would repeat what the composite tool completed.
func (workflowKind) Traits() Traits { return Traits{Retried: true} }

func (workflowKind) Output(*Step) []string { return nil }

func (workflowKind) Does(s *Step) string { return "call " + s.Workflow }

func (workflowKind) Look() Look {
	return Look{Symbol: "▣", Fill: "#e8f4f8", Line: "#3a7d94", Dark: [2]string{"#10303a", "#6fb9d1"}, Shape: Box, Mermaid: [2]string{"[/", "/]"}}
}

func (workflowKind) Check(at StepCheck) {
	c, n := at.c, at.n
	if n.step.Workflow == "" && n.step.Tool != "" {
		c.stepErrorf(n, "tool", "required", "tool is for a tool of a backend; a composite tool is called with workflow: %s", n.step.Tool)
	} else if n.step.Workflow == "" {
		c.stepErrorf(n, "workflow", "required", "workflow is required: the name of the composite tool to call")
	} else if ref, err := ParseReference(n.step.Workflow); err != nil && ref.Version != "" {
		c.stepErrorf(n, "workflow", "workflow", "workflow %q: %v", n.step.Workflow, err)
	} else if err != nil {
		c.stepErrorf(n, "workflow", "workflow", "workflow %v", err)
	}
	if e := n.step.OnError; e != nil && e.Action == Retry {
		c.stepErrorf(n, "onError.action", "retry", "onError: retry repeats a call, and a composite tool is more than one: say retry in the onError of the steps of %s that may fail; perdure runs resume repeats a run that has failed without what it has completed", n.step.Workflow)
	}
	c.compensation(n)
	c.withinRun(n, "workflow")
}
