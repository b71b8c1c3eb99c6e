package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// A callCheck checks calls of backend tools and of other composite tools.
type callCheck struct {
	*subject
	*surroundings
}

// calls checks all that the definition calls.
func (c *callCheck) calls() {
	c.annotations()
	outputs := make(map[*Step]callee)
	c.composition(outputs)
	c.backendTools(outputs)
	c.outputFields(outputs)
}

// annotations checks that the definition's hints promise no more than its
// steps keep.
func (c *callCheck) annotations() {
	a := c.def.Annotations
	if a == nil {
		return
	}
	if c.tools == nil || c.lacksTool() { // which is reported itself
		if says(a.ReadOnlyHint, true) && says(a.DestructiveHint, true) {
			c.errorf("annotations.readOnlyHint", "annotations", "annotations: what is read-only cannot be destructive, too")
		}
		return
	}
	_, problems := c.def.deriveAnnotations(c.tools, c.definitions)
	for _, p := range problems {
		at := "annotations." + p.hint
		c.report(at, c.def.At(at), p.severity, "annotations", "annotations: %s: %s", p.hint, p.message)
	}
}

// lacksTool reports whether a tool that a call of the definition may use is not there.
func (c *callCheck) lacksTool() bool {
	called, _ := c.def.Called(c.definitions)
	return slices.ContainsFunc(append([]*Definition{c.def}, called...), func(d *Definition) bool {
		return slices.ContainsFunc(d.ToolNames(), func(name string) bool {
			_, ok := c.tools(name)
			return !ok
		})
	})
}

// backendTools checks steps against the tools that they call.
func (c *callCheck) backendTools(outputs map[*Step]callee) {
	if c.tools == nil {
		return
	}
	for _, n := range c.nodes {
		if n.step.Tool != "" && n.step.Type != WorkflowStep {
			if tool, ok := c.call(n, "", n.step.Tool, n.step.Arguments); ok {
				outputs[n.step] = callee{toolNamed(n.step.Tool), tool.OutputSchema}
			}
		}
		if p := n.step.Probe; p != nil && p.Tool != "" {
			tool, ok := c.call(n, "probe", p.Tool, p.Arguments)
			if ok && tool.Effect != Read {
				c.stepErrorf(n, "probe.tool", "probe", "probe: tool %q must have effect class read: what finds out must change nothing", p.Tool)
			}
		}
		if undo := n.step.Compensate; undo != nil && undo.Tool != "" {
			c.call(n, "compensate", undo.Tool, undo.Arguments)
		}
	}
}

// A callee is what a step calls: its name in messages, and its output schema.
type callee struct {
	name   string
	output json.RawMessage
}

func toolNamed(name string) string { return fmt.Sprintf("tool %q", name) }

// A toolCall is a call as it is written: the one of a step or of its
// compensation.
type toolCall struct {
	node
	within string // field of the step with tool and arguments; "" = the step itself
	callee string // in messages
	values map[string]any
	schema map[string]any // of the values, for its references
}

// call checks a call and gives its tool; false = unknown.
func (c *callCheck) call(n node, within, name string, values map[string]any) (Tool, bool) {
	tool, ok := c.tools(name)
	if !ok && !toolPattern.MatchString(name) {
		return tool, false // see toolName
	}
	if !ok {
		c.stepWarnf(n, template.AtMember(within, "tool"), "unknown-tool", "no backend has a tool %q at present%s; the definition is not offered without it", name, c.toolHint(name))
		return Tool{}, false
	}
	if schema, err := decodeObject(tool.InputSchema); err == nil { // else it is the backend's mistake, which shows at calls
		c.against(toolCall{n, within, toolNamed(name), values, schema})
	}
	return tool, true
}

// toolHint says which tool may be meant by a name that no tool has; "" = not known.
func (c *surroundings) toolHint(name string) string {
	if _, offered := c.offered[name]; offered || slices.Contains(c.names, name) {
		return ", but it is a composite tool: write type: workflow and workflow: " + name
	}
	if c.allTools == nil {
		return ""
	}
	return ToolHint(name, c.allTools())
}

