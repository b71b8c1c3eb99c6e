package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
)

// Of random parameters that change at random: where nothing is said to break, each
// value that was right still is.
func TestBreaksOfRandomParameters(t *testing.T) {
	t.Parallel()
	harmless := 0
	for seed := range uint64(2500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		was := randomSchema(rnd, 2, true)
		now := changed(rnd, was, true)
		from, to := parametersOf(t, was), parametersOf(t, now)
		if slices.ContainsFunc(registry.Changes(from, to, ""), func(c registry.Change) bool { return c.Breaks }) {
			continue
		}
		harmless++
		before, after := compiled(t, was), compiled(t, now)
		for range 30 {
			if v := randomValue(rnd, was); before.Validate(v) == nil && after.Validate(v) != nil {
				t.Errorf("seed %d: nothing breaks, and %s is no longer right\nwas %s\nnow %s", seed, mustJSON(v), mustJSON(was), mustJSON(now))
				break
			}
		}
	}
	if harmless < 200 {
		t.Errorf("only %d changes are harmless", harmless)
	}
}

// Of random results of tools that change at random: where the drift breaks
// nothing, each value that there can be now could be before.
func TestDriftOfRandomResults(t *testing.T) {
	t.Parallel()
	kept := memoryRegistry(t)
	harmless := 0
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		was := object("p", randomSchema(rnd, 2, false))
		now := changed(rnd, was, false)
		tool := definitions.Tool{Name: "say", Backend: "be", Original: "say", OutputSchema: mustJSON(was)}
		text := fmt.Sprintf("{name: n%d, version: 1.0.0, description: d, steps: [{id: s, tool: say}]}", seed)
		if _, err := kept.Publish(t.Context(), registry.Publisher{By: "ada", Tools: toolsOf(tool)}, request(text)); err != nil {
			t.Fatal(err)
		}
		entry := perduretest.Must(kept.Resolve(definitions.Reference{Name: fmt.Sprintf("n%d", seed)}))(t)
		tool.OutputSchema = mustJSON(now)
		drifted := entry.Drift(toolsOf(tool))
		if len(drifted) > 0 && drifted[0].State == registry.Breaking {
			continue
		}
		harmless++
		before, after := compiled(t, was), compiled(t, now)
		for range 30 {
			if v := randomValue(rnd, now); after.Validate(v) == nil && before.Validate(v) != nil {
				t.Errorf("seed %d: nothing breaks, and %s is new\nwas %s\nnow %s", seed, mustJSON(v), mustJSON(was), mustJSON(now))
				break
			}
		}
	}
	if harmless < 40 {
		t.Errorf("only %d changes are harmless", harmless)
	}
}

func object(name string, property any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: property}}
}

func parametersOf(t *testing.T, schema map[string]any) *definitions.Definition {
	return interfaceOf(t, string(mustJSON(object("p", schema))), `null`)
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func compiled(t *testing.T, schema map[string]any) *jsonschema.Schema {
	t.Helper()
	doc := perduretest.Must(jsonschema.UnmarshalJSON(bytes.NewReader(mustJSON(schema))))(t)
	c := jsonschema.NewCompiler()
	perduretest.NoError(t, c.AddResource("s.json", doc))
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("%s: %v", mustJSON(schema), err)
	}
	return s
}

