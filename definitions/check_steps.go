package definitions

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

func (c *checker) step(n node) {
	c.nodes = append(c.nodes, n)
	s := n.step
	if s.Timeout < 0 {
		c.stepErrorf(n, "timeout", "limit", "timeout must not be negative")
	}
	if n.inner() && len(s.DependsOn) > 0 {
		c.stepErrorf(n, "dependsOn", "misplaced", "dependsOn belongs to the forEach, not to its inner step")
	}
	c.onError(n)
	switch s.Type {
	case ToolStep, "":
		c.toolStep(n)
	case ElicitationStep:
		c.elicitationStep(n)
	case ForEachStep:
		c.forEachStep(n)
	case WaitStep:
		c.waitStep(n)
	case WorkflowStep:
		c.workflowStep(n)
	case ScriptStep:
		c.script(n)
	default:
		c.stepErrorf(n, "type", "step-type", "type %q is not known%s; known are %s",
			s.Type, template.DidYouMean(string(s.Type), stepTypes), enumerate(stepTypes))
		return
	}
	c.misplacedFields(n)
}

// stepTypes are the types that a step can have.
var stepTypes = []string{string(ToolStep), string(ElicitationStep), string(ForEachStep), string(WaitStep), string(WorkflowStep), string(ScriptStep)}

