package template

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A FieldError says why a template could not be expanded to what its place
// needs.
type FieldError struct {
	Field string // where it is: condition, arguments.outer.inner, output.summary.title
	Err   error
}

// Error gives the field and what is wrong with it.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap gives what is wrong.
func (e *FieldError) Unwrap() error { return e.Err }

// InField is an error of a field; nil without one.
func InField(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{field, err}
}

// An Argument is a value whose texts are templates. One of the fields is set, or
// it is a literal.
type Argument struct {
	Template *Template
	Members  []Member   // of an object, by name
	Elements []Argument // of an array
	Literal  any
}

// A Member is one of an object.
type Member struct {
	Name  string
	Value Argument
}

// ParseArgument parses the templates in a value; path is where it is, for
// errors, which are *FieldError.
func ParseArgument(v any, path string) (Argument, error) {
	switch v := v.(type) {
	case string:
		t, err := parseText(v)
		if err != nil {
			return Argument{}, &FieldError{path, err}
		}
		return Argument{Template: t}, nil
	case []any:
		a := Argument{Elements: make([]Argument, len(v))}
		for i, element := range v {
			var err error
			if a.Elements[i], err = ParseArgument(element, AtElement(path, i)); err != nil {
				return Argument{}, err
			}
		}
		return a, nil
	case map[string]any:
		a := Argument{Members: make([]Member, 0, len(v))}
		for _, name := range SortedKeys(v) {
			value, err := ParseArgument(v[name], AtMember(path, name))
			if err != nil {
				return Argument{}, err
			}
			a.Members = append(a.Members, Member{name, value})
		}
		return a, nil
	}
	return Argument{Literal: v}, nil
}

// Templates gives the templates in a.
func (a Argument) Templates() []*Template {
	var all []*Template
	if a.Template != nil {
		all = append(all, a.Template)
	}
	for _, element := range a.Elements {
		all = append(all, element.Templates()...)
	}
	for _, m := range a.Members {
		all = append(all, m.Value.Templates()...)
	}
	return all
}

// Encode gives the value of a as JSON, for a place with a schema.
func (a Argument) Encode(data any, schema Schema, path string) (json.RawMessage, error) {
	v, _, err := a.Expand(data, schema, path)
	if err != nil {
		return nil, err
	}
	encoded, err := EncodeExpanded(v)
	return encoded, InField(path, err)
}

// maxExpanded bounds the result of all templates of a value, in bytes, which may name
// one large value many times. Runs allow less.
const maxExpanded = 2 * MaxNamedValue

// EncodeExpanded encodes the result of templates. They may name a large value many
// times, so it fails if all of it together is too large.
func EncodeExpanded(v any) (json.RawMessage, error) {
	e := encoder{limit: maxExpanded}
	err := e.encode(v)
	if errors.Is(err, errTooLarge) {
		err = fmt.Errorf("all of it together is larger than %d bytes", maxExpanded)
	}
	return e.out, err
}

// Expand gives the value of a for a place with a schema. ok is false if a is one
// expression whose value is missing.
func (a Argument) Expand(data any, schema Schema, path string) (v any, ok bool, err error) {
	switch {
	case a.Template != nil:
		v, ok, err := a.Template.ExpandAs(data, schema.Kinds())
		return schema.read(v), ok, InField(path, err)
	case a.Elements != nil:
		array := make([]any, len(a.Elements))
		for i, element := range a.Elements {
			if array[i], _, err = element.Expand(data, schema.Item(i), AtElement(path, i)); err != nil {
				return nil, false, err
			}
		}
		return array, true, nil
	case a.Members != nil:
		object := make(map[string]any, len(a.Members))
		for _, m := range a.Members {
			v, ok, err := m.Value.Expand(data, schema.Property(m.Name), AtMember(path, m.Name))
			if err != nil {
				return nil, false, err
			}
			if ok {
				object[m.Name] = v
			}
		}
		return object, true, nil
	}
	return a.Literal, true, nil
}
