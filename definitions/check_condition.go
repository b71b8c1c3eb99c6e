package definitions

import (
	"regexp"
	"slices"
	"strings"
)

// onlyParameter is a template that is a parameter and nothing else.
var onlyParameter = regexp.MustCompile(`^\s*\{\{-?\s*\.params\.(\w+)\s*-?\}\}\s*$`)

// parameterDecides reports a condition that is a parameter of a type whose values are
// not true and false.
func (c *templateCheck) parameterDecides(n node) {
	found := onlyParameter.FindStringSubmatch(n.step.Condition)
	if found == nil {
		return
	}
	properties, _ := c.def.Parameters["properties"].(map[string]any)
	schema, _ := properties[found[1]].(map[string]any)
	types := typesOf(schema)
	values, limited := schema["enum"].([]any)
	switch {
	case len(types) == 0 || slices.Contains(types, "boolean"):
	case !slices.Contains(types, "string"):
		c.neverRuns(n, "condition", "condition", "the condition is the parameter %s, which is of type %s and so neither true nor false; compare it, as in {{gt .params.%s 0}}, or declare a boolean", found[1], strings.Join(types, " or "), found[1])
	case limited && !slices.ContainsFunc(values, func(v any) bool { text, ok := v.(string); return ok && !isTruth(text) }):
	default:
		c.stepWarnf(n, "condition", "condition", "the condition is the parameter %s, a text: any other than true and false fails the step; compare it, as in {{eq .params.%s \"yes\"}}, or declare a boolean", found[1], found[1])
	}
}

// isTruth reports whether a condition that renders to a text can be decided.
func isTruth(text string) bool {
	return slices.Contains([]string{"true", "True", "TRUE", "false", "False", "FALSE"}, strings.TrimSpace(text))
}
