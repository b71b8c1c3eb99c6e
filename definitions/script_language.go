package definitions

import (
	"slices"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// ScriptLanguage is Starlark with the functions that scripts have;
// docs/scripts.md describes each.
var ScriptLanguage = &starlark.Language{
	Functions: template.SortedKeys(scriptFunctions),
	Values:    []string{"data", "run"},
}

// scriptFunctions has the functions of scripts with the arguments that they take by
// name; nil = any, as they are those of a tool.
var scriptFunctions = map[string][]string{
	"approve":       {"message", "schema", "timeout", "by"},
	"attempt":       {},
	"call_tool":     nil,
	"call_workflow": nil,
	"elicit":        {"message", "schema", "timeout", "validate", "by", "mode"},
	"fail":          {"sep", "code", "category", "message"},
	"iterate":       {"tool", "args", "page", "start", "items", "max_pages"},
	"log":           {"sep"},
	"map_parallel":  {"fn", "items", "max", "on_error"},
	"now":           {},
	"parallel":      {"fns", "max", "on_error", "after"},
	"policy":        {"retries", "delay", "on_unknown", "probe", "undo"},
	"print":         {"sep"},
	"probe":         {"tool", "args", "delay", "timeout", "happened", "not_happened", "result"},
	"progress":      {"done", "total", "message"},
	"report":        {"error", "message"},
	"retry":         {"fn", "attempts", "delay", "backoff"},
	"skip_rest":     {"result"},
	"sleep":         {"duration"},
	"template":      {"text", "data", "kind"},
	"tool_output":   nil,
	"try_call_tool": nil,
	"typed":         {},
	"undo":          {"tool", "args", "timeout", "retries", "delay"},
	"within":        {"timeout", "fn", "name"},
}

// FunctionArguments gives the arguments that a function of scripts takes by name; nil =
// any.
func FunctionArguments(name string) []string { return scriptFunctions[name] }

// runFields are those of run.
var runFields = []string{"id", "started"}

// The kinds of calls in a script.
const (
	CallsTool     = "tool"
	CallsIterate  = "iterate"
	CallsProbe    = "probe" // of a policy
	CallsUndo     = "undo"  // of a policy
	CallsWorkflow = "workflow"
	CallsElicit   = "elicit"
	CallsApprove  = "approve"
	CallsSleep    = "sleep"
	CallsParallel = "parallel"
)

// kindOfCall has the functions of scripts that call something.
var kindOfCall = map[string]string{
	"call_tool": CallsTool, "try_call_tool": CallsTool, "tool_output": CallsTool, "iterate": CallsIterate,
	"probe": CallsProbe, "undo": CallsUndo, "call_workflow": CallsWorkflow,
	"elicit": CallsElicit, "approve": CallsApprove,
	"sleep": CallsSleep, "parallel": CallsParallel, "map_parallel": CallsParallel,
}

// A seenCall is a call visible in a script without running it.
type seenCall struct {
	starlark.Call
	kind    string
	name    string              // of the tool or workflow, as written, with its version; "" = computed
	message string              // of an elicitation, where it is literal
	args    []starlark.Argument // for the tool or workflow, as far as visible
	more    bool                // there may be other arguments
}

// seenCalls gives the calls of a script, in the order of its source.
func seenCalls(p *starlark.Program) []seenCall {
	var calls []seenCall
	for _, c := range p.Calls() {
		seen := seenCall{Call: c, kind: kindOfCall[c.Func]}
		switch {
		case c.Free != "":
			seen.kind, seen.name = CallsTool, c.Free
			seen.arguments(0)
		default:
			seen.function()
		}
		if seen.kind != "" {
			calls = append(calls, seen)
		}
		calls = append(calls, passedTools(c)...)
	}
	return calls
}

// function reads the arguments of a builtin function.
func (c *seenCall) function() {
	switch c.kind {
	case CallsTool:
		c.name = c.Arg("", 0).Text()
		c.arguments(1)
	case CallsProbe, CallsUndo:
		c.name = c.Arg("tool", 0).Text()
	case CallsIterate:
		tool := c.Arg("tool", 0)
		c.name, c.InLoop, c.more = tool.Text()+tool.Free, true, true
	case CallsWorkflow:
		c.name = c.Arg("", 0).Text()
		switch version := c.Arg("version", -1); {
		case version.Text() != "" && c.name != "":
			c.name += "@" + version.Text()
		case version.Literal == nil && version.Line != 0:
			c.name = "" // the version is computed
		}
		c.arguments(1)
		c.args = slices.DeleteFunc(c.args, func(a starlark.Argument) bool { return a.Name == "version" })
	case CallsElicit, CallsApprove:
		c.message = c.Arg("message", 0).Text()
	}
}

// arguments are those by name, and those of a dict at a position.
func (c *seenCall) arguments(dict int) {
	c.more = c.Open
	for i, a := range c.Args {
		switch {
		case a.Name != "":
			c.args = append(c.args, a)
		case i == dict && c.Func != "":
			c.args = append(c.args, a.Members...)
			c.more = c.more || !a.Closed
		}
	}
}

// passedTools are tools passed to a builtin function, which may call them.
func passedTools(c starlark.Call) []seenCall {
	var calls []seenCall
	for i, a := range c.Args {
		if c.Func == "" || a.Free == "" || c.Func == "iterate" && (i == 0 || a.Name == "tool") {
			continue
		}
		passed := c
		passed.Func, passed.Free, passed.Args = "", a.Free, nil
		passed.Value, passed.InLoop, passed.Open, passed.Line, passed.Column = true, true, true, a.Line, a.Column
		passed.Inside = append(slices.Clone(c.Inside), c.Func)
		calls = append(calls, seenCall{Call: passed, kind: CallsTool, name: a.Free, more: true})
	}
	return calls
}

// isTool reports whether a tool is called.
func (c *seenCall) isTool() bool {
	return slices.Contains([]string{CallsTool, CallsIterate, CallsProbe, CallsUndo}, c.kind)
}

// computed reports whether a tool or a composite tool is called by a computed name.
func (c *seenCall) computed() bool {
	return c.name == "" && (c.isTool() || c.kind == CallsWorkflow)
}

// again reports whether the call may be made more than once.
func (c *seenCall) again() bool {
	inBranch := slices.Contains(c.Inside, "parallel") || slices.Contains(c.Inside, "map_parallel")
	return c.InLoop || inBranch || c.InFunction != ""
}

// atLoading reports whether a module makes the call when it is loaded.
func (c *seenCall) atLoading() bool {
	return c.InFunction == "" && !c.Value && c.kind != CallsProbe && c.kind != CallsUndo
}
