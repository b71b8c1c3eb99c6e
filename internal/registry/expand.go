package registry

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Schemas are compared with their references expanded, so that it does not matter where
// something is written. References that cannot be expanded are compared as written:
// cycles, references to elsewhere, and those with other keywords than comments beside
// them.

// maxExpanded bounds the schemas of an expanded schema.
const maxExpanded = 5_000

// annotations do not decide which values fit.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}

// schemaMaps are the keywords whose members have names of their own.
var schemaMaps = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired", "dependencies"}

// expanded is a schema with its references expanded; one that is not understood is
// unchanged.
func expanded(schema map[string]any) map[string]any {
	for keyword, value := range schema {
		if mentions(value, "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef") || keyword == "$dynamicRef" || keyword == "$recursiveRef" {
			return schema
		}
	}
	x := &expander{root: schema, room: maxExpanded}
	whole := x.schema(schema, nil)
	switch {
	case x.room < 0:
		return schema
	case !x.left:
		delete(whole, "$defs")
		delete(whole, "definitions")
	}
	return whole
}

type expander struct {
	root map[string]any
	room int  // for schemas
	left bool // a reference stays
}

// schema expands one schema; open are the references around it.
func (x *expander) schema(s map[string]any, open []string) map[string]any {
	if x.room--; x.room < 0 {
		return s
	}
	if ref, ok := s["$ref"].(string); ok {
		return x.reference(s, ref, open)
	}
	out := maps.Clone(s)
	for keyword, value := range s {
		switch value := value.(type) {
		case map[string]any:
			out[keyword] = x.under(keyword, value, open)
		case []any:
			out[keyword] = x.among(keyword, value, open)
		}
	}
	return out
}

// under expands the value of a keyword.
func (x *expander) under(keyword string, value map[string]any, open []string) any {
	switch keyword {
	case "properties":
		members := maps.Clone(value)
		for name, member := range value {
			if s, ok := member.(map[string]any); ok {
				members[name] = x.schema(s, open)
			}
		}
		return members
	case "items", "additionalProperties":
		return x.schema(value, open)
	case "$defs", "definitions": // kept for references that stay
		return value
	}
	x.left = x.left || mentions(value, "$ref")
	return value
}

func (x *expander) among(keyword string, list []any, open []string) any {
	if keyword != "anyOf" {
		x.left = x.left || mentions(list, "$ref")
		return list
	}
	list = slices.Clone(list)
	for i, elem := range list {
		if s, ok := elem.(map[string]any); ok {
			list[i] = x.schema(s, open)
		}
	}
	return list
}

// reference replaces a reference by its target.
func (x *expander) reference(s map[string]any, ref string, open []string) map[string]any {
	target, ok := x.target(ref)
	for keyword := range s {
		ok = ok && (keyword == "$ref" || slices.Contains(annotations, keyword))
	}
	if !ok || slices.Contains(open, ref) {
		x.left = true
		return s
	}
	out := maps.Clone(x.schema(target, append(slices.Clone(open), ref)))
	delete(out, "default") // which has no effect here
	for keyword, value := range s {
		if keyword != "$ref" {
			out[keyword] = value
		}
	}
	return out
}

// target is the target of a reference into the same schema.
func (x *expander) target(ref string) (map[string]any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	var at any = x.root
	for _, token := range strings.Split(pointer, "/") {
		token, err := url.PathUnescape(token)
		members, isObject := at.(map[string]any)
		if err != nil || !isObject {
			return nil, false
		}
		at = members[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	s, ok := at.(map[string]any)
	return s, ok
}

// mentions reports whether one of the keywords is anywhere in a value.
func mentions(value any, keywords ...string) bool {
	switch value := value.(type) {
	case map[string]any:
		for keyword, member := range value {
			if slices.Contains(keywords, keyword) || mentions(member, keywords...) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(elem any) bool { return mentions(elem, keywords...) })
	}
	return false
}

// bare is a schema without annotations.
func bare(value any) any {
	switch value := value.(type) {
	case []any:
		out := make([]any, len(value))
		for i, elem := range value {
			out[i] = bare(elem)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for keyword, member := range value {
			if !slices.Contains(annotations, keyword) {
				out[keyword] = bareUnder(keyword, member)
			}
		}
		return out
	}
	return value
}

func bareUnder(keyword string, value any) any {
	members, ok := value.(map[string]any)
	switch {
	case keyword == "enum" || keyword == "const":
		return value
	case !ok || !slices.Contains(schemaMaps, keyword):
		return bare(value)
	}
	out := map[string]any{}
	for name, member := range members {
		out[name] = bare(member)
	}
	return out
}

// sameUnder reports whether two schemas have the same value of a keyword. Definitions
// for references may have additions.
func sameUnder(keyword string, was, now map[string]any) bool {
	before, isMap := was[keyword].(map[string]any)
	if after, ok := now[keyword].(map[string]any); ok && isMap && (keyword == "$defs" || keyword == "definitions") {
		for name := range before {
			if encoded(bare(before[name])) != encoded(bare(after[name])) {
				return false
			}
		}
		return true
	}
	return encoded(bareUnder(keyword, was[keyword])) == encoded(bareUnder(keyword, now[keyword]))
}

// alternativesOf are those of two schemas, one with anyOf; false = neither has one, one
// has more than anyOf, or they are too many to compare.
func alternativesOf(was, now map[string]any) (before, after []map[string]any, ok bool) {
	before, ok = alternatives(was)
	after, also := alternatives(now)
	return before, after, ok && also && (was["anyOf"] != nil || now["anyOf"] != nil) && fewEnough(before, after)
}

// alternatives are the schemas that a value may fit: those of anyOf, or the schema
// itself; false = it has more than anyOf.
func alternatives(schema map[string]any) ([]map[string]any, bool) {
	list, ok := schema["anyOf"].([]any)
	if !ok {
		return []map[string]any{schema}, schema["anyOf"] == nil
	}
	for keyword := range schema {
		if keyword != "anyOf" && !slices.Contains(annotations, keyword) {
			return nil, false
		}
	}
	var all []map[string]any
	for _, elem := range list {
		all = append(all, object(elem))
	}
	return all, true
}

// maxCompared bounds the pairs of schemas that are compared for two anyOf.
const maxCompared = 250_000

// fewEnough reports whether alternatives are few enough to compare each with each.
func fewEnough(some, others []map[string]any) bool {
	return objectsIn(some)*objectsIn(others) <= maxCompared
}

// objectsIn counts the objects in some schemas, up to maxCompared.
func objectsIn(schemas []map[string]any) (count int) {
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			count++
			for _, member := range value {
				if count < maxCompared {
					look(member)
				}
			}
		case []any:
			for _, elem := range value {
				if count < maxCompared {
					look(elem)
				}
			}
		}
	}
	for _, s := range schemas {
		look(s)
	}
	return count
}

// uncovered gives the first alternative that none of the others covers; -1 = none.
func uncovered(some, others []map[string]any, covers func(one, other map[string]any) bool) int {
	return slices.IndexFunc(some, func(one map[string]any) bool {
		return !slices.ContainsFunc(others, func(other map[string]any) bool { return covers(one, other) })
	})
}
