package template

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// A Schema is a place in a tool's input schema. The zero value knows nothing.
type Schema struct {
	root    any // for references
	schemas []map[string]any
}

// decodedSchema is a schema that was decoded before.
type decodedSchema struct {
	source string
	place  Schema
}

// A SchemaCache keeps the last schema, since a step uses the same one every time.
type SchemaCache struct{ last atomic.Pointer[decodedSchema] }

// Of is SchemaOf.
func (c *SchemaCache) Of(source json.RawMessage) (Schema, error) {
	if last := c.last.Load(); last != nil && last.source == string(source) {
		return last.place, nil
	}
	place, err := SchemaOf(source)
	if err == nil {
		c.last.Store(&decodedSchema{string(source), place})
	}
	return place, err
}

// SchemaOf gives the root of a schema; the zero Schema without a source.
func SchemaOf(source json.RawMessage) (Schema, error) {
	if len(source) == 0 {
		return Schema{}, nil
	}
	root, err := DecodeValue(source)
	if err != nil {
		return Schema{}, fmt.Errorf("decoding the tool's input schema: %w", err)
	}
	return schemaAt(root, root), nil
}

// maxAlternatives bounds the schemas of one place after references and combinations.
const maxAlternatives = 100

// schemaAt follows references and combinations to schemas with other keywords.
func schemaAt(root any, nodes ...any) Schema {
	place := Schema{root: root}
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

// Resolved follows the references of a schema to one that has none, or that is nil
// because they lead nowhere.
func Resolved(root, schema map[string]any) map[string]any {
	for range maxAlternatives {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema, _ = resolve(root, ref).(map[string]any)
	}
	return nil
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

// Kinds gives the types that the place takes, in the order in which the
// schema names them.
func (p Schema) Kinds() []string {
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

// TypesOf gives the types that a schema names; nil = it names none.
func TypesOf(schema map[string]any) (types []string) {
	switch names := schema["type"].(type) {
	case string:
		return []string{names}
	case []any:
		for _, name := range names {
			if name, ok := name.(string); ok {
				types = append(types, name)
			}
		}
	}
	return types
}

// kindsOf gives the types that a schema itself names or implies.
func kindsOf(schema map[string]any) []string {
	if types := TypesOf(schema); types != nil {
		return types
	}
	if constant, ok := schema["const"]; ok {
		return []string{KindOf(constant)}
	}
	if values, ok := schema["enum"].([]any); ok {
		var kinds []string
		for _, value := range values {
			kinds = append(kinds, KindOf(value))
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

// Property gives the place of a member.
func (p Schema) Property(name string) Schema {
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
	return schemaAt(p.root, found...)
}

// Item gives the place of an element.
func (p Schema) Item(i int) Schema {
	var found []any
	for _, schema := range p.schemas {
		if prefix := prefixItems(schema); i < len(prefix) {
			found = append(found, prefix[i])
		} else if items, ok := schema["items"]; ok {
			found = append(found, items)
		}
	}
	return schemaAt(p.root, found...)
}

// read gives v with the texts within it, at any depth, read as the types that their places
// take. It leaves v itself alone, which may be the data of templates.
func (p Schema) read(v any) any {
	if len(p.schemas) == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		array, fixed := make([]any, len(v)), p.fixedItems()
		rest := p.Item(fixed)
		for i, element := range v {
			if i < fixed {
				array[i] = p.Item(i).readText(element)
			} else {
				array[i] = rest.readText(element)
			}
		}
		return array
	case map[string]any:
		object := make(map[string]any, len(v))
		//workflowcheck:ignore a map again
		for name, member := range v {
			object[name] = p.Property(name).readText(member)
		}
		return object
	}
	return v
}

func (p Schema) readText(v any) any {
	if text, ok := v.(string); ok {
		v = ReadAs(text, p.Kinds())
	}
	return p.read(v)
}

// fixedItems is how many elements have places of their own.
func (p Schema) fixedItems() (n int) {
	for _, schema := range p.schemas {
		n = max(n, len(prefixItems(schema)))
	}
	return n
}

// prefixItems gives the schemas of the first elements.
func prefixItems(schema map[string]any) []any {
	if old, ok := schema["items"].([]any); ok { // before draft 2020-12
		return old
	}
	prefix, _ := schema["prefixItems"].([]any)
	return prefix
}
