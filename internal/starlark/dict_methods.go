package starlark

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

func (d *Dict) Attr(name string) (starlark.Value, error) {
	if b := dictMethods[name]; b != nil {
		return b.BindReceiver(d), nil
	}
	return nil, nil
}

func (d *Dict) AttrNames() []string {
	return []string{"clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
}

var dictMethods = map[string]*starlark.Builtin{
	"clear":      starlark.NewBuiltin("clear", dictClear),
	"get":        starlark.NewBuiltin("get", dictGet),
	"items":      starlark.NewBuiltin("items", dictItems),
	"keys":       starlark.NewBuiltin("keys", dictKeys),
	"pop":        starlark.NewBuiltin("pop", dictPop),
	"popitem":    starlark.NewBuiltin("popitem", dictPopItem),
	"setdefault": starlark.NewBuiltin("setdefault", dictSetDefault),
	"update":     starlark.NewBuiltin("update", dictUpdate),
	"values":     starlark.NewBuiltin("values", dictValues),
}

func dictClear(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*Dict)
	if err := starlark.UnpackPositionalArgs("clear", args, kwargs, 0); err != nil {
		return nil, err
	}
	if err := d.checkMutable("clear"); err != nil {
		return nil, err
	}
	d.entries, d.index, d.holes = nil, nil, 0
	return starlark.None, nil
}

func dictGet(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var key starlark.Value
	var otherwise starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs("get", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	v, err := b.Receiver().(*Dict).Lookup(key)
	if v == nil {
		v = otherwise
	}
	return v, err
}

// list makes a list with one value for each entry.
func (d *Dict) list(what func(e entry) starlark.Value, bytes int) (starlark.Value, error) {
	if err := d.account.Spend(d.Len()/4, d.Len()*bytes); err != nil {
		return nil, err
	}
	list := make([]starlark.Value, 0, d.Len())
	for _, e := range d.entries {
		if e.key != nil {
			list = append(list, what(e))
		}
	}
	return starlark.NewList(list), nil
}

func dictItems(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("items", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*Dict).list(func(e entry) starlark.Value { return starlark.Tuple{e.key, e.value} }, 3*elemBytes+boxBytes)
}

func dictKeys(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("keys", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*Dict).list(func(e entry) starlark.Value { return e.key }, elemBytes)
}

func dictValues(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("values", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*Dict).list(func(e entry) starlark.Value { return e.value }, elemBytes)
}

func dictPop(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*Dict)
	var key, otherwise starlark.Value
	if err := starlark.UnpackPositionalArgs("pop", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	if err := d.checkMutable("pop from"); err != nil {
		return nil, err
	}
	_, i, err := d.lookup(key)
	switch {
	case err != nil:
		return nil, err
	case i >= 0:
		return d.remove(i), nil
	case otherwise != nil:
		return otherwise, nil
	}
	return nil, fmt.Errorf("pop: key %s not in dict", Show(key))
}

// dictPopItem removes the first entry.
func dictPopItem(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*Dict)
	if err := starlark.UnpackPositionalArgs("popitem", args, kwargs, 0); err != nil {
		return nil, err
	}
	if err := d.checkMutable("popitem from"); err != nil {
		return nil, err
	}
	for i, e := range d.entries {
		if e.key == nil {
			continue
		}
		// Each call skips the entries deleted before it.
		if err := d.account.Spend(1+i/16, 2*elemBytes+boxBytes); err != nil {
			return nil, err
		}
		d.remove(i)
		return starlark.Tuple{e.key, e.value}, nil
	}
	return nil, errors.New("popitem: empty dict")
}

func dictSetDefault(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*Dict)
	var key starlark.Value
	var otherwise starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs("setdefault", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	if v, err := d.Lookup(key); v != nil || err != nil {
		return v, err
	}
	return otherwise, d.SetKey(key, otherwise)
}

func dictUpdate(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, b.Receiver().(*Dict).fill(thread, "update", args, kwargs)
}

// fill adds the arguments of dict(…) and update(…).
func (d *Dict) fill(thread *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if len(args) > 1 {
		return fmt.Errorf("%s: got %d arguments, want at most 1", name, len(args))
	}
	if len(args) == 1 {
		if err := d.Update(iterable(thread, args[0])); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, kv := range kwargs {
		if err := d.SetKey(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}