// enumerate writes words as a, b and c.
func enumerate(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// A typedField is a field that only steps of some types have.
type typedField struct {
	name  string
	types []StepType
	set   func(*Step) bool
}

func (f typedField) of(typ StepType) bool { return slices.Contains(f.types, typ) }

// owners names the types for a message.
func (f typedField) owners() string {
	names := make([]string, len(f.types))
	for i, typ := range f.types {
		names[i] = string(typ)
	}
	return strings.Join(names, " or ")
}

// fieldsOfType says which fields belong to which types of steps, apart from
// those that all steps have.
var fieldsOfType = []typedField{
	{"tool", []StepType{ToolStep}, func(s *Step) bool { return s.Tool != "" }},
	{"arguments", []StepType{ToolStep, WorkflowStep, ScriptStep}, func(s *Step) bool { return s.Arguments != nil }},
	{"onUnknown", []StepType{ToolStep}, func(s *Step) bool { return s.OnUnknown != "" }},
	{"probe", []StepType{ToolStep}, func(s *Step) bool { return s.Probe != nil }},
	{"compensate", []StepType{ToolStep, WorkflowStep}, func(s *Step) bool { return s.Compensate != nil }},
	{"workflow", []StepType{WorkflowStep}, func(s *Step) bool { return s.Workflow != "" }},
	{"message", []StepType{ElicitationStep}, func(s *Step) bool { return s.Message != "" }},
	{"schema", []StepType{ElicitationStep}, func(s *Step) bool { return s.Schema != nil }},
	{"mode", []StepType{ElicitationStep}, func(s *Step) bool { return s.Mode != "" }},
	{"onDecline", []StepType{ElicitationStep}, func(s *Step) bool { return s.OnDecline != nil }},
	{"onCancel", []StepType{ElicitationStep}, func(s *Step) bool { return s.OnCancel != nil }},
	{"collection", []StepType{ForEachStep}, func(s *Step) bool { return s.Collection != "" }},
	{"itemVar", []StepType{ForEachStep}, func(s *Step) bool { return s.ItemVar != "" }},
	{"maxParallel", []StepType{ForEachStep}, func(s *Step) bool { return s.MaxParallel != 0 }},
	{"maxIterations", []StepType{ForEachStep}, func(s *Step) bool { return s.MaxIterations != 0 }},
	{"step", []StepType{ForEachStep}, func(s *Step) bool { return s.Step != nil }},
	{"collect", []StepType{ForEachStep}, func(s *Step) bool { return s.Collect != "" }},
	{"script", []StepType{ScriptStep}, func(s *Step) bool { return s.Script != "" }},
	{"scriptFile", []StepType{ScriptStep}, func(s *Step) bool { return s.ScriptFile != "" }},
	{"modules", []StepType{ScriptStep}, func(s *Step) bool { return s.Modules != nil }},
	{"pinned", []StepType{ScriptStep}, func(s *Step) bool { return s.Pinned != nil }},
	{"tools", []StepType{ScriptStep}, func(s *Step) bool { return s.Tools != nil }},
	{"for", []StepType{WaitStep}, func(s *Step) bool { return s.For != "" }},
	{"until", []StepType{WaitStep}, func(s *Step) bool { return s.Until != "" }},
}

func (c *checker) misplacedFields(n node) {
	typ := n.step.Type
	if typ == "" && n.step.Tool == "" {
		return // the missing type has been told
	}
	if typ == "" {
		typ = ToolStep
	}
	for _, f := range fieldsOfType {
		if !f.of(typ) && f.set(n.step) {
			c.stepErrorf(n, f.name, "misplaced", "%s belongs to a step of type %s, and this one is of type %s%s",
				f.name, f.owners(), typ, map[bool]string{true: " since it has no type"}[n.step.Type == ""])
		}
	}
}

// likelyType gives the type that the first field of a step belongs to that is
// not one of a tool step, "" without.
func (n node) likelyType() StepType {
	for _, f := range fieldsOfType {
		if !f.of(ToolStep) && f.set(n.step) {
			return f.types[0]
		}
	}
	return ""
}

func (c *checker) toolStep(n node) {
	switch tool := n.step.Tool; {
	case tool == "" && n.step.Type == "" && n.likelyType() != "":
		c.stepErrorf(n, "tool", "required", "type is required for a step without a tool; what this one has belongs to type: %s", n.likelyType())
	case tool == "":
		c.stepErrorf(n, "tool", "required", "tool is required: the name of the tool to call")
	default:
		c.toolName(n, "tool", tool)
	}
	if !slices.Contains([]OnUnknown{"", FailUnknown, Ask}, n.step.OnUnknown) {
		c.stepErrorf(n, "onUnknown", "on-unknown", "onUnknown %q is not known; known are fail and ask", n.step.OnUnknown)
	}
	c.probe(n)
	c.compensation(n)
}

func (c *checker) toolName(n node, field, tool string) {
	if !toolPattern.MatchString(tool) {
		c.stepErrorf(n, field, "tool-name", "tool %q: the name of a tool is letters, digits, ., _ and -, with a letter or digit first", tool)
	}
}

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

func (c *checker) workflowStep(n node) {
	if n.step.Workflow == "" {
		c.stepErrorf(n, "workflow", "required", "workflow is required: the name of the composite tool to call")
	} else if ref, err := ParseReference(n.step.Workflow); err != nil && ref.Version != "" {
		c.stepErrorf(n, "workflow", "workflow", "workflow %q: %v", n.step.Workflow, err)
	} else if err != nil {
		c.stepErrorf(n, "workflow", "workflow", "workflow %v", err)
	}
	c.compensation(n)
	if limit := c.runTimeout(); limit > 0 && n.step.Timeout > limit {
		c.stepWarnf(n, "timeout", "timeout", "the workflow may take %s, but the whole run no more than %s; raise the definition's timeout", n.step.Timeout, limit)
	}
}

func (c *checker) elicitationStep(n node) {
	s := n.step
	if strings.TrimSpace(s.Message) == "" {
		c.stepErrorf(n, "message", "required", "message is required: what the person is asked")
	}
	if !slices.Contains([]Mode{"", FormMode, URLMode}, s.Mode) {
		c.stepErrorf(n, "mode", "elicitation-mode", "mode %q is not known; known are form and url", s.Mode)
	}
	c.handler(n, "onDecline", s.OnDecline)
	c.handler(n, "onCancel", s.OnCancel)
	c.elicitationSchema(n)
	if limit := c.runTimeout(); limit > 0 && s.Timeout > limit {
		c.stepWarnf(n, "timeout", "timeout", "the elicitation may take %s, but the whole run no more than %s; raise the definition's timeout", s.Timeout, limit)
	}
}

// runTimeout is how long a run may take.
func (c *checker) runTimeout() Duration {
	if c.def.Timeout == 0 {
		return Duration(DefaultTimeout)
	}
	return c.def.Timeout
}

func (c *checker) waitStep(n node) {
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
	case c.runTimeout() > 0 && d > c.runTimeout():
		c.stepWarnf(n, "for", "timeout", "the step waits for %s, but the whole run may take no more than %s; raise the definition's timeout", text, c.runTimeout())
	}
}

