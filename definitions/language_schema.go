package definitions

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// languageTypes are the mappings of the language.
var languageTypes = []reflect.Type{
	reflect.TypeFor[Definition](), reflect.TypeFor[Expose](), reflect.TypeFor[Step](), reflect.TypeFor[Probe](), reflect.TypeFor[Compensation](), reflect.TypeFor[OnError](),
	reflect.TypeFor[Handler](), reflect.TypeFor[Output](), reflect.TypeFor[Property](), reflect.TypeFor[Annotations](), reflect.TypeFor[Pin](),
	reflect.TypeFor[resource](), reflect.TypeFor[metadata](),
}

// Schema gives the JSON Schema (draft 2020-12) of a definition file, for
// editors: of a document that is a bare definition or a resource. Its
// #/$defs/definition, #/$defs/resource and #/$defs/compositeTools (of a
// configuration) can be used by themselves.
//
// It is narrower than the language where an author will want a warning, and does not
// find mistakes that involve several keys; Check does.
func Schema() json.RawMessage {
	return languageSchema(facts{
		"title": "perdure definition",
		"if":    facts{"anyOf": []any{facts{"required": []any{"kind"}}, facts{"required": []any{"apiVersion"}}}},
		"then":  facts{"$ref": "#/$defs/resource"},
		"else":  facts{"$ref": "#/$defs/definition"},
	})
}

// ResourceSchema gives the JSON Schema of a definition as a resource.
func ResourceSchema() json.RawMessage {
	return languageSchema(facts{"title": "perdure definition as a resource", "$ref": "#/$defs/resource"})
}

// languageSchema completes a root with the definitions that it refers to.
func languageSchema(root facts) json.RawMessage {
	defs := facts{"compositeTools": facts{
		"description": "Definitions of a configuration.", "type": "array", "items": facts{"$ref": "#/$defs/definition"},
	}}
	for _, t := range languageTypes {
		defs[SchemaName(t)] = structSchema(t)
	}
	root["$schema"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", defs
	encoded, err := template.EncodeValue(root)
	if err != nil {
		panic(fmt.Sprintf("definitions: the schema of the language: %v", err)) // it is a constant
	}
	return encoded
}

// SchemaName is the name of a type among the $defs.
func SchemaName(t reflect.Type) string { return strings.ToLower(t.Name()[:1]) + t.Name()[1:] }

// structSchema gives the schema of a mapping of the language: keys by the Go type,
// descriptions by the table.
func structSchema(t reflect.Type) facts {
	schema := MappingSchema(t, func(k Key) map[string]any { return keywords[t.Name()+"."+k.Name].schema() })
	maps.Copy(schema, keywords[t.Name()].schema())
	if t == reflect.TypeFor[Step]() {
		schema["allOf"] = stepConditions()
		schema["properties"].(facts)["type"].(facts)["enum"] = texts(StepTypes())
	}
	return schema
}

// MappingSchema gives the JSON Schema of the mapping that Decode reads into a struct.
// about adds keywords for a key besides its type. Structs are referred to as #/$defs/
// with their SchemaName.
func MappingSchema(t reflect.Type, about func(Key) map[string]any) map[string]any {
	properties := facts{}
	for _, k := range Keys(t) {
		property := typeSchema(t.FieldByIndex(k.Index).Type)
		maps.Copy(property, about(k))
		properties[k.Name] = property
	}
	return facts{"type": "object", "properties": properties, "additionalProperties": false}
}

// schema is the schema of a keyword.
func (k keyword) schema() facts {
	schema := maps.Clone(k.facts)
	if k.doc != "" {
		if schema == nil {
			schema = facts{}
		}
		schema["description"] = k.doc
	}
	return schema
}

// durationPattern is what time.ParseDuration takes, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// typeSchema gives the schema of what a Go type is decoded from.
func typeSchema(t reflect.Type) facts {
	switch {
	case t == nodeType, t == optionalType: // the table knows
		return facts{}
	case t == formSchemaType:
		return facts{"type": "object"}
	case t == reflect.TypeFor[Duration]():
		return facts{"type": []any{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0}
	case t == reflect.TypeFor[StepType](), t == reflect.TypeFor[Action](), t == reflect.TypeFor[FailureMode](), t == reflect.TypeFor[Mode](), t == reflect.TypeFor[RunAs](), t == reflect.TypeFor[OnUnknown](), t == reflect.TypeFor[OnDuplicate](), t == reflect.TypeFor[OnDisconnect]():
		return facts{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Struct:
		return facts{"$ref": "#/$defs/" + SchemaName(t)}
	case reflect.String: // any scalar is a text
		return facts{"type": []any{"string", "number", "boolean"}}
	case reflect.Bool:
		return facts{"type": "boolean"}
	case reflect.Int:
		return facts{"type": "integer"}
	case reflect.Slice:
		return facts{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Map:
		return facts{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	default:
		return facts{}
	}
}

// stepConditions are the keys of each type of step.
func stepConditions() []any {
	var conditions []any
	for _, kind := range kinds {
		keys := kind.Keys()
		forbidden := foreignKeys(kind)
		for _, key := range keys.Not {
			forbidden[key] = false
		}
		then := facts{"properties": forbidden}
		if keys.Must != nil {
			then["required"] = texts(keys.Must)
		}
		if keys.Either != nil {
			then["oneOf"] = eachRequired(keys.Either)
		}
		when := facts{"properties": facts{"type": facts{"const": string(kind.Type())}}}
		if kind.Type() != ToolStep { // also the type of a step without one
			when["required"] = []any{"type"}
		}
		conditions = append(conditions, facts{"if": when, "then": then})
	}
	return conditions
}

// foreignKeys forbids keys of other kinds of steps.
func foreignKeys(kind StepKind) facts {
	keys := facts{}
	for _, key := range stepKeys {
		if !key.of(kind) {
			keys[key.name] = false
		}
	}
	return keys
}

func eachRequired(keys []string) []any {
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = facts{"required": []any{key}}
	}
	return list
}
