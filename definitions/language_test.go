package definitions

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// schemaOf compiles a schema of the language, or what a pointer such as
// /$defs/step leads to within it.
func schemaOf(t *testing.T, source json.RawMessage, pointer string) *JSONSchema {
	t.Helper()
	root := mustDecode(t, string(source)).(map[string]any)
	if pointer != "" {
		root = map[string]any{"$schema": root["$schema"], "$defs": root["$defs"], "$ref": "#" + pointer}
	}
	schema, err := compileSchema(root, false)
	if err != nil {
		t.Fatalf("the schema of the language: %v", err)
	}
	return schema
}

// withoutNulls drops members that are null, which is as good as not given and
// which the schema does not suggest.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	case map[string]any:
		for name, member := range value {
			if value[name] = withoutNulls(member); member == nil {
				delete(value, name)
			}
		}
	}
	return value
}

// yamlValues gives the documents of a file as editors see them.
func yamlValues(t *testing.T, data []byte) []any {
	t.Helper()
	docs := perduretest.Must(Documents(data))(t)
	var values []any
	for _, doc := range docs {
		var value any
		if diags := Decode("", doc, &value); diags != nil {
			t.Fatal(diags)
		}
		values = append(values, value)
	}
	return values
}

func TestSchemaOfTheLanguageFitsDefinitions(t *testing.T) {
	t.Parallel()
	whole, composites := schemaOf(t, Schema(), ""), schemaOf(t, Schema(), "/$defs/compositeTools")
	for _, pattern := range []string{"testdata/ok/*.yaml", "library/*.yaml", "../test/program/testdata/e2e/examples/*.yaml"} {
		for _, file := range perduretest.Files(t, pattern) {
			if strings.HasSuffix(file, "_test.yaml") {
				continue // a test of a definition
			}
			for _, value := range yamlValues(t, perduretest.Read(t, file)) {
				schema := whole
				if config, ok := value.(map[string]any); ok && config["compositeTools"] != nil {
					schema, value = composites, config["compositeTools"]
				}
				for _, problem := range schema.violations(withoutNulls(value)) {
					t.Errorf("%s: %s %s", file, problem.Parameter, problem.Message)
				}
			}
		}
	}
}

func TestSchemaOfTheLanguageRefuses(t *testing.T) {
	t.Parallel()
	definition, step, resource := schemaOf(t, Schema(), "/$defs/definition"), schemaOf(t, Schema(), "/$defs/step"), schemaOf(t, ResourceSchema(), "")
	tests := []struct {
		name   string
		schema *JSONSchema
		text   string
		path   string // of the problem
	}{
		{"unknown key", step, `{tool: a, toool: b}`, "toool"},
		{"no tool", step, `{id: a}`, "tool"},
		{"foreign key", step, `{tool: a, message: hello}`, "message"},
		{"foreign key of a type", step, `{type: elicitation, message: hello, tool: a}`, "tool"},
		{"unknown type", step, `{type: foreach, collection: '[]', step: {tool: a}}`, "type"},
		{"duration without unit", step, `{tool: a, timeout: 30}`, "timeout"},
		{"duration in words", step, `{tool: a, timeout: soon}`, "timeout"},
		{"wait for nothing", step, `{type: wait}`, ""},
		{"wait for both", step, `{type: wait, for: 1m, until: x}`, ""},
		{"wait with timeout", step, `{type: wait, for: 1m, timeout: 1m}`, "timeout"},
		{"retry without count", step, `{tool: a, onError: {action: retry}}`, "onError.retryCount"},
		{"too many retries", step, `{tool: a, onError: {action: retry, retryCount: 11}}`, "onError.retryCount"},
		{"compensation that continues", step, `{tool: a, compensate: {tool: b, onError: {action: continue}}}`, "compensate.onError.action"},
		{"compensation without tool", step, `{tool: a, compensate: {arguments: {}}}`, "compensate.tool"},
		{"inner dependsOn", step, `{type: forEach, collection: '[]', step: {tool: a, dependsOn: [b]}}`, "step.dependsOn"},
		{"handler", step, `{type: elicitation, message: m, onDecline: {action: retry}}`, "onDecline.action"},
		{"step without id", definition, `{name: n, description: d, steps: [{tool: a}]}`, "steps[0].id"},
		{"no steps", definition, `{name: n, description: d, steps: []}`, "steps"},
		{"failure mode", definition, `{name: n, description: d, failureMode: stop, steps: [{id: a, tool: a}]}`, "failureMode"},
		{"name", definition, `{name: a b, description: d, steps: [{id: a, tool: a}]}`, "name"},
		{"output", definition, `{name: n, description: d, steps: [{id: a, tool: a}], output: {properties: {p: {type: text, description: d, value: v}}}}`, "output.properties.p.type"},
		{"kind", resource, `{apiVersion: toolhive.stacklok.dev/v1beta1, kind: Tool, metadata: {name: n}, spec: {name: n, description: d, steps: [{id: a, tool: a}]}}`, "kind"},
		{"spec", resource, `{apiVersion: toolhive.stacklok.dev/v1beta1, kind: VirtualMCPCompositeToolDefinition, metadata: {name: n}, spec: {name: n, description: d}}`, "spec"},
		{"steps and a script", definition, `{name: n, description: d, script: return 1, steps: [{id: a, tool: a}]}`, ""},
		{"script of a tool step", step, `{tool: a, script: return 1}`, "script"},
	}
	for _, test := range tests {
		problems := test.schema.violations(yamlValues(t, []byte(test.text))[0])
		found := false
		for _, p := range problems {
			found = found || p.Parameter == test.path
		}
		if !found {
			t.Errorf("%s: problems %v, want one of %q", test.name, problems, test.path)
		}
	}
}

// The table says something of every key that the Go types have, and of nothing
// else; all types that can be reached are in the schema.
func TestKeywordsAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, typ := range languageTypes {
		known[typ.Name()] = true
		for _, f := range Keys(typ) {
			known[typ.Name()+"."+f.Name] = true
			inner := typ.FieldByIndex(f.Index).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != nodeType && inner != optionalType && keywords[inner.Name()].doc == "" {
				t.Errorf("%s.%s: type %s is not described", typ.Name(), f.Name, inner.Name())
			}
		}
	}
	for name := range known {
		if doc := keywords[name].doc; doc == "" || !strings.HasSuffix(doc, ".") {
			t.Errorf("%s is described as %q: a sentence is wanted", name, doc)
		}
	}
	for name := range keywords {
		if !known[name] {
			t.Errorf("%s is described and does not exist", name)
		}
	}
	defs := mustDecode(t, string(Schema())).(map[string]any)["$defs"].(map[string]any)
	for _, typ := range languageTypes {
		def, _ := defs[SchemaName(typ)].(map[string]any)
		properties, _ := def["properties"].(map[string]any)
		for _, f := range Keys(typ) {
			if _, ok := properties[f.Name]; !ok {
				t.Errorf("$defs/%s has no property %s", SchemaName(typ), f.Name)
			}
		}
	}
}

func TestBriefly(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"30m", "1s", "1h", "1h30m", "1m30s", "20s", "100h", "1h0m5s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(want)); err != nil || d.Brief() != want {
			t.Errorf("%v, %v, want %s", d.Brief(), err, want)
		}
	}
}
