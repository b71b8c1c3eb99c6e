package script

import (
	"fmt"

	"go.starlark.net/starlark"

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// A Template is a template of the language of steps.
type Template interface {
	// Reads gives the paths of the data that it reads; an empty path is all of it.
	Reads() [][]string
	// Expand expands it with data, which is JSON. Without kinds v is its text; with
	// kinds, types of JSON Schema, a value of the first that fits, or nil if the
	// value is missing; with the kind any the value of its only expression. Work is
	// the effort, in bytes.
	Expand(data []byte, kinds []string) (v any, work int, err error)
}

// templateWork is how many bytes of a template's work count as one step.
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
	a, r := bounded.AccountOf(thread), branchOf(thread).run
	t, err := r.template(text)
	if err != nil {
		return nil, templateError(err)
	}
	read, err := selected(a, data, t.Reads())
	if err != nil {
		return nil, err
	}
	encoded, err := bounded.EncodeExact(a, read)
	if err != nil {
		return nil, fmt.Errorf("%s: data: %w", bi.Name(), err)
	}
	v, work, err := t.Expand(encoded, kinds)
	if spent := a.Spend(work/templateWork, 0); spent != nil {
		return nil, spent
	}
	if err != nil {
		return nil, templateError(err)
	}
	return bounded.FromGo(a, v)
}

func templateError(err error) error {
	return &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Message: err.Error(), Final: true}
}

// template parses a text, once in a run.
func (r *run) template(text string) (Template, error) {
	if t, ok := r.templates[text]; ok {
		return t, nil
	}
	if r.parse == nil {
		return nil, fmt.Errorf("there are no templates here")
	}
	if err := r.Account.Work(32*len(text), 32*len(text)); err != nil {
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
	list, err := bounded.Elements(thread, kind)
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

// selected copies the parts of a value that a template reads, so that the rest costs
// nothing.
func selected(a *bounded.Account, v starlark.Value, reads [][]string) (starlark.Value, error) {
	d, ok := v.(*bounded.Dict)
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
	if err := a.Spend(1+len(names), 100*len(names)); err != nil {
		return nil, err
	}
	out := bounded.NewDict(a)
	for _, name := range names {
		member, err := d.Lookup(starlark.String(name))
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
