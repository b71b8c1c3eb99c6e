package starlark

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// compareLimit is how deeply values are compared.
const compareLimit = 50

// compare is x op y for a comparison, charged.
func compare(a *Account, op syntax.Token, x, y starlark.Value) (bool, error) {
	return compareDepth(a, op, x, y, compareLimit)
}

func compareDepth(a *Account, op syntax.Token, x, y starlark.Value, depth int) (bool, error) {
	switch x := x.(type) {
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			if n := min(len(x), len(y)); n > stepWork && (op != syntax.EQL && op != syntax.NEQ || len(x) == len(y)) {
				if err := a.Work(n, 0); err != nil {
					return false, err
				}
			}
			return starlark.CompareDepth(op, x, y, 1)
		}
	case *starlark.List:
		if y, ok := y.(*starlark.List); ok {
			return compareSeq(a, op, x, y, depth)
		}
	case starlark.Tuple:
		if y, ok := y.(starlark.Tuple); ok {
			return compareSeq(a, op, x, y, depth)
		}
	case *Dict:
		if y, ok := y.(*Dict); ok {
			return compareDicts(a, op, x, y, depth)
		}
	case *Struct:
		if y, ok := y.(*Struct); ok {
			return compareStructs(a, op, x, y, depth)
		}
	}
	return starlark.CompareDepth(op, x, y, 1) // nothing that has elements
}

// deeper charges one level of a comparison.
func deeper(a *Account, depth int) error {
	if depth < 1 {
		return fmt.Errorf("values are nested more than %d deep, or contain themselves: they cannot be compared", compareLimit)
	}
	return a.Spend(1, 0)
}

func compareSeq(a *Account, op syntax.Token, x, y starlark.Indexable, depth int) (bool, error) {
	if err := deeper(a, depth); err != nil {
		return false, err
	}
	if x.Len() != y.Len() && (op == syntax.EQL || op == syntax.NEQ) {
		return op == syntax.NEQ, nil
	}
	for i := range min(x.Len(), y.Len()) {
		if err := a.Spend(1, 0); err != nil {
			return false, err
		}
		same, err := compareDepth(a, syntax.EQL, x.Index(i), y.Index(i), depth-1)
		switch {
		case err != nil:
			return false, err
		case same:
		case op == syntax.EQL || op == syntax.NEQ:
			return op == syntax.NEQ, nil
		default:
			return compareDepth(a, op, x.Index(i), y.Index(i), depth-1)
		}
	}
	return starlark.CompareDepth(op, starlark.MakeInt(x.Len()), starlark.MakeInt(y.Len()), 1)
}

func compareDicts(a *Account, op syntax.Token, x, y *Dict, depth int) (bool, error) {
	if op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("dict %s dict not implemented", op)
	}
	if err := deeper(a, depth); err != nil {
		return false, err
	}
	if x.Len() != y.Len() {
		return op == syntax.NEQ, nil
	}
	for _, e := range x.entries {
		if e.key == nil {
			continue
		}
		if err := a.Spend(1, 0); err != nil {
			return false, err
		}
		other, err := y.Lookup(e.key)
		if err != nil {
			return false, err
		}
		same := false
		if other != nil {
			if same, err = compareDepth(a, syntax.EQL, e.value, other, depth-1); err != nil {
				return false, err
			}
		}
		if !same {
			return op == syntax.NEQ, nil
		}
	}
	return op == syntax.EQL, nil
}

func compareStructs(a *Account, op syntax.Token, x, y *Struct, depth int) (bool, error) {
	if op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("struct %s struct not implemented", op)
	}
	if err := deeper(a, depth); err != nil {
		return false, err
	}
	same := slices.Equal(x.names, y.names)
	for i := 0; same && i < len(x.values); i++ {
		var err error
		if same, err = compareDepth(a, syntax.EQL, x.values[i], y.values[i], depth-1); err != nil {
			return false, err
		}
	}
	return same == (op == syntax.EQL), nil
}