func pickOf[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// randomSchema is one with types, perhaps null as well, alternatives, enumerations, members and
// elements, and perhaps limits.
func randomSchema(rnd *rand.Rand, depth int, limits bool) map[string]any {
	if depth > 0 && rnd.IntN(6) == 0 {
		return map[string]any{"anyOf": []any{randomSchema(rnd, depth-1, limits), randomSchema(rnd, depth-1, limits)}}
	}
	s := map[string]any{}
	kind := pickOf(rnd, "string", "integer", "number", "boolean", "object", "array", "any")
	if depth == 0 && (kind == "object" || kind == "array") {
		kind = "string"
	}
	switch {
	case kind == "any":
	case rnd.IntN(4) == 0:
		s["type"] = []any{kind, "null"}
	default:
		s["type"] = kind
	}
	if rnd.IntN(5) == 0 && (kind == "string" || kind == "integer") {
		s["enum"] = someValues(rnd, kind)
	} else if rnd.IntN(12) == 0 && kind == "string" {
		s["const"] = pickOf(rnd, "a", "b")
	}
	if limits && rnd.IntN(4) == 0 {
		limit(rnd, s, kind)
	}
	switch kind {
	case "object":
		properties, required := map[string]any{}, []any{}
		for _, name := range []string{"x", "y", "z"}[:1+rnd.IntN(3)] {
			properties[name] = randomSchema(rnd, depth-1, limits)
			if rnd.IntN(3) == 0 {
				required = append(required, name)
			}
		}
		s["properties"], s["required"] = properties, required
		if rnd.IntN(4) == 0 {
			s["additionalProperties"] = false
		}
	case "array":
		if rnd.IntN(4) > 0 {
			s["items"] = randomSchema(rnd, depth-1, limits)
		}
	}
	return s
}

func someValues(rnd *rand.Rand, kind string) []any {
	all := []any{"a", "b", "c"}
	if kind == "integer" {
		all = []any{1, 2, 3}
	}
	return all[rnd.IntN(2) : 2+rnd.IntN(2)]
}

func limit(rnd *rand.Rand, s map[string]any, kind string) {
	words := map[string][]string{
		"string": {"minLength", "maxLength"}, "integer": {"minimum", "maximum", "exclusiveMinimum"}, "number": {"minimum", "exclusiveMaximum"},
		"array": {"minItems", "maxItems"}, "object": {"minProperties", "maxProperties"},
	}[kind]
	if len(words) > 0 {
		s[pickOf(rnd, words...)] = rnd.IntN(4)
	}
}

// changed is a schema with one change at a random place, or another one.
func changed(rnd *rand.Rand, was map[string]any, limits bool) map[string]any {
	now := maps.Clone(was)
	if either, ok := was["anyOf"].([]any); ok && rnd.IntN(4) > 0 {
		now["anyOf"] = changedAlternatives(rnd, either, limits)
		return now
	}
	properties, _ := was["properties"].(map[string]any)
	if items, ok := was["items"].(map[string]any); ok && rnd.IntN(2) == 0 {
		now["items"] = changed(rnd, items, limits)
		return now
	}
	if len(properties) > 0 && rnd.IntN(2) == 0 {
		name := pickOf(rnd, slices.Sorted(maps.Keys(properties))...)
		properties = maps.Clone(properties)
		properties[name] = changed(rnd, properties[name].(map[string]any), limits)
		now["properties"] = properties
		return now
	}
	switch rnd.IntN(8) {
	case 0:
		return randomSchema(rnd, 1, limits)
	case 1:
		if one, ok := was["type"].(string); ok && one != "boolean" {
			now["type"] = []any{one, pickOf[any](rnd, "null", "boolean")}
		} else {
			delete(now, "type")
		}
	case 2:
		if several, ok := was["type"].([]any); ok {
			now["type"] = pickOf(rnd, several...)
		}
	case 3:
		now["enum"] = someValues(rnd, pickOf(rnd, "string", "integer"))
	case 4:
		delete(now, pickOf(rnd, "enum", "const", "required", "items", "additionalProperties"))
	case 5:
		if limits {
			limit(rnd, now, pickOf(rnd, "string", "integer", "array", "object"))
		}
	case 6:
		if len(properties) > 0 {
			now["required"] = []any{pickOf(rnd, slices.Sorted(maps.Keys(properties))...)}
		}
	case 7:
		now["items"] = randomSchema(rnd, 0, limits)
	}
	return now
}

func changedAlternatives(rnd *rand.Rand, was []any, limits bool) []any {
	now := slices.Clone(was)
	switch i := rnd.IntN(len(was)); rnd.IntN(3) {
	case 0:
		now[i] = changed(rnd, was[i].(map[string]any), limits)
	case 1:
		now = append(now, randomSchema(rnd, 1, limits))
	default:
		now[i] = was[0]
	}
	return now
}

// randomValue is one that a schema may take, with members that it names.
func randomValue(rnd *rand.Rand, s map[string]any) any {
	if either, ok := s["anyOf"].([]any); ok {
		return randomValue(rnd, pickOf(rnd, either...).(map[string]any))
	}
	if enum, ok := s["enum"].([]any); ok && rnd.IntN(8) > 0 {
		return decodedValue(pickOf(rnd, enum...))
	}
	if only, ok := s["const"]; ok && rnd.IntN(8) > 0 {
		return only
	}
	kind := pickOf(rnd, "string", "integer", "number", "boolean", "object", "array", "null")
	switch types := s["type"].(type) {
	case string:
		kind = types
	case []any:
		kind = pickOf(rnd, types...).(string)
	}
	switch kind {
	case "string":
		return pickOf(rnd, "", "a", "b", "c", "abc", "abcdef")
	case "integer":
		return decodedValue(rnd.IntN(6) - 1)
	case "number":
		return decodedValue(pickOf(rnd, 0.5, 1.0, 2.5, -3.0))
	case "boolean":
		return rnd.IntN(2) == 0
	case "null":
		return nil
	case "array":
		items, _ := s["items"].(map[string]any)
		list := []any{}
		for range rnd.IntN(4) {
			list = append(list, randomValue(rnd, items))
		}
		return list
	}
	members := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if rnd.IntN(4) > 0 {
			members[name] = randomValue(rnd, properties[name].(map[string]any))
		}
	}
	return members
}

// decodedValue is a value as it is read from JSON, whose numbers are exact.
func decodedValue(v any) any {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(mustJSON(v)))
	if err != nil {
		panic(err)
	}
	return value
}
