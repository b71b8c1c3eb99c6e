package view

import (
	"errors"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// condition reports whether a step runs, with the value of its condition.
func (pl *planner) condition(n *definitions.Node, d data) (Certainty, *PlannedValue, error) {
	if n.Step.Condition == "" {
		return Yes, nil, nil
	}
	run, err := n.Condition(d)
	value := planned(n.Templates.Condition, d, run, true, err)
	value.Template = n.Step.Condition
	switch {
	case errors.Is(err, template.ErrNotKnown):
		return Depends, &value, nil
	case err != nil:
		return Yes, &value, withoutField(err)
	case run:
		return Yes, &value, nil
	}
	return No, &value, nil
}

// withoutField is the error of a template without the name of its field.
func withoutField(err error) error {
	if failed, ok := errors.AsType[*template.FieldError](err); ok {
		return failed.Err
	}
	return err
}

// planned makes a PlannedValue of the value of a template, or of its error.
func planned(t *template.Template, d data, v any, ok bool, err error) PlannedValue {
	text := t.Source()
	switch {
	case errors.Is(err, template.ErrNotKnown):
		value := PlannedValue{State: Waits, Template: text, WaitsFor: t.WaitsFor(d)}
		if part := t.KnownPart(d); part != text {
			value.Partly = part
		}
		return value
	case err != nil:
		return PlannedValue{State: Fails, Template: text, Error: withoutField(err).Error()}
	case !ok:
		return PlannedValue{State: LeftOut, Template: text}
	}
	encoded, err := template.EncodeValue(v)
	if err != nil {
		return PlannedValue{State: Fails, Template: text, Error: err.Error()}
	}
	return PlannedValue{State: Known, Value: encoded}
}

// plannedAs is the value of a template for a place that takes kinds.
func plannedAs(t *template.Template, d data, kinds []string) PlannedValue {
	v, ok, err := t.ExpandAs(map[string]any(d), kinds)
	return planned(t, d, v, ok, err)
}
