package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// An argument is a value as a step writes it, its templates parsed. One of
// the fields is set, or none of object, array and template for a literal.
type argument struct {
	template *Template
	object   []member
	array    []argument
	literal  any
	isArray  bool
	isObject bool
}

type member struct {
	name  string
	value argument
}

// compileArgument parses the templates in v, which stands at path.
func compileArgument(v any, path string) (argument, error) {
	switch v := v.(type) {
	case string:
		t, err := parseTemplate(v)
		if err != nil {
			return argument{}, &TemplateError{Field: path, Message: err.Message}
		}
		return argument{template: t}, nil
	case []any:
		array := make([]argument, len(v))
		for i, element := range v {
			var err error
			if array[i], err = compileArgument(element, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return argument{}, err
			}
		}
		return argument{array: array, isArray: true}, nil
	case map[string]any:
		var object []member
		for _, name := range sortedKeys(v) {
			value, err := compileArgument(v[name], path+"."+name)
			if err != nil {
				return argument{}, err
			}
			object = append(object, member{name, value})
		}
		return argument{object: object, isObject: true}, nil
	}
	return argument{literal: v}, nil
}

// templates gives the templates in a.
func (a argument) templates() []*Template {
	var all []*Template
	if a.template != nil {
		all = append(all, a.template)
	}
	for _, element := range a.array {
		all = append(all, element.templates()...)
	}
	for _, m := range a.object {
		all = append(all, m.value.templates()...)
	}
	return all
}

// encode gives the value of a as JSON, for a tool with an input schema.
func (a argument) encode(s *Scope, cache *schemaCache, inputSchema json.RawMessage, path string) (json.RawMessage, error) {
	schema, err := cache.place(inputSchema)
	if err != nil {
		return nil, &TemplateError{Field: path, Message: err.Error()}
	}
	v, _, err := a.expand(s.data(), schema, path)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeExpanded(v)
	if err != nil {
		return nil, &TemplateError{Field: path, Message: err.Error()}
	}
	return encoded, nil
}

// maxExpanded bounds what templates come to together that name the same values over
// and over, in bytes. It is more than a run takes of it.
const maxExpanded = 2 * MaxHandedOn

func encodeExpanded(v any) (json.RawMessage, error) {
	e := encoder{limit: maxExpanded}
	switch err := e.encode(v); {
	case err == errTooLarge:
		return nil, fmt.Errorf("all of it together is larger than %d bytes", maxExpanded)
	case err != nil:
		return nil, err
	}
	return e.out, nil
}

// expand gives the value of a for a place with a schema. ok is false if there
// is none: a is one expression, and that is missing.
func (a argument) expand(data any, schema schemaPlace, path string) (v any, ok bool, err error) {
	switch {
	case a.template != nil:
		v, ok, err := expandFor(a.template, data, schema.kinds())
		if err != nil {
			err = &TemplateError{Field: path, Message: err.Error()}
		}
		return v, ok, err
	case a.isArray:
		array := make([]any, len(a.array))
		for i, element := range a.array {
			if array[i], _, err = element.expand(data, schema.item(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return nil, false, err
			}
		}
		return array, true, nil
	case a.isObject:
		object := make(map[string]any, len(a.object))
		for _, m := range a.object {
			v, ok, err := m.value.expand(data, schema.property(m.name), path+"."+m.name)
			if err != nil {
				return nil, false, err
			}
			if ok {
				object[m.name] = v
			}
		}
		return object, true, nil
	}
	return a.literal, true, nil
}

// expandFor expands a template for a place that takes values of kinds; none
// means that nothing is known of it, and the value is text.
//
// One expression hands its value on as it is where its kind is wanted. All
// else becomes text, and the text the first of kinds that it can be read as.
func expandFor(t *Template, data any, kinds []string) (v any, ok bool, err error) {
	v, ok, _, err = t.expandFor(data, kinds)
	return v, ok, err
}

// expandFor gives the work as well that it took.
func (t *Template) expandFor(data any, kinds []string) (v any, ok bool, work int, err error) {
	if !t.HasActions() {
		return readAs(t.text, kinds), true, len(t.text), nil
	}
	if t.IsSingleExpression() {
		if v, work, err = t.native(data); err != nil {
			return nil, false, work, err
		}
		v, ok, err = ofKinds(v, kinds, t.before, t.after)
		return v, ok, work, err
	}
	text, work, err := t.rendered(data)
	if err != nil || isNullFor(text, kinds) {
		return nil, false, work, err
	}
	return readAs(text, kinds), true, work, nil
}

// ofKinds gives the value of an expression for a place that takes values of
// kinds. What stands around it counts where it becomes text.
func ofKinds(v any, kinds []string, before, after string) (any, bool, error) {
	if v == nil {
		return nil, false, nil
	}
	if _, isText := v.(string); !isText && isOneOf(v, kinds) {
		return v, true, nil
	}
	text, err := printed(v)
	if err != nil {
		return nil, false, err
	}
	if text = before + text + after; isNullFor(text, kinds) {
		return nil, false, nil
	}
	return readAs(text, kinds), true, nil
}

// isNullFor says whether text is what json makes of a missing array or object.
func isNullFor(text string, kinds []string) bool {
	return strings.TrimSpace(text) == "null" && !slices.Contains(kinds, "string") &&
		(slices.Contains(kinds, "array") || slices.Contains(kinds, "object"))
}

// isOneOf says whether the kind of v is one of kinds.
func isOneOf(v any, kinds []string) bool {
	for _, kind := range kinds {
		if isKind(v, kind) {
			return true
		}
	}
	return false
}

// isKind says whether v is of a type of JSON Schema.
func isKind(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	default:
		n, ok := numberOf(v)
		if kind == "integer" {
			_, ok = n.integer()
		}
		return ok && (kind == "number" || kind == "integer")
	}
}

