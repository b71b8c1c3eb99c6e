package definitions

import (
	"fmt"
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
	kind, known := KindOf(s.Type)
	if !known {
		c.unknownType(n)
		return
	}
	kind.Check(StepCheck{c, n})
	c.misplacedKeys(n, kind)
}

// otherStepTypes are the names of step types in other systems.
var otherStepTypes = []otherStepType{
	{ElicitationStep, "", []string{"approval", "approve", "confirm", "input", "elicit", "question", "human", "prompt", "gate", "ask", "manual", "form"}},
	{ToolStep, "", []string{"task", "action", "operation", "function", "tool_call", "toolcall", "mcp"}},
	{ToolStep, "; a server offers it as a tool", []string{"http", "request", "webhook", "agent", "llm", "email", "slack", "notify", "shell", "bash", "run", "command"}},
	{ToolStep, ", or workflow for a composite tool", []string{"call"}},
	{ForEachStep, "", []string{"loop", "map", "for", "for_each", "foreach", "each", "iterate"}},
	{WaitStep, "", []string{"sleep", "delay", "timer", "pause"}},
	{WorkflowStep, "", []string{"composite", "subworkflow", "subflow"}},
	{ScriptStep, "", []string{"starlark", "python", "code", "while", "until", "repeat"}},
	{ScriptStep, "; scripts are in Starlark, a dialect of Python", []string{"javascript", "js", "typescript", "lua"}},
	{ScriptStep, ", whose fail(\"why\") fails the run", []string{"fail", "raise", "throw", "error"}},
	{"", "a step of any type has a condition", []string{"conditional", "if", "switch", "choice", "branch", "when"}},
	{"", "compute in a template, or write type: script", []string{"set", "assign", "variable", "transform", "pass", "inject"}},
	{"", "steps run side by side unless one depends on another", []string{"parallel", "fork", "concurrent", "all"}},
	{"", "leave the step out; a run completes when its steps have ended", []string{"succeed", "success", "end", "stop", "noop", "start"}},
	{"", "write onError in the step that may fail", []string{"try", "catch", "retry"}},
	{"", "a run waits for a person (type: elicitation) or for a time (type: wait)", []string{"listen", "event", "emit", "signal", "callback", "trigger"}},
}

// An otherStepType is what to write for the name of a type in another system.
type otherStepType struct {
	means StepType // "" = none by itself
	more  string   // after that
	names []string
}

// meantStepType is the one with a name; the zero otherStepType = there is none.
func meantStepType(written string) otherStepType {
	for _, o := range otherStepTypes {
		if slices.Contains(o.names, strings.ToLower(written)) {
			return o
		}
	}
	return otherStepType{}
}

func (o otherStepType) advice() string {
	if o.means == "" {
		return o.more
	}
	return "write type: " + string(o.means) + o.more
}

func (c *checker) unknownType(n node) {
	written := string(n.step.Type)
	if meant := meantStepType(written).advice(); meant != "" {
		c.stepErrorf(n, "type", "step-type", "type %q is not known: %s", written, meant)
		return
	}
	c.stepErrorf(n, "type", "step-type", "type %q is not known%s; known types: %s", written, template.DidYouMean(written, StepTypes()), enumerate(StepTypes()))
}

// enumerate writes words as a, b and c.
func enumerate(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// withinRun warns of a step with a longer timeout than the run.
func (c *checker) withinRun(n node, what string) {
	if limit := RunTimeout(c.def); limit > 0 && n.step.Timeout > limit {
		c.stepWarnf(n, "timeout", "timeout", "the %s may take %s, but the whole run no more than %s; raise the definition's timeout", what, n.step.Timeout, limit)
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
		c.stepErrorf(n, "onError.action", "action", "onError: action %q is not known%s; known values: abort, continue and retry", e.Action, meantAction(e.Action))
		return
	}
	if _, known := KindOf(n.step.Type); known && !n.step.Type.Traits().Retried {
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

// otherActions are what actions are called elsewhere.
var otherActions = map[string]Action{
	"fail": Abort, "stop": Abort, "error": Abort, "throw": Abort, "exit": Abort, "ignore": Continue, "skip": Continue, "proceed": Continue, "repeat": Retry, "again": Retry,
}

// meantAction says which action is meant, as words that follow a message; "" = not
// known.
func meantAction(a Action) string {
	if meant, ok := otherActions[strings.ToLower(string(a))]; ok {
		return fmt.Sprintf(": write %s", meant)
	}
	return template.DidYouMean(string(a), []string{string(Abort), string(Continue), string(Retry)})
}