// ToolHint says which of tools may be meant by a name that none has, as words that
// follow a message: one that has it without its prefix, or a near one. "" = not known.
func ToolHint(name string, tools []Tool) string {
	var names, same []string
	plain := strings.ReplaceAll(strings.TrimPrefix(name, "mcp__"), "__", "_") // as some clients name tools
	for _, t := range tools {
		names = append(names, t.Name)
		if strings.EqualFold(t.Original, name) || strings.EqualFold(Identifier(t.Name), Identifier(plain)) {
			same = append(same, t.Name)
		}
	}
	slices.Sort(same)
	if same = slices.Compact(same); len(same) > 0 && len(same) <= maxMeant {
		return " (did you mean " + joinedOr(same) + "?)"
	}
	return template.DidYouMean(name, names)
}

// maxMeant is how many tools of other backends are named that may be meant.
const maxMeant = 3

// joinedOr lists names: "a", "b" or "c".
func joinedOr(names []string) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(name))
	}
	return b.String()
}

// against checks a call against the input schema of its callee.
func (c *callCheck) against(call toolCall) {
	required, _ := call.schema["required"].([]any)
	for _, name := range required {
		if name, isText := name.(string); isText {
			if _, given := call.values[name]; !given {
				c.stepErrorf(call.node, template.AtMember(call.within, "arguments"), "missing-argument", "%s requires argument %q", call.callee, name)
			}
		}
	}
	c.members(call, template.AtMember(call.within, "arguments"), call.values, call.schema)
}

// members checks the members of an object against its schema.
func (c *callCheck) members(n toolCall, field string, values map[string]any, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range template.SortedKeys(values) {
		at := template.AtMember(field, name)
		if property, known := properties[name].(map[string]any); known {
			c.literal(n, at, values[name], property)
		} else if _, known := properties[name]; !known {
			c.unknownArgument(n, at, name, schema, template.SortedKeys(properties))
		}
	}
}

func (c *callCheck) unknownArgument(n toolCall, at, name string, schema map[string]any, known []string) {
	path := template.AtMember(n.path, at)
	additional, stated := schema["additionalProperties"]
	switch {
	case schema["patternProperties"] != nil:
	case additional == false:
		c.report(path, c.def.Place(path), SeverityError, "unknown-argument", "%s: %s takes no %s%s", n.label, n.callee, at, template.DidYouMean(name, known))
	case !stated && len(known) > 0:
		c.report(path, c.def.Place(path), SeverityWarning, "unknown-argument", "%s: %s does not say that it takes %s%s", n.label, n.callee, at, template.DidYouMean(name, known))
	}
}

// literal checks a value without templates against its schema, unless its text can be
// read as the wanted type.
func (c *callCheck) literal(n toolCall, at string, value any, schema map[string]any) {
	schema = template.Resolved(n.schema, schema)
	if members, ok := value.(map[string]any); ok && schema["type"] == "object" {
		c.members(n, at, members, schema)
		return
	}
	if elements, ok := value.([]any); ok && schema["type"] == "array" {
		items, _ := schema["items"].(map[string]any)
		for i, elem := range elements {
			c.literal(n, template.AtElement(at, i), elem, items)
		}
		return
	}
	types := template.TypesOf(schema)
	fits := func(typ string) bool { return template.IsKind(value, typ) || readsAs(value, typ) }
	switch {
	case holdsTemplate(value):
	case len(types) > 0 && !slices.ContainsFunc(types, fits):
		c.stepErrorf(n.node, at, "argument-type", "%s must be %s for %s, not %s", at, strings.Join(types, " or "), n.callee, template.Describe(value))
	default:
		if written, allowed := notAmong(value, schema); allowed != "" {
			c.stepErrorf(n.node, at, "argument-type", "%s is %s, and %s takes only %s", at, written, n.callee, allowed)
		}
	}
}