// readAs reads text as the first of kinds that it can be, and leaves it as it
// is if it can be none.
func readAs(text string, kinds []string) any {
	for _, kind := range kinds {
		if v, ok := readKind(text, kind); ok {
			return v
		}
	}
	return text
}

// readKind reads text as a type of JSON Schema.
func readKind(text, kind string) (any, bool) {
	switch kind {
	case "string":
		return text, true
	case "integer":
		return parseInteger(text)
	case "number":
		return parseDecimal(text)
	case "boolean":
		b, err := strconv.ParseBool(strings.TrimSpace(text))
		return b, err == nil
	case "array", "object":
		if start := strings.TrimSpace(text); start == "" || start[0] != '[' && start[0] != '{' {
			return nil, false
		}
		v, err := DecodeValue([]byte(text))
		return v, err == nil && isKind(v, kind)
	}
	return nil, false
}

// A schemaPlace is a place in a tool's input schema. The zero value is one of
// which nothing is known.
type schemaPlace struct {
	root    any // for references
	schemas []map[string]any
}

// decodedSchema is a schema that was decoded before.
type decodedSchema struct {
	source string
	place  schemaPlace
}

// A schemaCache keeps the last schema, since a step meets the same one again
// and again.
type schemaCache struct{ last atomic.Pointer[decodedSchema] }

// place gives the root of a schema; without one, the zero place.
func (c *schemaCache) place(source json.RawMessage) (schemaPlace, error) {
	if last := c.last.Load(); last != nil && last.source == string(source) {
		return last.place, nil
	}
	var root any
	if len(source) > 0 {
		var err error
		if root, err = DecodeValue(source); err != nil {
			return schemaPlace{}, fmt.Errorf("decoding the tool's input schema: %w", err)
		}
	}
	place := placeOf(root, root)
	c.last.Store(&decodedSchema{string(source), place})
	return place, nil
}

// maxAlternatives bounds what references and combinations make of one place.
const maxAlternatives = 100

// placeOf follows references and combinations until schemas say something.
func placeOf(root any, nodes ...any) schemaPlace {
	place := schemaPlace{root: root}
	seen := 0
	var follow func(node any)
	follow = func(node any) {
		schema, ok := node.(map[string]any)
		if seen++; !ok || seen > maxAlternatives {
			return
		}
		place.schemas = append(place.schemas, schema)
		if ref, ok := schema["$ref"].(string); ok {
			follow(resolve(root, ref))
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			alternatives, _ := schema[key].([]any)
			for _, alternative := range alternatives {
				follow(alternative)
			}
		}
	}
	for _, node := range nodes {
		follow(node)
	}
	return place
}

// resolve follows a reference within the schema; nil if it leads nowhere.
func resolve(root any, ref string) any {
	if ref == "#" {
		return root
	}
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	node := root
	for token := range strings.SplitSeq(pointer, "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch container := node.(type) {
		case map[string]any:
			node = container[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			node = container[i]
		default:
			return nil
		}
	}
	return node
}

// kinds gives the types that the place takes, in the order in which the
// schema names them.
func (p schemaPlace) kinds() []string {
	var kinds []string
	for _, schema := range p.schemas {
		for _, kind := range kindsOf(schema) {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// kindsOf gives the types that a schema itself names or implies.
func kindsOf(schema map[string]any) []string {
	switch kind := schema["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var kinds []string
		for _, k := range kind {
			if k, ok := k.(string); ok {
				kinds = append(kinds, k)
			}
		}
		return kinds
	}
	if constant, ok := schema["const"]; ok {
		return []string{kindOfValue(constant)}
	}
	if values, ok := schema["enum"].([]any); ok {
		var kinds []string
		for _, value := range values {
			kinds = append(kinds, kindOfValue(value))
		}
		return kinds
	}
	if _, ok := schema["properties"]; ok {
		return []string{"object"}
	}
	if _, ok := schema["items"]; ok {
		return []string{"array"}
	}
	return nil
}

func kindOfValue(v any) string {
	for _, kind := range []string{"null", "string", "boolean", "array", "object", "integer"} {
		if isKind(v, kind) {
			return kind
		}
	}
	return "number"
}

// property gives the place of a member.
func (p schemaPlace) property(name string) schemaPlace {
	var found, otherwise []any
	for _, schema := range p.schemas {
		properties, _ := schema["properties"].(map[string]any)
		if property, ok := properties[name]; ok {
			found = append(found, property)
		} else if additional, ok := schema["additionalProperties"]; ok {
			otherwise = append(otherwise, additional)
		}
	}
	if found == nil {
		found = otherwise
	}
	return placeOf(p.root, found...)
}

// item gives the place of an element.
func (p schemaPlace) item(i int) schemaPlace {
	var found []any
	for _, schema := range p.schemas {
		prefix, _ := schema["prefixItems"].([]any)
		if old, ok := schema["items"].([]any); ok {
			prefix = old // before draft 2020-12
		}
		if i < len(prefix) {
			found = append(found, prefix[i])
		} else if items, ok := schema["items"]; ok {
			found = append(found, items)
		}
	}
	return placeOf(p.root, found...)
}
