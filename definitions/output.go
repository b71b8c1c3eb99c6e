package definitions

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure/definitions/template"
)

// An OutputBlock is an output block with its templates parsed.
type OutputBlock struct {
	Properties []OutputProperty
	Required   []string
}

// An OutputProperty is a template or, for objects, properties of its own.
type OutputProperty struct {
	*Property
	Name     string
	Path     string // output.summary.title
	Template *template.Template
	Inner    []OutputProperty
}

// ErrMissing is the error of a property whose value is missing.
var ErrMissing = errors.New("has no value and no default")

func compileOutput(o *Output) (*OutputBlock, error) {
	if o == nil {
		return nil, nil
	}
	properties, err := compileProperties(o.Properties, "output")
	return &OutputBlock{properties, o.Required}, err
}

func compileProperties(properties map[string]*Property, path string) ([]OutputProperty, error) {
	var compiled []OutputProperty
	for _, name := range template.SortedKeys(properties) {
		p := OutputProperty{Property: properties[name], Name: name, Path: path + "." + name}
		if p.Property == nil {
			return nil, template.InField(p.Path, errors.New("is empty; give it a type and a value"))
		}
		if p.Properties != nil {
			inner, err := compileProperties(p.Properties, p.Path)
			if err != nil {
				return nil, err
			}
			p.Inner = inner
		} else {
			t, err := compileField(p.Path, p.Value)
			if err != nil {
				return nil, err
			}
			p.Template = t
		}
		compiled = append(compiled, p)
	}
	return compiled, nil
}

// Reads gives the steps whose data the templates read.
func (o *OutputBlock) Reads() map[string]bool {
	ids := map[string]bool{}
	for _, t := range o.templates() {
		addReads(ids, t)
	}
	return ids
}

// expand gives the result, in which every required property has a value.
func (o *OutputBlock) expand(data map[string]any, standIn StandIn) (map[string]any, error) {
	result, err := expandProperties(o.Properties, data, standIn)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Required {
		if result[name] == nil {
			return nil, template.InField("output."+name, errors.New("is required and has no value"))
		}
	}
	return result, nil
}

// A StandIn is called with the path of each property that gets its default. nil = no
// call.
type StandIn func(path string)

// expandProperties gives an object of the properties that have a value. Only a string
// may have none.
func expandProperties(properties []OutputProperty, data map[string]any, standIn StandIn) (map[string]any, error) {
	object := map[string]any{}
	for _, p := range properties {
		v, err := p.Expand(data, standIn)
		switch {
		case err == nil:
			object[p.Name] = v
		case errors.Is(err, ErrMissing) && p.Type == "string":
		default:
			return nil, p.failed(err)
		}
	}
	return object, nil
}

// failed adds the property to an error, unless an inner one is there already.
func (p *OutputProperty) failed(err error) error {
	if inner, ok := errors.AsType[*template.FieldError](err); ok {
		return inner
	}
	return template.InField(p.Path, err)
}

// Expand gives the value of a property in its declared type, or its default if that
// fails.
func (p *OutputProperty) Expand(data map[string]any, standIn StandIn) (any, error) {
	v, err := p.own(data, standIn)
	if err == nil || p.Default == nil {
		return v, err
	}
	if standIn != nil {
		standIn(p.Path)
	}
	v, err = template.AsType(p.Default, p.Type)
	if err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	return v, nil
}

// own gives the value without the default.
func (p *OutputProperty) own(data map[string]any, standIn StandIn) (any, error) {
	if p.Template == nil {
		return expandProperties(p.Inner, data, standIn)
	}
	v, ok, err := p.Template.ExpandAs(data, []string{p.Type})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrMissing
	}
	return template.AsType(v, p.Type)
}
