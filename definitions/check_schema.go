package definitions

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// A schemaCheck checks schemas, and values against them.
type schemaCheck struct{ *subject }

// parameters checks that the parameters are the JSON Schema of an object.
func (c *schemaCheck) parameters() {
	p := c.def.Parameters
	if p == nil {
		return
	}
	if p["type"] != "object" {
		c.errorf("parameters.type", "parameters", "parameters must have type: object")
	}
	schema, err := c.def.arguments.of(c.def.Parameters)
	var invalid *schemaError
	switch {
	case errors.As(err, &invalid):
		for _, problem := range invalid.problems {
			at := template.AtMember("parameters", problem.Parameter)
			c.errorf(at, "parameters", "%s %s", at, problem.Message)
		}
		return
	case err != nil:
		c.errorf("parameters", "parameters", "parameters: %v", err)
		return
	}
	c.strayParameters()
	properties, _ := p["properties"].(map[string]any)
	c.requiredParameters()
	defaults := map[string]any{}
	for _, name := range template.SortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		c.nestedParameter(name, property)
		if standard, ok := property["default"]; ok {
			defaults[name] = standard
		}
	}
	for _, problem := range schema.violations(defaults) {
		name := topLevel(problem.Parameter)
		if _, ok := defaults[name]; ok {
			at := "parameters.properties." + name + ".default"
			c.warnf(at, "default", "parameter %q: the default does not fit: it %s", name, problem.Message)
		}
	}
}

// requiredParameters warns of required parameters that are not declared.
func (c *schemaCheck) requiredParameters() {
	known := c.parameterNames()
	required, _ := c.def.Parameters["required"].([]any)
	for i, value := range required {
		if name, ok := value.(string); ok && known != nil && !slices.Contains(known, name) {
			c.warnf(template.AtElement("parameters.required", i), "unknown-parameter", "required parameter %q is not declared%s; no call without it is taken", name, template.DidYouMean(name, known))
		}
	}
}

// strayParameters reports parameters beside the keywords of a schema, where they have
// no effect.
func (c *schemaCheck) strayParameters() {
	for _, name := range template.SortedKeys(c.def.Parameters) {
		if isKeyword(name) || !declaresType(c.def.Parameters[name]) {
			continue
		}
		advice := "write it below properties, or leave type: object out"
		if c.def.Parameters["properties"] != nil {
			advice = "write it below properties"
		}
		c.warnf("parameters."+name, "parameters", "parameters.%s declares nothing, since it is beside the keywords of a schema: %s", name, advice)
	}
}

// nestedParameter reports a parameter whose members are written as parameters: in a
// schema, names that are no keywords have no effect.
func (c *schemaCheck) nestedParameter(name string, property map[string]any) {
	declares := false
	for _, key := range template.SortedKeys(property) {
		if isKeyword(key) {
			return
		}
		declares = declares || declaresType(property[key])
	}
	if declares {
		c.warnf("parameters.properties."+name, "parameters", "parameter %q takes anything, since what it says are no keywords of a schema: write {type: object, properties: {…}}", name)
	}
}

// declaresType reports whether a value declares a parameter: a type of the light form,
// or a schema with a type.
func declaresType(value any) bool {
	if schema, ok := value.(map[string]any); ok {
		_, typed := schema["type"]
		return typed
	}
	_, _, err := lightParameter(value)
	return err == nil
}

// schemaKeywords are those of JSON Schema, also of older drafts.
var schemaKeywords = []string{
	"type", "enum", "const", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "format",
	"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties",
	"unevaluatedProperties", "dependentRequired", "dependentSchemas", "dependencies", "definitions",
	"allOf", "anyOf", "oneOf", "not", "if", "then", "else",
	"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
	"minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType", "contentSchema",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}

