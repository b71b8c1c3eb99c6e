package script

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// A Template is a template of the language of steps.
type Template interface {
	// Reads are the places of the data that it reads; an empty one is all of it.
	Reads() [][]string
	// Expand gives what it comes to with data, which is JSON: its text; for
	// kinds, types of JSON Schema, a value of the first of them that it can be, or
	// nil where it has none; for the kind any what its only expression gives. Work
	// is how much it took, in bytes.
	Expand(data []byte, kinds []string) (v any, work int, err error)
}

// templateWork is how many bytes of a template's work take the time of a step.
const templateWork = 16

// expandTemplate is the builtin template.
func expandTemplate(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var data, kind starlark.Value = starlark.None, starlark.None
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "text", &text, "data?", &data, "kind?", &kind); err != nil {
		return nil, err
	}
	kinds, err := kindsOf(thread, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bi.Name(), err)
	}
	a, r := accountOf(thread), branchOf(thread).run
	t, err := r.template(text)
	if err != nil {
		return nil, templateError(err)
	}
	read, err := selected(a, data, t.Reads())
	if err != nil {
		return nil, err
	}
	e := &encoder{account: a, fractions: true}
	if err := e.value(read); err != nil {
		return nil, fmt.Errorf("%s: data: %w", bi.Name(), err)
	}
	if err := e.charge(); err != nil {
		return nil, err
	}
	v, work, err := t.Expand(e.b.Bytes(), kinds)
	if spent := a.spend(work/templateWork, 0); spent != nil {
		return nil, spent
	}
	if err != nil {
		return nil, templateError(err)
	}
	return fromGo(a, v)
}

func templateError(err error) error {
	return &Error{Code: "template_failed", Category: "template", Message: err.Error(), Final: true}
}

// template parses a text once.
func (r *run) template(text string) (Template, error) {
	if t, ok := r.templates[text]; ok {
		return t, nil
	}
	if r.parse == nil {
		return nil, fmt.Errorf("there are no templates here")
	}
	if err := r.account.work(32*len(text), 32*len(text)); err != nil {
		return nil, err
	}
	t, err := r.parse(text)
	if err != nil {
		return nil, err
	}
	if r.templates == nil {
		r.templates = map[string]Template{}
	}
	r.templates[text] = t
	return t, nil
}

func kindsOf(thread *starlark.Thread, kind starlark.Value) ([]string, error) {
	if kind == starlark.None {
		return nil, nil
	}
	if one, ok := starlark.AsString(kind); ok {
		return []string{one}, nil
	}
	list, err := elements(thread, kind)
	if err != nil {
		return nil, fmt.Errorf("kind: %w", err)
	}
	kinds := []string{}
	for _, v := range list {
		one, ok := starlark.AsString(v)
		if !ok {
			return nil, fmt.Errorf("kind: want a type such as \"integer\", or a list of them, got %s", v.Type())
		}
		kinds = append(kinds, one)
	}
	return kinds, nil
}

// selected is as much of a value as is read, so that what a template does not
// look at costs nothing.
func selected(a *account, v starlark.Value, reads [][]string) (starlark.Value, error) {
	d, ok := v.(*dict)
	if !ok {
		return v, nil
	}
	within := map[string][][]string{}
	var names []string
	for _, path := range reads {
		if len(path) == 0 {
			return v, nil
		}
		if _, seen := within[path[0]]; !seen {
			names = append(names, path[0])
		}
		within[path[0]] = append(within[path[0]], path[1:])
	}
	if err := a.spend(1+len(names), len(names)*entryBytes); err != nil {
		return nil, err
	}
	out := newDict(a)
	for _, name := range names {
		member, err := d.get(starlark.String(name))
		if err != nil {
			return nil, err
		}
		if member == nil {
			continue
		}
		if member, err = selected(a, member, within[name]); err != nil {
			return nil, err
		}
		if err := out.SetKey(starlark.String(name), member); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fromGo makes values of what a template gave.
func fromGo(a *account, v any) (starlark.Value, error) {
	if err := a.spend(1, entryBytes); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case string:
		return starlark.String(v), a.work(len(v), 2*len(v))
	case bool:
		return starlark.Bool(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case *big.Int:
		return a.checkInt(starlark.MakeBigInt(v))
	case []any:
		list := make([]starlark.Value, len(v))
		for i, element := range v {
			var err error
			if list[i], err = fromGo(a, element); err != nil {
				return nil, err
			}
		}
		return starlark.NewList(list), nil
	case map[string]any:
		return dictFromGo(a, v)
	}
	switch r := reflect.ValueOf(v); {
	case r.CanFloat():
		return starlark.Float(r.Float()), nil
	case r.CanInt():
		return starlark.MakeInt64(r.Int()), nil
	}
	return nil, fmt.Errorf("a template gave a %s", strings.TrimPrefix(fmt.Sprintf("%T", v), "*"))
}

func dictFromGo(a *account, object map[string]any) (starlark.Value, error) {
	names := make([]string, 0, len(object))
	//workflowcheck:ignore sorted
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	out := newDict(a)
	for _, name := range names {
		v, err := fromGo(a, object[name])
		if err != nil {
			return nil, err
		}
		if err := out.SetKey(starlark.String(name), v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
