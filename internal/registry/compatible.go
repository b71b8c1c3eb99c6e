package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// A change is a place in a schema and its difference.
type change struct{ path, what string }

// prefixed writes changes: one formats those with a path, whole those without.
func prefixed(one, whole string, changes []change) []string {
	var lines []string
	for _, c := range changes {
		if c.path == "" {
			lines = append(lines, whole+": "+c.what)
			continue
		}
		lines = append(lines, one+" "+c.path+" "+c.what)
	}
	return lines
}

// decoded gives a schema with its references expanded; nil = anything fits.
func decoded(schema json.RawMessage) map[string]any {
	value, err := template.DecodeValue(schema)
	if err != nil {
		return nil
	}
	s, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	return expanded(s)
}

// A narrower finds where a schema takes less than it did: values that fit before and
// may not fit now.
type narrower struct {
	// defaults: a required parameter with a default may be left out.
	defaults bool
	found    []change
}

func (n *narrower) add(path, format string, args ...any) {
	n.found = append(n.found, change{path, fmt.Sprintf(format, args...)})
}

func (n *narrower) compare(path string, was, now map[string]any) {
	if n.alternatives(path, was, now) {
		return
	}
	if gone := lost(typesOf(was), typesOf(now)); len(gone) > 0 {
		n.add(path, "takes only %s, and took %s", words(typesOf(now)), words(typesOf(was)))
	}
	n.values(path, was, now)
	n.bounds(path, was, now)
	for _, keyword := range opaque {
		if now[keyword] != nil && !sameUnder(keyword, was, now) {
			n.add(path, "has another %s, and may take less", keyword)
		}
	}
	n.required(path, was, now)
	n.members(path, was, now)
	if items, ok := now["items"].(map[string]any); ok {
		before, _ := was["items"].(map[string]any)
		n.compare(path+"[]", before, items)
	} else if now["items"] == false && was["items"] != false {
		n.add(path+"[]", "is not taken any more")
	}
}

// alternatives compares schemas with anyOf, if they have nothing else.
func (n *narrower) alternatives(path string, was, now map[string]any) (compared bool) {
	before, after, ok := alternativesOf(was, now)
	if !ok {
		return false
	}
	i := uncovered(before, after, func(one, other map[string]any) bool {
		within := narrower{}
		within.compare("", one, other)
		return len(within.found) == 0
	})
	if i >= 0 {
		n.add(path, "does not take all any more that is %s", list([]string{encoded(bare(before[i]))}))
	}
	return true
}

// opaque are keywords that can narrow a schema and are not compared in detail.
var opaque = []string{
	"$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "pattern", "multipleOf", "contains",
	"minContains", "maxContains", "prefixItems", "propertyNames", "patternProperties", "dependentRequired", "dependentSchemas",
	"dependencies", "unevaluatedProperties", "unevaluatedItems", "uniqueItems",
}

// values compares enums.
func (n *narrower) values(path string, was, now map[string]any) {
	after, limited := enumOf(now)
	before, wasLimited := enumOf(was)
	switch {
	case !limited:
	case !wasLimited:
		n.add(path, "takes only %s", list(after))
	default:
		if gone := without(before, after); len(gone) > 0 {
			n.add(path, "no longer takes %s", list(gone))
		}
	}
}

// bounds compares limits of numbers and of sizes.
func (n *narrower) bounds(path string, was, now map[string]any) {
	for _, keyword := range []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"} {
		n.bound(path, keyword, was[keyword], now[keyword], 1)
	}
	for _, keyword := range []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"} {
		n.bound(path, keyword, was[keyword], now[keyword], -1)
	}
}

func (n *narrower) bound(path, keyword string, was, now any, stricter int) {
	after, limited := number(now)
	before, wasLimited := number(was)
	switch {
	case !limited:
	case !wasLimited:
		n.add(path, "has %s %s of %v", article(keyword), keyword, now)
	case after.Cmp(before) == stricter:
		n.add(path, "has %s %s of %v, which was %v", article(keyword), keyword, now, was)
	}
}

func article(keyword string) string {
	if strings.HasPrefix(keyword, "e") {
		return "an"
	}
	return "a"
}

func (n *narrower) required(path string, was, now map[string]any) {
	for _, name := range without(needed(now, n.defaults && path == ""), needed(was, n.defaults && path == "")) {
		n.add(join(path, name), "is required now")
	}
}

// needed gives the required properties; with defaults, without those that have one.
func needed(schema map[string]any, defaults bool) []string {
	properties, _ := schema["properties"].(map[string]any)
	return slices.DeleteFunc(listOf(schema["required"]), func(name string) bool {
		_, standsIn := object(properties[name])["default"]
		return standsIn && defaults
	})
}

func (n *narrower) members(path string, was, now map[string]any) {
	before, _ := was["properties"].(map[string]any)
	after, _ := now["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		property, known := after[name]
		if !known {
			n.add(join(path, name), "is gone")
			continue
		}
		n.compare(join(path, name), object(before[name]), object(property))
	}
	if others, described := was["additionalProperties"].(map[string]any); described {
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if before[name] == nil { // it was one of the others
				n.compare(join(path, name), others, object(after[name]))
			}
		}
	}
	n.others(path, was, now)
}

