package definitions

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

func (c *templateCheck) condition(n node) {
	text := n.step.Condition
	t := c.text(n, read{field: "condition", text: text})
	if t == nil || text == "" {
		return
	}
	if t.HasActions() {
		if around := strings.TrimSpace(t.Always()); strings.Trim(around, "truefalsTRUEFALS \t\r\n") != "" {
			c.neverRuns(n, "condition", "condition", "the condition always has the text %s in it, so it is neither true nor false; %s", template.Excerpt(around), meantCondition(text, `compare within the braces, as in {{eq .params.env "test"}}`))
		}
		c.parameterDecides(n, t)
		if function := t.LastFunction(); slices.Contains(counting, function) {
			c.neverRuns(n, "condition", "condition", "the condition is a number, as %s gives one, and so neither true nor false; compare it, as in {{gt (len .params.list) 0}}", function)
		}
		return
	}
	if !isTruth(text) {
		c.neverRuns(n, "condition", "condition", "the condition is the text %s, which is neither true nor false; %s", template.Excerpt(text), meantCondition(text, "templates stand in {{ }}"))
	}
}

// counting are functions that give a number, whatever they read.
var counting = []string{"len", "add", "add1", "sub", "mul", "div", "mod", "max", "min", "floor", "ceil", "round", "int", "int64", "float64", "atoi"}

// meantCondition says what to write for a condition, or else what is so of all.
func meantCondition(text, otherwise string) string {
	if written := template.Meant(text); written != "" {
		return "write " + written
	}
	return otherwise
}

// parameterDecides reports a condition that is a parameter of a type whose values are
// not true and false.
func (c *templateCheck) parameterDecides(n node, t *template.Template) {
	refs := t.Refs()
	if !t.NamesValue() || len(refs) != 1 || refs[0].Root != "params" || len(refs[0].Path) != 1 {
		return
	}
	name := refs[0].Path[0]
	properties, _ := c.def.Parameters["properties"].(map[string]any)
	schema, _ := properties[name].(map[string]any)
	types := template.TypesOf(schema)
	values, limited := schema["enum"].([]any)
	switch {
	case len(types) == 0 || slices.Contains(types, "boolean"):
	case !slices.Contains(types, "string"):
		c.neverRuns(n, "condition", "condition", "the condition is the parameter %s, which is of type %s and so neither true nor false; compare it, as in {{gt .params.%s 0}}, or declare a boolean", name, strings.Join(types, " or "), name)
	case limited && !slices.ContainsFunc(values, func(v any) bool { text, ok := v.(string); return ok && !isTruth(text) }):
	default:
		c.stepWarnf(n, "condition", "condition", "the condition is the parameter %s, a text: any other than true and false fails the step; compare it, as in {{eq .params.%s \"yes\"}}, or declare a boolean", name, name)
	}
}

// isTruth reports whether a condition that renders to a text can be decided.
func isTruth(text string) bool {
	return slices.Contains([]string{"true", "True", "TRUE", "false", "False", "FALSE"}, strings.TrimSpace(text))
}
