package starlark

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

type builtinFunc = func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

// operators are the functions by which bound replaces the interpreter's operators.
func operators() starlark.StringDict {
	ops := starlark.StringDict{opNone: starlark.None}
	define := func(name string, f builtinFunc) { ops[name] = starlark.NewBuiltin(name, f) }
	for op := syntax.PLUS; op <= syntax.GTGT; op++ {
		define(opBinary+op.String(), binaryOp(op))
		define(opInplace+op.String(), inplaceOp(op))
	}
	for _, op := range []syntax.Token{syntax.IN, syntax.NOT_IN} {
		define(opBinary+op.String(), binaryOp(op))
	}
	for _, op := range []syntax.Token{syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE} {
		define(opBinary+op.String(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			ok, err := compare(AccountOf(thread), op, args[0], args[1])
			return starlark.Bool(ok), err
		})
	}
	define(opAugment, augment)
	define(opSlice, slice)
	define(opDict, makeDict)
	define(opPairs, makePairs)
	define(opIter, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return iterable(thread, args[0]), nil
	})
	define(opAttr, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return attribute(args[0], string(args[1].(starlark.String)))
	})
	define(opStar, star)
	define(opStarStar, starStarArgs)
	define(opEnter, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		weight, err := starlark.AsInt32(args[0])
		if err != nil {
			return nil, err
		}
		return starlark.None, AccountOf(thread).Spend(weight/16, weight*elemBytes)
	})
	define(opResult, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		data, err := Encode(AccountOf(thread), args[0])
		if err != nil {
			return nil, fmt.Errorf("the result: %w", err)
		}
		return encoded{data: data}, nil
	})
	define(opSecond, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return args[1], nil
	})
	return ops
}

// encoded is the result of a script, encoded where it is returned.
type encoded struct {
	starlark.NoneType
	data json.RawMessage
}

func binaryOp(op syntax.Token) builtinFunc {
	return func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return binary(AccountOf(thread), op, args[0], args[1])
	}
}

// binary is x op y, charged.
func binary(a *Account, op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch op {
	case syntax.IN, syntax.NOT_IN:
		found, err := contains(a, x, y)
		return starlark.Bool(found == (op == syntax.IN)), err
	case syntax.PERCENT:
		if format, ok := x.(starlark.String); ok {
			return interpolate(a, format, y)
		}
	case syntax.PIPE:
		if d, ok := x.(*Dict); ok {
			return union(d, y)
		}
	case syntax.STAR:
		if err := chargeRepeat(a, x, y); err != nil {
			return nil, err
		}
	case syntax.PLUS:
		if err := chargeConcat(a, x, y); err != nil {
			return nil, err
		}
	}
	z, err := starlark.Binary(op, x, y)
	if err != nil {
		return nil, err
	}
	return a.checkInt(z)
}

func union(d *Dict, y starlark.Value) (starlark.Value, error) {
	other, ok := y.(*Dict)
	if !ok {
		return nil, fmt.Errorf("unknown binary op: dict | %s", y.Type())
	}
	c, err := d.Copy()
	if err != nil {
		return nil, err
	}
	return c, c.Update(other)
}

// chargeConcat charges x + y.
func chargeConcat(a *Account, x, y starlark.Value) error {
	switch x := x.(type) {
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			return a.Work(len(x)+len(y), len(x)+len(y)+boxBytes)
		}
	case *starlark.List:
		if y, ok := y.(*starlark.List); ok {
			return a.elements(x.Len() + y.Len())
		}
	case starlark.Tuple:
		if y, ok := y.(starlark.Tuple); ok {
			return a.elements(len(x) + len(y))
		}
	}
	return nil
}

// chargeRepeat charges x * y where one is a sequence.
func chargeRepeat(a *Account, x, y starlark.Value) error {
	n, ok := y.(starlark.Int)
	if !ok {
		if n, ok = x.(starlark.Int); !ok {
			return nil
		}
		x = y
	}
	size := 0
	switch x := x.(type) {
	case starlark.String:
		size = len(x)
	case *starlark.List:
		size = x.Len() * elemBytes
	case starlark.Tuple:
		size = len(x) * elemBytes
	default:
		return nil
	}
	times, fits := n.Int64()
	switch {
	case size == 0 || n.Sign() <= 0:
		return nil
	case !fits || times > int64(maxAtOnce/size):
		return a.Fail("memory", "repeating a %s %s times takes more memory than one operation may; the limit is %d bytes", x.Type(), Show(n), maxAtOnce)
	}
	return a.Work(size*int(times), size*int(times)+boxBytes)
}

