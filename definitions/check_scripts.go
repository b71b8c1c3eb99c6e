package definitions

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/starlark"
)

// scriptCalls checks the visible calls of a script against the known tools.
func (c *callCheck) scriptCalls(n node, program *starlark.Program) {
	at, names := template.AtMember(n.path, "script"), program.Names()
	for _, call := range seenCalls(program) {
		if c.diags.full() {
			return
		}
		pos := c.scriptPosition(n, call.File, call.Line, call.Column)
		isTool := call.isTool()
		switch {
		case call.File != n.step.file() && call.atLoading():
			c.report(at, pos, SeverityError, "script-load", "%s", callsAtLoading)
		case call.computed() && len(n.step.Tools) == 0:
			c.report(at, pos, SeverityError, "dynamic-tool", "%s: which tool is called here only a run can tell; list in tools: what the script may call", n.label)
		case isTool && call.Value && !c.isTool(call.name) && c.meansData(n, call.name) != "": // whatever tools there are
			c.report(at, pos, SeverityWarning, "unknown-tool", "%s: nothing is called %s: it is no variable%s", n.label, call.name, c.foreignName(n, call.name))
		case isTool && call.name != "" && c.tools != nil:
			c.scriptCall(n, names, call, pos)
		case call.kind == CallsElicit || call.kind == CallsApprove:
			schema := call.Arg("schema", 1).Literal
			if schema == nil || string(schema) == "null" {
				continue
			}
			if _, err := ParseQuestion(schema); err != nil {
				c.report(at, pos, SeverityError, "elicitation-schema", "%s: %v", n.label, err)
			}
		}
	}
}

// callsAtLoading is the mistake of a module that calls something outside of its
// functions.
const callsAtLoading = "what is loaded only defines: nothing is called at its top level; do it in a function that the script calls"

// scriptCall checks the call of a tool, and its literal arguments; names are those of the
// program.
func (c *callCheck) scriptCall(n node, names []string, call seenCall, pos Position) {
	at := template.AtMember(n.path, "script")
	tool, ok := c.tools(call.name)
	switch {
	case !ok && c.isComposite(call.name):
		c.report(at, pos, SeverityWarning, "unknown-tool", "%s: %s is a composite tool and no tool of a backend: call_workflow(%q, …) calls it", n.label, call.name, call.name)
		return
	case !ok && call.Value:
		c.report(at, pos, SeverityWarning, "unknown-tool", "%s: nothing is called %s: it is no variable, and no backend has such a tool at present%s; the definition is not offered without it",
			n.label, call.name, cmp.Or(c.hyphenHint(n, call), c.foreignName(n, call.name), template.DidYouMean(call.name, names), c.toolHint(call.name)))
		return
	case !ok:
		c.report(at, pos, SeverityWarning, "unknown-tool", "%s: no backend has a tool %q at present%s; the definition is not offered without it", n.label, call.name, cmp.Or(c.foreignName(n, call.name), c.toolHint(call.name), template.DidYouMean(call.name, names)))
		return
	}
	schema, err := decodeObject(tool.InputSchema)
	if err != nil || call.kind != CallsTool {
		return
	}
	a := scriptArguments{callCheck: c, node: n, call: call, callee: toolNamed(call.name), pos: pos, at: at}
	a.check(schema)
}

// hyphenated is a name that a script has with the hyphens of the tool, which are minus
// signs there.
var hyphenated = regexp.MustCompile(`^[\w.]+(?:-\w+)+`)

// hyphenHint is how scripts spell the tool that is written at a call with its hyphens;
// "" = none is.
func (c *callCheck) hyphenHint(n node, call seenCall) string {
	text, ok := n.step.Modules[call.File]
	place := template.AtMember(template.AtMember(n.path, "modules"), call.File)
	if call.File == n.step.file() {
		text, ok, place = n.step.Script, true, template.AtMember(n.path, "script")
	}
	at := c.offsetOf(place, text, call.Line, call.Column)
	if !ok || at < 0 {
		return ""
	}
	name := strings.ReplaceAll(hyphenated.FindString(text[at:]), "-", "_")
	if _, known := c.tools(name); name == "" || !known {
		return ""
	}
	return " (did you mean " + name + "? Scripts write _ for the - of a name)"
}

func (c *callCheck) isTool(name string) bool {
	if c.tools == nil {
		return false
	}
	_, ok := c.tools(name)
	return ok
}

func (c *callCheck) isComposite(name string) bool {
	_, ok := c.definitions.Find(name)
	return ok
}

// scriptArguments are the arguments of a call of a script, checked against the schema
// of what it calls.
type scriptArguments struct {
	*callCheck
	node   node
	call   seenCall
	callee string // in messages
	pos    Position
	at     string
	schema map[string]any // of the arguments, for its references
}

func (a *scriptArguments) check(schema map[string]any) {
	a.schema = schema
	a.names(schema)
	a.required(schema)
	a.types(schema)
}

func (a *scriptArguments) names(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	additional, stated := schema["additionalProperties"]
	if schema["patternProperties"] != nil {
		return
	}
	for _, arg := range a.call.args {
		name := arg.Name
		_, known := properties[name]
		switch {
		case known:
		case additional == false:
			a.report(a.at, a.pos, SeverityError, "unknown-argument", "%s: %s takes no %s%s", a.node.label, a.callee, name, template.DidYouMean(name, template.SortedKeys(properties)))
		case !stated && len(properties) > 0:
			a.report(a.at, a.pos, SeverityWarning, "unknown-argument", "%s: %s does not say that it takes %s%s", a.node.label, a.callee, name, template.DidYouMean(name, template.SortedKeys(properties)))
		}
	}
}

// required reports missing arguments, if all given ones are visible.
func (a *scriptArguments) required(schema map[string]any) {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		name, ok := name.(string)
		given := slices.ContainsFunc(a.call.args, func(arg starlark.Argument) bool { return arg.Name == name })
		if ok && !a.call.more && !given {
			a.report(a.at, a.pos, SeverityError, "missing-argument", "%s: %s requires argument %q: write %s=…", a.node.label, a.callee, name, name)
		}
	}
}

func (a *scriptArguments) types(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for _, arg := range a.call.args {
		property, _ := properties[arg.Name].(map[string]any)
		if value, err := template.DecodeValue(arg.Literal); err == nil {
			a.value(arg.Name, value, property)
		}
	}
}

// value checks a literal against its schema.
func (a *scriptArguments) value(name string, value any, schema map[string]any) {
	schema = template.Resolved(a.schema, schema)
	types := template.TypesOf(schema)
	fits := len(types) == 0
	for _, typ := range types {
		fits = fits || template.IsKind(value, typ)
	}
	written, allowed := notAmong(value, schema)
	switch {
	case !fits:
		a.report(a.at, a.pos, SeverityError, "argument-type", "%s: %s must be %s for %s, not %s", a.node.label, name, strings.Join(types, " or "), a.callee, template.Describe(value))
	case allowed != "":
		a.report(a.at, a.pos, SeverityError, "argument-type", "%s: %s is %s, and %s takes only %s", a.node.label, name, written, a.callee, allowed)
	}
	if members, ok := value.(map[string]any); ok {
		properties, _ := schema["properties"].(map[string]any)
		for _, member := range template.SortedKeys(members) {
			property, _ := properties[member].(map[string]any)
			a.value(template.AtMember(name, member), members[member], property)
		}
	}
	if elements, ok := value.([]any); ok {
		items, _ := schema["items"].(map[string]any)
		for i, elem := range elements {
			a.value(template.AtElement(name, i), elem, items)
		}
	}
}
