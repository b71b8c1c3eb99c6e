package definitions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// lackedField says why a value of a schema does not have a field within a field, as far as
// the schema says; "" = it may have it. name is that of the value.
func lackedField(name string, schema map[string]any, path []string) string {
	for _, field := range path {
		types := valueTypes(schema)
		if len(types) > 0 && !slices.Contains(types, "object") {
			hint := ""
			switch {
			case slices.Contains([]string{"length", "size", "count", "len"}, field):
				hint = fmt.Sprintf("; write {{len .%s}}", name)
			case slices.Equal(types, []string{"array"}):
				hint = fmt.Sprintf("; read one element with {{(index .%s 0).%s}}, or each with range", name, field)
			}
			return fmt.Sprintf("%s is of type %s, which has no fields%s", name, strings.Join(types, " or "), hint)
		}
		properties, _ := schema["properties"].(map[string]any)
		property, known := properties[field].(map[string]any)
		if !known && properties[field] == nil && closed(schema) {
			return fmt.Sprintf("%s has no %q%s", name, field, template.DidYouMean(field, template.SortedKeys(properties)))
		}
		name, schema = name+"."+field, property
	}
	return ""
}

// closed reports whether an object has the properties that its schema names, and is not
// meant to have others.
func closed(schema map[string]any) bool {
	additional, stated := schema["additionalProperties"]
	if _, ok := schema["properties"].(map[string]any); !ok || stated && additional != false {
		return false
	}
	return !slices.ContainsFunc([]string{"patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref"}, func(open string) bool { return schema[open] != nil })
}

// valueTypes are the types that a schema and its branches allow, but null; nil = it does
// not say.
func valueTypes(schema map[string]any) []string {
	types := template.TypesOf(schema)
	for _, branch := range branchesOf(schema) {
		of := valueTypes(branch)
		if of == nil && !onlyNull(branch) {
			return nil
		}
		types = append(types, of...)
	}
	return slices.DeleteFunc(types, func(of string) bool { return of == "null" })
}

// textsOf are the texts that a value of a schema may be; nil = it may also be others. Null
// is no text.
func textsOf(schema map[string]any) (texts []string) {
	values, _ := schema["enum"].([]any)
	if value, ok := schema["const"]; ok {
		values = []any{value}
	}
	for _, value := range values {
		text, ok := value.(string)
		if !ok && value != nil {
			return nil
		}
		if ok {
			texts = append(texts, text)
		}
	}
	if values != nil {
		return texts
	}
	for _, branch := range branchesOf(schema) {
		of := textsOf(branch)
		if of == nil && !onlyNull(branch) {
			return nil
		}
		texts = append(texts, of...)
	}
	return texts
}

// branchesOf are the alternatives of a schema (anyOf, oneOf).
func branchesOf(schema map[string]any) (branches []map[string]any) {
	for _, name := range []string{"anyOf", "oneOf"} {
		list, _ := schema[name].([]any)
		for _, branch := range list {
			members, _ := branch.(map[string]any)
			branches = append(branches, members)
		}
	}
	return branches
}

// onlyNull reports whether a schema takes nothing but null.
func onlyNull(schema map[string]any) bool {
	value, ok := schema["const"]
	return schema["type"] == "null" || ok && value == nil
}
