package definitions

import (
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// install makes each part of a compiled schema charge for itself before the validator
// visits its parts.
func (m *meter) install(schema *jsonschema.Schema) {
	seen := map[*jsonschema.Schema]bool{schema: true}
	todo, listed := []*jsonschema.Schema{schema}, 0
	for i := 0; i < len(todo); i++ {
		listed += costOf(todo[i])
		for _, part := range parts(reflect.ValueOf(todo[i]).Elem()) {
			if !seen[part] {
				seen[part] = true
				todo = append(todo, part)
			}
		}
	}
	for _, s := range todo {
		m.charge(s, listed)
	}
}

// charge makes one part of a schema charge for a value that it is applied to: for
// itself, the parts applied to the same value, and those applied to each item or
// member. A part that does not fit by its type or enum is not visited, so it is
// charged here. Listed is the cost of all values that the schema lists: it is not
// known yet which of them a dynamic reference means.
func (m *meter) charge(s *jsonschema.Schema, listed int) {
	var self, each price
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		switch name := fields.Type().Field(i).Name; {
		case perElement[name]:
			each.add(parts(fields.Field(i)))
		case applied[name]:
			self.add(parts(fields.Field(i)))
		}
	}
	self.bytes += (len(s.Required) + requiredWith(s)) * namePrice
	dynamic := s.DynamicRef != nil || s.RecursiveRef != nil
	if dynamic {
		self.bytes += listed
	}
	property := make(map[string]price, len(s.Properties))
	//workflowcheck:ignore a map again
	for name, part := range s.Properties {
		p := property[name]
		p.add([]*jsonschema.Schema{part})
		property[name] = p
	}
	onEach(s, func(v any) {
		m.spend(m.visit + self.of(m))
		if dynamic {
			m.spend(m.depth * scopePrice)
		}
		switch v := v.(type) {
		case []any:
			m.spend(len(v) * each.of(m))
			if s.UniqueItems {
				m.spend(countValues(v) * visitPrice)
			}
		case map[string]any:
			m.spend(len(v) * each.of(m))
			//workflowcheck:ignore a sum
			for name := range v {
				m.spend(property[name].of(m))
			}
		case string:
			m.spend(len(v) / readBytes)
		}
	})
}

// onEach calls a function with each value to which a schema is applied, before its format
// is checked.
func onEach(s *jsonschema.Schema, do func(v any)) {
	given := s.Format
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		do(v)
		if given == nil {
			return nil
		}
		return given.Validate(v)
	}}
	if given != nil {
		s.Format.Name = given.Name
	}
}

// requiredWith counts the names that a schema requires with others.
func requiredWith(s *jsonschema.Schema) int {
	n := 0
	//workflowcheck:ignore a sum
	for _, names := range s.DependentRequired {
		n += len(names)
	}
	//workflowcheck:ignore a sum
	for _, names := range s.Dependencies {
		if names, ok := names.([]string); ok {
			n += len(names)
		}
	}
	return n
}

// A price is the cost of applying parts of a schema.
type price struct{ visits, bytes int }

func (p *price) add(parts []*jsonschema.Schema) {
	for _, part := range parts {
		p.visits++
		p.bytes += costOf(part)
	}
}

func (p price) of(m *meter) int { return p.visits*m.visit + p.bytes }

// applied are the fields of a compiled schema applied to the same value, or to a few of
// its items.
var applied = set("Ref", "RecursiveRef", "DynamicRef", "Not", "AllOf", "AnyOf", "OneOf", "If", "Then", "Else",
	"Dependencies", "DependentSchemas", "PrefixItems", "ContentSchema")

// perElement are those that are applied to each item or member.
var perElement = set("PropertyNames", "PatternProperties", "AdditionalProperties", "UnevaluatedProperties",
	"Contains", "Items", "AdditionalItems", "Items2020", "UnevaluatedItems")

func set(names ...string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}

var schemaType = reflect.TypeFor[*jsonschema.Schema]()

// parts are the direct subschemas in a field of a compiled schema, or in all of it.
// Dynamic anchors are in a field that is not exported.
func parts(v reflect.Value) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
		case v.Type() == schemaType:
			all = append(all, (*jsonschema.Schema)(v.UnsafePointer()))
		case v.Type() == reflect.TypeFor[*jsonschema.DynamicRef]():
			all = append(all, parts(v.Elem())...)
		}
	case reflect.Interface:
		if !v.IsNil() {
			all = append(all, parts(v.Elem())...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, parts(v.Field(i))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, parts(v.Index(i))...)
		}
	case reflect.Map:
		//workflowcheck:ignore what is done with them does not depend on their order
		for each := v.MapRange(); each.Next(); {
			all = append(all, parts(each.Value())...)
		}
	}
	return all
}

// costOf is the cost of finding that a value is none of those that a schema lists, in
// bytes.
func costOf(s *jsonschema.Schema) int {
	cost := 0
	if s.Enum != nil {
		cost += countValues(s.Enum.Values)
	}
	if s.Const != nil {
		cost += countValues(*s.Const)
	}
	return cost * comparePrice
}

// countValues counts the values in a value, long texts as several.
func countValues(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, elem := range v {
			n += countValues(elem)
		}
	case map[string]any:
		//workflowcheck:ignore a sum
		for name, member := range v {
			n += (len(name)+compareBytes-1)/compareBytes + countValues(member)
		}
	case string:
		n += len(v) / compareBytes
	}
	return n
}
