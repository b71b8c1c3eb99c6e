package starlark

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// FromGo converts a Go value with the types of JSON, and integers of any size.
func FromGo(a *Account, v any) (starlark.Value, error) {
	if err := a.Spend(1, entryBytes); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case string:
		return starlark.String(v), a.Work(len(v), 2*len(v))
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
			if list[i], err = FromGo(a, element); err != nil {
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
	return nil, fmt.Errorf("a %s cannot be a value of a program", strings.TrimPrefix(fmt.Sprintf("%T", v), "*"))
}

func dictFromGo(a *Account, object map[string]any) (starlark.Value, error) {
	names := make([]string, 0, len(object))
	//workflowcheck:ignore sorted
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	out := NewDict(a)
	for _, name := range names {
		v, err := FromGo(a, object[name])
		if err != nil {
			return nil, err
		}
		if err := out.SetKey(starlark.String(name), v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