// contains is x in y, charged.
func contains(a *Account, x, y starlark.Value) (bool, error) {
	switch y := y.(type) {
	case starlark.String:
		if err := a.Work(len(y), 0); err != nil {
			return false, err
		}
	case *starlark.List, starlark.Tuple:
		seq := y.(starlark.Indexable)
		for i := range seq.Len() {
			if err := a.Spend(1, 0); err != nil {
				return false, err
			}
			if same, err := compare(a, syntax.EQL, seq.Index(i), x); same || err != nil {
				return same, err
			}
		}
		return false, nil
	}
	found, err := starlark.Binary(syntax.IN, x, y)
	return found == starlark.True, err
}

// inplaceOp is x op= y for a variable x.
func inplaceOp(op syntax.Token) builtinFunc {
	return func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return inplace(thread, op, args[0], args[1])
	}
}

func inplace(thread *starlark.Thread, op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case *starlark.List:
		if op == syntax.PLUS {
			return x, extend(thread, x, y)
		}
	case *Dict:
		if other, ok := y.(*Dict); ok && op == syntax.PIPE {
			if err := x.checkMutable("apply |= to"); err != nil {
				return nil, err
			}
			return x, x.Update(other)
		}
	}
	return binary(AccountOf(thread), op, x, y)
}

// extend appends the elements of an iterable to a list.
func extend(thread *starlark.Thread, list *starlark.List, from starlark.Value) error {
	elems, err := Elements(thread, from)
	if err != nil {
		return err
	}
	for _, e := range elems { // from may be the list itself
		if err := list.Append(e); err != nil {
			return hinted(err)
		}
	}
	return nil
}

// hinted adds what to do to the error about a list that cannot change.
func hinted(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "frozen") {
		return fmt.Errorf("%w%s", err, frozenHint)
	}
	if strings.Contains(err.Error(), "during iteration") {
		return fmt.Errorf("%w: a loop goes through it, or branches of parallel see it, which return what they have found", err)
	}
	return err
}

// augmented are the operators that an assignment can have, as written.
var augmented = func() map[string]syntax.Token {
	ops := map[string]syntax.Token{}
	for op := syntax.PLUS; op <= syntax.GTGT; op++ {
		ops[op.String()] = op
	}
	return ops
}()

// makeDict is {k: v, …}, of the keys and values in turn.
func makeDict(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	a := AccountOf(thread)
	pairs := args[0].(starlark.Tuple)
	d := NewDict(a)
	if err := a.Spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	for i := 0; i < len(pairs); i += 2 {
		before := d.Len()
		if err := d.SetKey(pairs[i], pairs[i+1]); err != nil {
			return nil, err
		}
		if d.Len() == before {
			return nil, fmt.Errorf("duplicate key: %s", Show(pairs[i]))
		}
	}
	return d, nil
}

// makePairs makes a dict of the pairs of a comprehension, and of **kwargs.
func makePairs(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	a := AccountOf(thread)
	d := NewDict(a)
	if err := a.Spend(1, 6*entryBytes); err != nil {
		return nil, err
	}
	return d, d.Update(args[0])
}

// maxSpread bounds the elements of *args, and the entries of **kwargs.
const maxSpread = 1000

func star(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	elems, err := Elements(thread, args[0])
	if err != nil {
		return nil, fmt.Errorf("argument after *: %w", err)
	}
	if len(elems) > maxSpread {
		return nil, fmt.Errorf("argument after * has %d elements; at most %d can be passed", len(elems), maxSpread)
	}
	return starlark.Tuple(elems), nil
}

func starStarArgs(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	d, ok := args[0].(*Dict)
	if !ok {
		return nil, fmt.Errorf("argument after ** must be a dict, not %s", args[0].Type())
	}
	if d.Len() > maxSpread {
		return nil, fmt.Errorf("argument after ** has %d entries; at most %d can be passed", d.Len(), maxSpread)
	}
	return d, AccountOf(thread).Spend(1+d.Len(), d.Len()*entryBytes)
}