// notAmong writes a literal that is none of the values of its schema, and these values;
// "" = it is one. A text counts as what it can be read as.
func notAmong(value any, schema map[string]any) (written, allowed string) {
	enum, ok := schema["enum"].([]any)
	if !ok {
		return "", ""
	}
	text, isText := value.(string)
	written = valueList([]any{value})
	if slices.ContainsFunc(enum, func(one any) bool {
		encoded := valueList([]any{one})
		return encoded == written || isText && encoded == strings.TrimSpace(text)
	}) {
		return "", ""
	}
	if isText {
		written = template.Excerpt(text)
	}
	return written, valueList(enum)
}

// readsAs reports whether a text can become a value of a type, such as "5" an integer.
func readsAs(value any, typ string) bool {
	text, ok := value.(string)
	if !ok || typ == "string" {
		return false
	}
	text = strings.TrimSpace(text)
	if typ == "boolean" {
		_, err := strconv.ParseBool(text)
		return err == nil
	}
	read, err := template.DecodeValue([]byte(text))
	return err == nil && template.IsKind(read, typ)
}

func holdsTemplate(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(value, "{{")
	case []any:
		return slices.ContainsFunc(value, holdsTemplate)
	case map[string]any:
		for _, member := range value {
			if holdsTemplate(member) {
				return true
			}
		}
	}
	return false
}

// outputFields warns of reads of a step's output that the tool's output schema does
// not have.
func (c *callCheck) outputFields(callees map[*Step]callee) {
	for _, r := range c.reads {
		c.outputField(r, c.steps[r.step], callees[c.steps[r.step]])
	}
	for _, own := range c.owns {
		c.outputField(own.read, own.step, callees[own.step])
	}
}

func (c *callCheck) outputField(r read, s *Step, of callee) {
	schema, err := decodeObject(of.output)
	properties, ok := schema["properties"].(map[string]any)
	additional, stated := schema["additionalProperties"]
	if len(r.what) < 2 || r.what[0] != "output" {
		return
	}
	field := r.what[1]
	if len(of.output) == 0 && of.name != "" && s.Tool != "" && !s.hasDefault(field) {
		c.blockField(r, field, of)
	}
	if err != nil || !ok || stated && additional != false {
		return
	}
	_, known := properties[field]
	if !known && !s.hasDefault(field) && !(s.Tool != "" && contentName.MatchString(field)) {
		c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads output.%s%s, which %s does not say that it gives%s",
			r.label, r.field, field, suffix(" of step ", quoted(r.step)), of.name, template.DidYouMean(field, template.SortedKeys(properties)))
		return
	}
	property, _ := properties[field].(map[string]any)
	if s.hasDefault(field) || len(r.what) < 3 {
		return
	}
	name := "output." + field
	if r.step != "" {
		name = "steps." + r.step + "." + name
	}
	if why := lackedField(name, property, r.what[2:]); why != "" {
		c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads %s%s; as %s says, %s",
			r.label, r.field, strings.Join(r.what, "."), suffix(" of step ", quoted(r.step)), of.name, why)
	}
}

// blockField warns of reads that content blocks, which are what a tool without an output
// schema gives, do not have.
func (c *callCheck) blockField(r read, field string, of callee) {
	output := "." + strings.Join([]string{"steps", r.step, "output"}, ".")
	if r.step == "" {
		output = ".output"
	}
	ofStep, parsed := suffix(" of step ", quoted(r.step)), fmt.Sprintf("(fromJson %s.text)", output)
	switch {
	case field == "content":
		c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads output.content%s; %s does not say that it gives more than content blocks: write %s.text",
			r.label, r.field, ofStep, of.name, output)
	case !contentName.MatchString(field):
		c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads output.%s%s; %s does not say that it gives more than content blocks: if it gives JSON as text, write %s.%[3]s",
			r.label, r.field, field, ofStep, of.name, parsed)
	case len(r.what) > 2 && strings.HasPrefix(field, "text"):
		c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads a field of output.%s%s, which is text: write (fromJson %s.%[3]s).%[6]s if it is JSON",
			r.label, r.field, field, ofStep, output, r.what[2])
	}
}

// quoted puts a name in quotes; "" stays "".
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return strconv.Quote(name)
}
