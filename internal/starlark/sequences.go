package starlark

import (
	"errors"
	"fmt"
	"sort"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

func makeList(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	elems, err := one("list", thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.NewList(elems), nil
}

func makeTuple(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	elems, err := one("tuple", thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.Tuple(elems), nil
}

// extreme is min or max.
func extreme(op syntax.Token) builtinFunc {
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var key starlark.Callable
		if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "key?", &key); err != nil {
			return nil, err
		}
		elems := []starlark.Value(args)
		if len(args) == 1 {
			var err error
			if elems, err = Elements(thread, args[0]); err != nil {
				return nil, fmt.Errorf("%s: %w", b.Name(), err)
			}
		}
		if len(elems) == 0 {
			return nil, fmt.Errorf("%s: there is nothing to choose from", b.Name())
		}
		keys, err := keysOf(thread, key, elems)
		if err != nil {
			return nil, err
		}
		best := 0
		for i := range keys[1:] {
			better, err := compare(AccountOf(thread), op, keys[i+1], keys[best])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.Name(), err)
			}
			if better {
				best = i + 1
			}
		}
		return elems[best], nil
	}
}

// keysOf gives the sort keys of elements.
func keysOf(thread *starlark.Thread, key starlark.Callable, elems []starlark.Value) ([]starlark.Value, error) {
	if key == nil {
		return elems, nil
	}
	if err := AccountOf(thread).elements(len(elems)); err != nil {
		return nil, err
	}
	keys := make([]starlark.Value, len(elems))
	for i, e := range elems {
		k, err := starlark.Call(thread, key, starlark.Tuple{e}, nil)
		if err != nil {
			return nil, err
		}
		keys[i] = k
	}
	return keys, nil
}

func reversed(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	elems, err := one("reversed", thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	for i, j := 0, len(elems)-1; i < j; i, j = i+1, j-1 {
		elems[i], elems[j] = elems[j], elems[i]
	}
	return starlark.NewList(elems), nil
}

func sorted(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from starlark.Value
	var key starlark.Callable
	var reverse bool
	if err := starlark.UnpackArgs("sorted", args, kwargs, "iterable", &from, "key?", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	elems, err := Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("sorted: %w", err)
	}
	keys, err := keysOf(thread, key, elems)
	if err != nil {
		return nil, err
	}
	s := &sorting{account: AccountOf(thread), elems: elems, keys: keys, same: key == nil, reverse: reverse}
	sort.Stable(s)
	if s.err != nil {
		return nil, fmt.Errorf("sorted: %w", s.err)
	}
	return starlark.NewList(s.elems), nil
}

// A sorting orders elements by their keys. After an error it does nothing.
type sorting struct {
	account     *Account
	elems, keys []starlark.Value
	same        bool // the elements are their own keys
	reverse     bool
	err         error
}

func (s *sorting) Len() int { return len(s.elems) }

func (s *sorting) Swap(i, j int) {
	if s.err == nil {
		s.err = s.account.Spend(1, 0)
	}
	s.elems[i], s.elems[j] = s.elems[j], s.elems[i]
	if !s.same {
		s.keys[i], s.keys[j] = s.keys[j], s.keys[i]
	}
}

func (s *sorting) Less(i, j int) bool {
	if s.err != nil {
		return false
	}
	if s.reverse {
		i, j = j, i
	}
	if s.err = s.account.Spend(2, 0); s.err != nil {
		return false
	}
	var less bool
	less, s.err = compare(s.account, syntax.LT, s.keys[i], s.keys[j])
	return less
}

func sum(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from starlark.Value
	var total starlark.Value = starlark.MakeInt(0)
	if err := starlark.UnpackArgs("sum", args, kwargs, "iterable", &from, "start?", &total); err != nil {
		return nil, err
	}
	elems, err := Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("sum: %w", err)
	}
	for _, e := range elems {
		if total, err = binary(AccountOf(thread), syntax.PLUS, total, e); err != nil {
			return nil, fmt.Errorf("sum: %w", err)
		}
	}
	return total, nil
}

// unique gives the elements without repetitions.
func unique(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	elems, err := one("unique", thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	seen := NewDict(AccountOf(thread))
	for _, e := range elems {
		if err := seen.SetKey(e, starlark.None); err != nil {
			return nil, fmt.Errorf("unique: %w", err)
		}
	}
	return seen.list(func(e entry) starlark.Value { return e.key }, elemBytes)
}

func zip(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 {
		return nil, errors.New("zip takes no arguments by name")
	}
	columns := make([][]starlark.Value, len(args))
	rows := 0
	for i, arg := range args {
		var err error
		if columns[i], err = Elements(thread, arg); err != nil {
			return nil, fmt.Errorf("zip: argument %d: %w", i+1, err)
		}
		if n := len(columns[i]); i == 0 || n < rows {
			rows = n
		}
	}
	if err := AccountOf(thread).elements(rows * (len(args) + 3)); err != nil {
		return nil, err
	}
	list := make([]starlark.Value, rows)
	for i := range list {
		row := make(starlark.Tuple, len(columns))
		for j, column := range columns {
			row[j] = column[i]
		}
		list[i] = row
	}
	return starlark.NewList(list), nil
}
