package convert

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// arguments is the dict of the arguments of a call of a tool.
func (d *dot) arguments(field string, args map[string]any, tool definitions.Tool, known bool) (string, error) {
	var place template.Schema
	if known {
		var err error
		if place, err = template.SchemaOf(tool.InputSchema); err != nil {
			return "", d.fail(field, "%s", err)
		}
	}
	e, err := d.argument(field, args, place, !known)
	return e.code, err
}

// argument is the expression for a value as a step writes it.
func (d *dot) argument(field string, v any, place template.Schema, typed bool) (expression, error) {
	switch v := v.(type) {
	case string:
		if typed {
			code, err := d.typed(field, v)
			return expression{code: code, sure: true}, err // the run leaves it out
		}
		return d.value(field, v, place.Kinds())
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			e, err := d.argument(fmt.Sprintf("%s[%d]", field, i), element, place.Item(i), typed)
			if err != nil {
				return e, err
			}
			parts[i] = e.code
		}
		return expression{code: "[" + strings.Join(parts, ", ") + "]", sure: true}, nil
	case map[string]any:
		return d.object(field, v, place, typed)
	}
	code, err := d.converter.literal(v)
	return expression{code: code, sure: true}, err
}

// object leaves out members without a value, and keeps null.
func (d *dot) object(field string, v map[string]any, place template.Schema, typed bool) (expression, error) {
	var parts, nulls []string
	missing := false
	for _, name := range template.SortedKeys(v) {
		if v[name] == nil {
			nulls = append(nulls, starlarkText(name)+": None")
			continue
		}
		e, err := d.argument(field+"."+name, v[name], place.Property(name), typed)
		if err != nil {
			return e, err
		}
		missing = missing || !e.sure
		parts = append(parts, starlarkText(name)+": "+e.code)
	}
	object := "{" + strings.Join(parts, ", ") + "}"
	if missing {
		object = "given(" + object + ")"
	}
	if nulls != nil {
		object += " | {" + strings.Join(nulls, ", ") + "}"
	}
	return expression{code: object, sure: true}, nil
}
