package starlark

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// augment is x[i] op= y.
func augment(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	x, i, op, y := args[0], args[1], augmented[string(args[2].(starlark.String))], args[3]
	old, err := index(x, i)
	if err != nil {
		return nil, err
	}
	v, err := inplace(thread, op, old, y)
	if err != nil {
		return nil, err
	}
	return starlark.None, setIndex(x, i, v)
}

// index is x[i].
func index(x, i starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Mapping:
		v, _, err := x.Get(i)
		return v, err
	case starlark.Indexable:
		n, err := position(x, i)
		if err != nil {
			return nil, err
		}
		return x.Index(n), nil
	}
	return nil, fmt.Errorf("unhandled index operation %s[%s]", x.Type(), i.Type())
}

func setIndex(x, i, v starlark.Value) error {
	switch x := x.(type) {
	case starlark.HasSetKey:
		return x.SetKey(i, v)
	case starlark.HasSetIndex:
		n, err := position(x, i)
		if err != nil {
			return err
		}
		return hinted(x.SetIndex(n, v))
	}
	return fmt.Errorf("%s value does not support item assignment", x.Type())
}

// position is an index of x, which may count from the end.
func position(x starlark.Indexable, i starlark.Value) (int, error) {
	n, err := starlark.AsInt32(i)
	if err != nil {
		return 0, fmt.Errorf("%s index: %w", x.Type(), err)
	}
	at := n
	if at < 0 {
		at += x.Len()
	}
	if at < 0 || at >= x.Len() {
		return 0, fmt.Errorf("%s index %d out of range (it has %d elements)", x.Type(), n, x.Len())
	}
	return at, nil
}

// slice is x[lo:hi:step].
func slice(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	x, ok := args[0].(starlark.Sliceable)
	if !ok {
		return nil, fmt.Errorf("invalid slice operand %s", args[0].Type())
	}
	step := 1
	if args[3] != starlark.None {
		var err error
		if step, err = starlark.AsInt32(args[3]); err != nil {
			return nil, fmt.Errorf("invalid slice step: %w", err)
		}
		if step == 0 {
			return nil, errors.New("zero is not a valid slice step")
		}
	}
	start, end, err := sliceBounds(args[1], args[2], x.Len(), step)
	if err != nil {
		return nil, err
	}
	n := max((end-start)/step, 0) + 1
	size := n
	if _, text := x.(starlark.String); !text {
		size = n * elemBytes
	} else if step == 1 {
		size = 0 // it shares the text
	}
	if err := AccountOf(thread).Work(size, size+boxBytes); err != nil {
		return nil, err
	}
	return x.Slice(start, end, step), nil
}

func sliceBounds(lo, hi starlark.Value, n, step int) (start, end int, err error) {
	least, most := 0, n
	if step < 0 {
		least, most = -1, n-1
	}
	bound := func(v starlark.Value, otherwise int) (int, error) {
		if v == starlark.None {
			return otherwise, nil
		}
		i, err := starlark.AsInt32(v)
		if err != nil {
			return 0, fmt.Errorf("invalid slice index: %w", err)
		}
		if i < 0 {
			i += n
		}
		return min(max(i, least), most), nil
	}
	first, last := least, most
	if step < 0 {
		first, last = most, least
	}
	if start, err = bound(lo, first); err != nil {
		return 0, 0, err
	}
	if end, err = bound(hi, last); err != nil {
		return 0, 0, err
	}
	if step > 0 {
		end = max(start, end)
	} else {
		end = min(start, end)
	}
	return start, end, nil
}