// elicitationSchema checks that an elicitation's schema makes a form: a flat object of
// simple fields.
func (c *schemaCheck) elicitationSchema(n node) {
	if n.step.Schema == nil {
		return
	}
	schema := n.step.Schema.members()
	if typ, ok := schema["type"]; ok && typ != "object" {
		c.stepErrorf(n, "schema.type", "elicitation-schema", "schema must have type: object")
		return
	}
	if depthOf(schema) > MaxSchemaDepth {
		c.stepErrorf(n, "schema", "limit", "schema is nested more than %d levels deep", MaxSchemaDepth)
		return
	}
	if len(n.step.Schema) > MaxSchemaSize {
		c.stepErrorf(n, "schema", "limit", "schema has %d bytes; %d are allowed", len(n.step.Schema), MaxSchemaSize)
		return
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok && schema["properties"] != nil {
		c.stepErrorf(n, "schema.properties", "elicitation-schema", "schema: properties must be a mapping")
		return
	}
	if c.strayFields(n, schema, properties) {
		return
	}
	simple := true
	for _, name := range template.SortedKeys(properties) {
		if message := fieldProblem(properties[name]); message != "" {
			simple = false
			c.stepErrorf(n, "schema.properties."+name, "elicitation-schema", "schema: field %q %s", name, message)
		}
	}
	if required, ok := schema["required"].([]any); ok {
		for _, name := range required {
			if text, isText := name.(string); isText && properties[text] == nil {
				c.stepErrorf(n, "schema.required", "elicitation-schema", "schema requires %q, which is no field%s", text, template.DidYouMean(text, template.SortedKeys(properties)))
			}
		}
	}
	if _, err := compileSchema(schema, false); err != nil && simple {
		c.stepErrorf(n, "schema", "elicitation-schema", "schema: %v", err)
	} else if err == nil && simple {
		c.fieldDefaults(n, properties)
	}
}

// strayFields reports fields beside the keywords of an elicitation's schema, where a form
// does not have them.
func (c *schemaCheck) strayFields(n node, schema, properties map[string]any) bool {
	var stray, meant []string
	for _, name := range template.SortedKeys(schema) {
		if isKeyword(name) || properties != nil && !declaresType(schema[name]) {
			continue
		}
		field := "{…}"
		if typ, ok := schema[name].(string); ok {
			if written, _, err := lightParameter(typ); err == nil {
				encoded, _ := template.EncodeValue(written)
				field = strings.NewReplacer(`"`, "", ":", ": ", ",", ", ").Replace(string(encoded))
			}
		}
		stray, meant = append(stray, name), append(meant, name+": "+field)
	}
	if len(stray) == 0 {
		return false
	}
	fix := "{type: object, properties: {" + strings.Join(meant, ", ") + "}}"
	c.stepErrorf(n, "schema."+stray[0], "elicitation-schema", "schema has %s beside the keywords of a JSON Schema, where it is no field: write %s", strings.Join(stray, ", "), fix)
	return true
}

// isKeyword reports whether a schema may have a member of a name.
func isKeyword(name string) bool {
	return slices.Contains(schemaKeywords, name) || strings.HasPrefix(name, "$") || strings.HasPrefix(name, "x-")
}

// fieldDefaults checks that the default of a field is a valid answer.
func (c *schemaCheck) fieldDefaults(n node, properties map[string]any) {
	for _, name := range template.SortedKeys(properties) {
		field, _ := properties[name].(map[string]any)
		standard, ok := field["default"]
		if !ok {
			continue
		}
		schema, err := compileSchema(field, true)
		if err != nil {
			continue // never: the whole schema compiled
		}
		if problems := schema.violations(standard); problems != nil {
			c.stepErrorf(n, "schema.properties."+name+".default", "elicitation-schema", "schema: the default of field %q %s", name, problemText(problems))
		}
	}
}

// fieldProblem says why a form cannot have a field; "" = it can. Forms have text,
// numbers, yes or no, one of a list, and several of a list.
func fieldProblem(schema any) string {
	field, ok := schema.(map[string]any)
	if !ok {
		if typ, _ := schema.(string); slices.Contains([]string{"string", "number", "integer", "boolean"}, typ) {
			return "must be a mapping: write {type: " + typ + "}"
		}
		return "must be a mapping"
	}
	if words, ok := field["patternDescription"]; ok {
		if _, isText := words.(string); !isText || field["pattern"] == nil {
			return "has a patternDescription that is no text, or without a pattern: it says the pattern in words"
		}
	}
	switch typ := field["type"]; typ {
	case "string", "number", "integer", "boolean":
		for _, nested := range []string{"properties", "items", "anyOf", "allOf", "$ref"} {
			if field[nested] != nil {
				return "must be simple: it cannot have " + nested
			}
		}
		if oneOf, ok := field["oneOf"]; ok && !isChoice(oneOf) {
			return "must have a const (and a title) in each of oneOf"
		}
		return ""
	case "array":
		items, _ := field["items"].(map[string]any)
		if _, ok := items["enum"].([]any); ok || isChoice(items["anyOf"]) || isChoice(items["oneOf"]) {
			return ""
		}
		return "must list what can be chosen: an array needs items with enum, or anyOf with const and title"
	case "object":
		return "must be flat: a form has no objects within"
	case nil:
		if _, ok := field["enum"].([]any); ok || isChoice(field["oneOf"]) {
			return ""
		}
		return "needs a type: string, number, integer, boolean or array"
	default:
		written, _ := typ.(string)
		if meant := meantFields[strings.ToLower(written)]; meant != "" {
			return "must be of another type than " + written + ": write {" + meant + "}"
		}
		return "must be of type string, number, integer, boolean or array"
	}
}

// meantFields are the types of fields of forms in other systems.
var meantFields = map[string]string{
	"date": "type: string, format: date", "datetime": "type: string, format: date-time", "date-time": "type: string, format: date-time",
	"email": "type: string, format: email", "url": "type: string, format: uri", "uri": "type: string, format: uri",
	"text": "type: string", "textarea": "type: string", "str": "type: string", "multiline": "type: string",
	"int": "type: integer", "float": "type: number", "double": "type: number",
	"bool": "type: boolean", "checkbox": "type: boolean", "toggle": "type: boolean", "confirm": "type: boolean",
	"select": "type: string, enum: […]", "choice": "type: string, enum: […]", "dropdown": "type: string, enum: […]", "radio": "type: string, enum: […]", "enum": "type: string, enum: […]",
	"multiselect": "type: array, items: {type: string, enum: […]}", "list": "type: array, items: {type: string, enum: […]}",
}

// isChoice reports whether every alternative is a const.
func isChoice(value any) bool {
	alternatives, ok := value.([]any)
	return ok && !slices.ContainsFunc(alternatives, func(alternative any) bool {
		schema, _ := alternative.(map[string]any)
		_, isConst := schema["const"]
		return !isConst
	})
}

var propertyTypes = []string{"string", "integer", "number", "boolean", "object", "array"}

// output checks the output block.
func (c *schemaCheck) output() {
	out := c.def.Output
	if out == nil {
		return
	}
	if len(out.Properties) == 0 {
		c.errorf("output.properties", "required", "output: properties are required; without an output block the result is that of the last step")
	}
	for i, name := range out.Required {
		if out.Properties[name] == nil {
			c.errorf(template.AtElement("output.required", i), "output", "output requires %q, which is not among its properties%s", name, template.DidYouMean(name, template.SortedKeys(out.Properties)))
		}
	}
	c.properties("output.properties", out.Properties, 1)
}

func (c *schemaCheck) properties(path string, properties map[string]*Property, depth int) {
	if depth > MaxOutputDepth {
		c.errorf(path, "limit", "%s is nested more than %d levels deep", path, MaxOutputDepth)
		return
	}
	for _, name := range template.SortedKeys(properties) {
		if p := properties[name]; p != nil {
			at := template.AtMember(path, name)
			c.property(at, propertyLabel(at), p)
			c.properties(template.AtMember(at, "properties"), p.Properties, depth+1)
		}
	}
}

// propertyLabel names the output property at a path in messages.
func propertyLabel(path string) string {
	return "output property " + strings.ReplaceAll(strings.TrimPrefix(path, "output.properties."), ".properties.", ".")
}

func (c *schemaCheck) property(path, label string, p *Property) {
	switch {
	case p.Type == "":
		c.errorf(template.AtMember(path, "type"), "required", "%s: type is required", label)
	case !slices.Contains(propertyTypes, p.Type):
		c.errorf(template.AtMember(path, "type"), "output", "%s: type %q is not known%s; known types: %s", label, p.Type, cmp.Or(meantType(p.Type), template.DidYouMean(p.Type, propertyTypes)), strings.Join(propertyTypes, ", "))
	}
	if strings.TrimSpace(p.Description) == "" {
		c.errorf(template.AtMember(path, "description"), "required", "%s: description is required", label)
	}
	c.constants(path, label, p)
	switch {
	case p.Value != "" && p.Properties != nil:
		c.errorf(path, "output", "%s has both value and properties; it can have one of them", label)
	case p.Value == "" && p.Properties == nil && !c.def.IsScript(): // of a script, it is the member of its result
		c.errorf(template.AtMember(path, "value"), "required", "%s needs a value, or properties if it is an object", label)
	case p.Properties != nil && p.Type != "object":
		c.errorf(template.AtMember(path, "properties"), "output", "%s has properties but is of type %s; only an object has them", label, p.Type)
	case p.Properties != nil && len(p.Properties) == 0:
		c.errorf(template.AtMember(path, "properties"), "required", "%s: properties are empty", label)
	}
}

// constants checks the values of an output property that hold no template.
func (c *schemaCheck) constants(path, label string, p *Property) {
	if !slices.Contains(propertyTypes, p.Type) {
		return
	}
	if p.Value != "" && p.Type != "string" && !holdsTemplate(p.Value) && !readsAs(p.Value, p.Type) {
		at := template.AtMember(path, "value")
		c.report(at, c.def.At(at), fatalUnless(p.Default != nil), "output", "%s: value is the text %s, which is no %s; templates stand in {{ }}", label, template.Excerpt(p.Value), p.Type)
	}
	if p.Default == nil {
		return
	}
	if _, err := template.AsType(p.Default, p.Type); err != nil {
		c.errorf(template.AtMember(path, "default"), "output", "%s: the default is %s, and the type %s", label, template.Describe(p.Default), p.Type)
	}
}
