package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
)

// A FormSchema is the JSON Schema of the answer to an elicitation. Its objects keep the
// order in which they were written, which is the order of the fields. nil = no fields.
type FormSchema json.RawMessage

// NewFormSchema takes a schema as JSON. It is an error if that is not an object, or has
// a number that cannot be represented.
func NewFormSchema(raw []byte) (FormSchema, error) {
	schema, err := inOrder(raw, 0)
	if err == nil && !bytes.HasPrefix(schema, []byte("{")) {
		err = fmt.Errorf("must be an object, not %s", template.Excerpt(string(schema)))
	}
	return FormSchema(schema), err
}

// MarshalJSON gives the schema as it is.
func (s FormSchema) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	return s, nil
}

// UnmarshalJSON takes what MarshalJSON gave.
func (s *FormSchema) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*s = nil
		return nil
	}
	schema, err := NewFormSchema(raw)
	if err != nil {
		return fmt.Errorf("the schema of an elicitation: %w", err)
	}
	*s = schema
	return nil
}

// Form is the schema that clients get. MCP requires type and properties, which a
// definition may leave out.
func (s FormSchema) Form() json.RawMessage {
	form, _ := ParseJSONObject(s) // it is an object, or nil
	if form.Get("properties") == nil {
		form.Set("properties", json.RawMessage("{}"))
	}
	if form.Get("type") == nil {
		form.Set("type", json.RawMessage(`"object"`))
	}
	return form.JSON()
}

// members are those of the schema, without their order.
func (s FormSchema) members() map[string]any {
	members, _ := decodeObject(json.RawMessage(s)) // it is an object
	return members
}

// inOrder writes JSON as EncodeValue does, but keeps the order of objects.
func inOrder(raw []byte, depth int) (json.RawMessage, error) {
	if depth > template.MaxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", template.MaxValueDepth)
	}
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("{")):
		object, err := ParseJSONObject(raw)
		if err != nil {
			return nil, err
		}
		for i := range object {
			if object[i].Value, err = inOrder(object[i].Value, depth+1); err != nil {
				return nil, err
			}
		}
		return object.JSON(), nil
	case bytes.HasPrefix(raw, []byte("[")):
		var elems []json.RawMessage
		if err := json.Unmarshal(raw, &elems); err != nil {
			return nil, err
		}
		var err error
		for i := range elems {
			if elems[i], err = inOrder(elems[i], depth+1); err != nil {
				return nil, err
			}
		}
		return list(elems), nil
	}
	value, err := template.DecodeValue(raw)
	if err != nil {
		return nil, err
	}
	return template.EncodeValue(value)
}

func list(elems []json.RawMessage) json.RawMessage {
	parts := make([][]byte, len(elems))
	for i, elem := range elems {
		parts[i] = elem
	}
	return append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
}

// orderedJSON is any value of a FormSchema.
type orderedJSON json.RawMessage

var (
	formSchemaType  = reflect.TypeFor[FormSchema]()
	orderedJSONType = reflect.TypeFor[orderedJSON]()
)

// ordered reads a node as JSON whose objects keep the order of the mappings.
func (d *decoder) ordered(n *yaml.Node, v reflect.Value, path string) {
	member := func(decode func(reflect.Value)) json.RawMessage {
		var value orderedJSON
		decode(reflect.ValueOf(&value).Elem())
		if value == nil {
			return json.RawMessage("null")
		}
		return json.RawMessage(value)
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := JSONObject{}
		for _, p := range d.pairs(n, path) {
			object = append(object, JSONMember{Name: p.key, Value: member(func(v reflect.Value) { d.member(p, v, template.AtMember(path, p.key)) })})
		}
		v.SetBytes(object.JSON())
	case yaml.SequenceNode:
		elems := make([]json.RawMessage, len(n.Content))
		for i, c := range n.Content {
			elems[i] = member(func(v reflect.Value) { d.decode(c, v, template.AtElement(path, i)) })
		}
		v.SetBytes(list(elems))
	default:
		d.raw(n, v, path)
	}
}