// others compares which members may be there besides named ones.
func (n *narrower) others(path string, was, now map[string]any) {
	after, described := now["additionalProperties"].(map[string]any)
	switch before := was["additionalProperties"]; {
	case before == false || was == nil:
	case now["additionalProperties"] == false:
		n.add(path, "takes no others than those that are named")
	case described:
		n.compare(join(path, "*"), object(before), after)
	}
}

// A wider finds where a schema describes more than it did: values that readers of the
// other one do not expect.
type wider struct{ found []change }

func (w *wider) add(path, format string, args ...any) {
	w.found = append(w.found, change{path, fmt.Sprintf(format, args...)})
}

func (w *wider) compare(path string, was, now map[string]any) {
	switch {
	case was == nil:
		return
	case now == nil:
		w.add(path, "is not described any more")
		return
	}
	if w.alternatives(path, was, now) {
		return
	}
	if more := lost(typesOf(now), typesOf(was)); len(more) > 0 {
		w.add(path, "may now be %s, and was %s", words(typesOf(now)), words(typesOf(was)))
	}
	if before, limited := enumOf(was); limited {
		after, stillLimited := enumOf(now)
		if more := without(after, before); !stillLimited {
			w.add(path, "may now be other than %s", list(before))
		} else if len(more) > 0 {
			w.add(path, "may now be %s", list(more))
		}
	}
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"} {
		if !sameUnder(keyword, was, now) {
			w.add(path, "has another %s, and may be something else", keyword)
		}
	}
	w.members(path, was, now)
	if items, ok := was["items"].(map[string]any); ok {
		w.compare(path+"[]", items, object(now["items"]))
	}
}

// alternatives compares schemas with anyOf, if they have nothing else.
func (w *wider) alternatives(path string, was, now map[string]any) (compared bool) {
	before, after, ok := alternativesOf(was, now)
	if !ok {
		return false
	}
	i := uncovered(after, before, func(one, other map[string]any) bool {
		within := wider{}
		within.compare("", other, one)
		return len(within.found) == 0
	})
	if i >= 0 {
		w.add(path, "may now be %s", list([]string{encoded(bare(after[i]))}))
	}
	return true
}

func (w *wider) members(path string, was, now map[string]any) {
	before, _ := was["properties"].(map[string]any)
	after, _ := now["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		property, known := after[name]
		if !known {
			w.add(join(path, name), "is gone")
			continue
		}
		w.compare(join(path, name), object(before[name]), object(property))
	}
	for _, name := range without(listOf(was["required"]), listOf(now["required"])) {
		if _, known := after[name]; known {
			w.add(join(path, name), "may be missing now")
		}
	}
}

// Keywords of schemas in a form that can be compared. Values are written as JSON.

func object(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	if s == nil && schema != false {
		return map[string]any{}
	}
	if s == nil { // nothing fits
		return map[string]any{"enum": []any{}}
	}
	return s
}

var allTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// typesOf gives the types that a schema takes; all if it names none.
func typesOf(schema map[string]any) []string {
	if types := template.TypesOf(schema); types != nil {
		return types
	}
	return allTypes
}

// lost gives the types that are not among others. An integer is a number.
func lost(types, among []string) []string {
	numbers := slices.Contains(among, "number")
	return slices.DeleteFunc(without(types, among), func(t string) bool { return t == "integer" && numbers })
}

func words(types []string) string {
	if len(types) == len(allTypes) {
		return "any type"
	}
	return strings.Join(types, " or ")
}

// enumOf gives the values that a schema enumerates, as JSON.
func enumOf(schema map[string]any) (values []string, limited bool) {
	enum, limited := schema["enum"].([]any)
	for _, value := range enum {
		values = append(values, encoded(value))
	}
	only, ok := schema["const"]
	switch {
	case !ok:
		return values, limited
	case limited && !slices.Contains(values, encoded(only)): // nothing fits
		return nil, true
	}
	return []string{encoded(only)}, true
}

func listOf(value any) []string {
	elems, _ := value.([]any)
	var names []string
	for _, elem := range elems {
		names = append(names, fmt.Sprint(elem))
	}
	return names
}

// without gives the values that are not among others: a backend may have sent very many of
// both.
func without(values, others []string) []string {
	among := make(map[string]bool, len(others))
	for _, v := range others {
		among[v] = true
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return among[v] })
}

func encoded(value any) string {
	text, err := template.EncodeValue(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func number(value any) (*big.Rat, bool) {
	if value == nil {
		return nil, false
	}
	return new(big.Rat).SetString(fmt.Sprint(value))
}

// list writes the first values.
func list(values []string) string {
	const shown = 5
	if len(values) > shown {
		values = append(slices.Clone(values[:shown]), "…")
	}
	return strings.Join(values, ", ")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
