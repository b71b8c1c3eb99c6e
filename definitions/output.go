package definitions

import (
	"errors"
	"fmt"
	"strings"
)

// An outputBlock is an output block with its templates parsed.
type outputBlock struct {
	properties []outputProperty
	required   []string
}

// An outputProperty is a template or, for objects, properties of its own.
type outputProperty struct {
	*Property
	name     string
	path     string // output.summary.title
	template *Template
	inner    []outputProperty
}

// errMissing stands for a value that is not there.
var errMissing = errors.New("has no value and no default")

func compileOutput(o *Output) (*outputBlock, error) {
	if o == nil {
		return nil, nil
	}
	properties, err := compileProperties(o.Properties, "output")
	return &outputBlock{properties, o.Required}, err
}

func compileProperties(properties map[string]*Property, path string) ([]outputProperty, error) {
	var compiled []outputProperty
	for _, name := range sortedKeys(properties) {
		p := outputProperty{Property: properties[name], name: name, path: path + "." + name}
		if p.Property == nil {
			return nil, &TemplateError{Field: p.path, Message: "is empty; give it a type and a value"}
		}
		if p.Properties != nil {
			inner, err := compileProperties(p.Properties, p.path)
			if err != nil {
				return nil, err
			}
			p.inner = inner
		} else {
			t, err := parseTemplate(p.Value)
			if err != nil {
				return nil, &TemplateError{Field: p.path, Message: err.Message}
			}
			p.template = t
		}
		compiled = append(compiled, p)
	}
	return compiled, nil
}

// reads adds the steps whose data the templates read.
func (o *outputBlock) reads(ids map[string]bool) {
	for _, p := range o.properties {
		p.reads(ids)
	}
}

func (p *outputProperty) reads(ids map[string]bool) {
	if p.template != nil {
		p.template.reads(ids)
	}
	for _, inner := range p.inner {
		inner.reads(ids)
	}
}

// expand gives the result. Every required property has a value in it.
func (o *outputBlock) expand(data any) (map[string]any, error) {
	result, err := expandProperties(o.properties, data)
	if err != nil {
		return nil, err
	}
	for _, name := range o.required {
		if result[name] == nil {
			return nil, &TemplateError{Field: "output." + name, Message: "is required and has no value"}
		}
	}
	return result, nil
}

// expandProperties gives an object of the properties that have a value. Only
// a string may be without one.
func expandProperties(properties []outputProperty, data any) (map[string]any, error) {
	object := map[string]any{}
	for _, p := range properties {
		v, err := p.value(data)
		switch {
		case err == nil:
			object[p.name] = v
		case errors.Is(err, errMissing) && p.Type == "string":
		default:
			return nil, p.failed(err)
		}
	}
	return object, nil
}

// failed names the property, unless one within it was named already.
func (p *outputProperty) failed(err error) error {
	if inner, ok := errors.AsType[*TemplateError](err); ok {
		return inner
	}
	return &TemplateError{Field: p.path, Message: err.Error()}
}

// value gives the value of a property in its declared type. Its default
// stands in for whatever goes wrong.
func (p *outputProperty) value(data any) (any, error) {
	v, err := p.own(data)
	if err == nil || p.Default == nil {
		return v, err
	}
	v, err = inType(p.Default, p.Type)
	if err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	return v, nil
}

// own gives the value without the default.
func (p *outputProperty) own(data any) (any, error) {
	if p.template == nil {
		return expandProperties(p.inner, data)
	}
	v, ok, err := expandFor(p.template, data, []string{p.Type})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errMissing
	}
	return inType(v, p.Type)
}

// inType gives v in a declared type: as it is, or read from its text.
func inType(v any, kind string) (any, error) {
	if n, isNumber := numberOf(v); isNumber && kind == "integer" {
		if i, ok := n.integer(); ok {
			return i.value(), nil
		}
	}
	if isKind(v, kind) {
		return v, nil
	}
	text, err := printed(v)
	if err != nil {
		return nil, err
	}
	if read, ok := readKind(text, kind); ok {
		return read, nil
	}
	return nil, fmt.Errorf("%s is not %s", excerpt(text), withArticle(kind))
}

func withArticle(kind string) string {
	if strings.ContainsRune("aio", rune((kind + " ")[0])) {
		return "an " + kind
	}
	return "a " + kind
}