func (c *checker) handler(n node, name string, h *Handler) {
	if h == nil || slices.Contains([]Action{Abort, Continue, SkipRemaining}, h.Action) {
		return
	}
	if h.Action == "" {
		c.stepErrorf(n, name, "required", "%s needs an action: abort, continue or skip_remaining", name)
		return
	}
	c.stepErrorf(n, name+".action", "action", "%s: action %q is not known; known are abort, continue and skip_remaining", name, h.Action)
}

func (c *checker) forEachStep(n node) {
	s := n.step
	if strings.TrimSpace(s.Collection) == "" {
		c.stepErrorf(n, "collection", "required", "collection is required: a template that gives an array or an object")
	}
	if s.Step == nil {
		c.stepErrorf(n, "step", "required", "step is required: what is done for each item")
	}
	switch {
	case s.ItemVar == "":
	case s.ItemVar == "index":
		c.stepErrorf(n, "itemVar", "name", "itemVar must not be index, which is the number of the item")
	case s.ItemVar == "key":
		c.stepWarnf(n, "itemVar", "name", "itemVar is key, which is the name of a member when the collection is an object; then the member's value cannot be read")
	case !varPattern.MatchString(s.ItemVar):
		c.stepErrorf(n, "itemVar", "name", "itemVar %q: a variable is letters, digits and _, with no digit first", s.ItemVar)
	}
	c.between(n, "maxParallel", s.MaxParallel, MaxParallel)
	c.between(n, "maxIterations", s.MaxIterations, MaxIterations)
}

// between checks a number that has a default where it is 0.
func (c *checker) between(n node, name string, value, most int) {
	if value < 0 || value > most {
		c.stepErrorf(n, name, "limit", "%s is %d; 1 to %d are allowed", name, value, most)
	}
}

func (c *checker) onError(n node) {
	e := n.step.OnError
	if e == nil {
		return
	}
	switch e.Action {
	case "", Abort, Continue:
		if e.RetryCount != 0 || e.RetryDelay != 0 {
			c.stepWarnf(n, "onError", "retry", "retryCount and retryDelay do nothing unless the action is retry")
		}
		return
	case Retry:
	default:
		c.stepErrorf(n, "onError.action", "action", "onError: action %q is not known; known are abort, continue and retry", e.Action)
		return
	}
	switch n.step.Type {
	case "", ToolStep:
	case WorkflowStep: // what it has completed would be done twice
		c.stepErrorf(n, "onError.action", "retry", "onError: retry repeats a call, and a composite tool is more than one: say retry in the onError of the steps of %s that may fail; perdure runs retry repeats a run that has failed without what it has completed", n.step.Workflow)
	default:
		c.stepWarnf(n, "onError.action", "retry", "retry does nothing on a step of type %s; only calls of tools are retried", n.step.Type)
	}
	c.retry(n, "onError", e)
}

// retry checks the numbers of an onError that retries.
func (c *checker) retry(n node, field string, e *OnError) {
	switch {
	case e.RetryCount < 1:
		c.stepErrorf(n, field+".retryCount", "limit", "%s: retry needs a retryCount of 1 to %d", field, MaxRetries)
	case e.RetryCount > MaxRetries:
		c.stepErrorf(n, field+".retryCount", "limit", "%s: retryCount is %d; at most %d are allowed", field, e.RetryCount, MaxRetries)
	}
	if e.RetryDelay < 0 {
		c.stepErrorf(n, field+".retryDelay", "limit", "%s: retryDelay must not be negative", field)
	}
}
