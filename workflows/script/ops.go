package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

type builtinFunc = func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

// operators are what bound puts in the place of the interpreter's own.
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
			ok, err := compare(accountOf(thread), op, args[0], args[1])
			return starlark.Bool(ok), err
		})
	}
	define(opAugment, augment)
	define(opSlice, slice)
	define(opDict, makeDict)
	define(opPairs, makePairs)
	define(opIter, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return iterable(thread, args[0])
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
		return starlark.None, accountOf(thread).spend(weight/16, weight*elemBytes)
	})
	define(opResult, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		data, err := encode(accountOf(thread), args[0])
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

// encoded is the result of a script, made JSON where it was returned.
type encoded struct {
	starlark.NoneType
	data json.RawMessage
}

func binaryOp(op syntax.Token) builtinFunc {
	return func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return binary(accountOf(thread), op, args[0], args[1])
	}
}

// binary is x op y, charged.
func binary(a *account, op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch op {
	case syntax.IN, syntax.NOT_IN:
		found, err := contains(a, x, y)
		return starlark.Bool(found == (op == syntax.IN)), err
	case syntax.PERCENT:
		if format, ok := x.(starlark.String); ok {
			return interpolate(a, format, y)
		}
	case syntax.PIPE:
		if d, ok := x.(*dict); ok {
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

func union(d *dict, y starlark.Value) (starlark.Value, error) {
	other, ok := y.(*dict)
	if !ok {
		return nil, fmt.Errorf("unknown binary op: dict | %s", y.Type())
	}
	c, err := d.copyOf()
	if err != nil {
		return nil, err
	}
	return c, c.update(other)
}

// chargeConcat charges x + y.
func chargeConcat(a *account, x, y starlark.Value) error {
	switch x := x.(type) {
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			return a.work(len(x)+len(y), len(x)+len(y)+boxBytes)
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
func chargeRepeat(a *account, x, y starlark.Value) error {
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
		return a.fail("script_memory", "repeating a %s %s times takes more memory than one operation may; the limit is %d bytes", x.Type(), shown(n), maxAtOnce)
	}
	return a.work(size*int(times), size*int(times)+boxBytes)
}

// contains is x in y, charged.
func contains(a *account, x, y starlark.Value) (bool, error) {
	switch y := y.(type) {
	case starlark.String:
		if err := a.work(len(y), 0); err != nil {
			return false, err
		}
	case *starlark.List, starlark.Tuple:
		seq := y.(starlark.Indexable)
		for i := range seq.Len() {
			if err := a.spend(1, 0); err != nil {
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
	case *dict:
		if other, ok := y.(*dict); ok && op == syntax.PIPE {
			if err := x.checkMutable("apply |= to"); err != nil {
				return nil, err
			}
			return x, x.update(other)
		}
	}
	return binary(accountOf(thread), op, x, y)
}

// extend appends the elements of an iterable to a list.
func extend(thread *starlark.Thread, list *starlark.List, from starlark.Value) error {
	elems, err := elements(thread, from)
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

// hinted says what to do about a list that cannot change.
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
	if err := accountOf(thread).work(size, size+boxBytes); err != nil {
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

// makeDict is {k: v, …}, of the keys and values in turn.
func makeDict(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	a := accountOf(thread)
	pairs := args[0].(starlark.Tuple)
	d := newDict(a)
	if err := a.spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	for i := 0; i < len(pairs); i += 2 {
		before := d.Len()
		if err := d.SetKey(pairs[i], pairs[i+1]); err != nil {
			return nil, err
		}
		if d.Len() == before {
			return nil, fmt.Errorf("duplicate key: %s", shown(pairs[i]))
		}
	}
	return d, nil
}

// makePairs makes a dict of the pairs of a comprehension, and of **kwargs.
func makePairs(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	a := accountOf(thread)
	d := newDict(a)
	if err := a.spend(1, 6*entryBytes); err != nil {
		return nil, err
	}
	return d, d.update(args[0])
}

// maxSpread bounds the elements of *args, and the entries of **kwargs.
const maxSpread = 1000

func star(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	elems, err := elements(thread, args[0])
	if err != nil {
		return nil, fmt.Errorf("argument after *: %w", err)
	}
	if len(elems) > maxSpread {
		return nil, fmt.Errorf("argument after * has %d elements; at most %d can be passed", len(elems), maxSpread)
	}
	return starlark.Tuple(elems), nil
}

func starStarArgs(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	d, ok := args[0].(*dict)
	if !ok {
		return nil, fmt.Errorf("argument after ** must be a dict, not %s", args[0].Type())
	}
	if d.Len() > maxSpread {
		return nil, fmt.Errorf("argument after ** has %d entries; at most %d can be passed", d.Len(), maxSpread)
	}
	return d, accountOf(thread).spend(1+d.Len(), d.Len()*entryBytes)
}

// compareLimit is how deeply values are compared.
const compareLimit = 50

// compare is x op y for a comparison, charged.
func compare(a *account, op syntax.Token, x, y starlark.Value) (bool, error) {
	return compareDepth(a, op, x, y, compareLimit)
}

func compareDepth(a *account, op syntax.Token, x, y starlark.Value, depth int) (bool, error) {
	switch x := x.(type) {
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			if n := min(len(x), len(y)); n > stepWork && (op != syntax.EQL && op != syntax.NEQ || len(x) == len(y)) {
				if err := a.work(n, 0); err != nil {
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
	case *dict:
		if y, ok := y.(*dict); ok {
			return compareDicts(a, op, x, y, depth)
		}
	case *record:
		if y, ok := y.(*record); ok {
			return compareRecords(a, op, x, y, depth)
		}
	}
	return starlark.CompareDepth(op, x, y, 1) // nothing that has elements
}

// deeper charges one level of a comparison.
func deeper(a *account, depth int) error {
	if depth < 1 {
		return fmt.Errorf("values are nested more than %d deep, or contain themselves: they cannot be compared", compareLimit)
	}
	return a.spend(1, 0)
}

func compareSeq(a *account, op syntax.Token, x, y starlark.Indexable, depth int) (bool, error) {
	if err := deeper(a, depth); err != nil {
		return false, err
	}
	if x.Len() != y.Len() && (op == syntax.EQL || op == syntax.NEQ) {
		return op == syntax.NEQ, nil
	}
	for i := range min(x.Len(), y.Len()) {
		if err := a.spend(1, 0); err != nil {
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

func compareDicts(a *account, op syntax.Token, x, y *dict, depth int) (bool, error) {
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
		if err := a.spend(1, 0); err != nil {
			return false, err
		}
		other, err := y.get(e.key)
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
