package starlark

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

func constants() starlark.StringDict {
	return starlark.StringDict{
		"None": starlark.None, "True": starlark.True, "False": starlark.False,
		"math": mathModule(),
		"time": timeModule(),
		"json": &starlarkstruct.Module{Name: "json", Members: starlark.StringDict{
			"encode": starlark.NewBuiltin("json.encode", jsonEncode),
			"decode": starlark.NewBuiltin("json.decode", jsonDecode),
			"indent": starlark.NewBuiltin("json.indent", jsonIndent),
		}},
	}
}

// A builtin is a row of a table of functions.
type builtin struct {
	name string
	f    builtinFunc
}

// builtins are the functions of the language.
var builtins = []builtin{
	{"abs", library("abs")},
	{"all", every(true)},
	{"any", every(false)},
	{"bool", library("bool")},
	{"chr", library("chr")},
	{"dict", makeDictOf},
	{"dir", dir},
	{"enumerate", enumerate},
	{"fixed", fixed},
	{"float", ofText("float", 400)},
	{"getattr", getattr},
	{"hasattr", hasattr},
	{"int", ofText("int", 200)},
	{"len", library("len")},
	{"list", makeList},
	{"max", extreme(syntax.GT)},
	{"min", extreme(syntax.LT)},
	{"ord", ofText("ord", 400)},
	{"range", makeRange},
	{"repr", func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return asText("repr", repr, thread, args, kwargs)
	}},
	{"reversed", reversed},
	{"sorted", sorted},
	{"str", func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return asText("str", str, thread, args, kwargs)
	}},
	{"struct", makeStruct},
	{"sum", sum},
	{"tuple", makeTuple},
	{"type", library("type")},
	{"unique", unique},
	{"zip", zip},
}

// library is a function of the interpreter with a negligible cost.
func library(name string) builtinFunc {
	b := starlark.Universe[name].(*starlark.Builtin)
	return func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return b.CallInternal(thread, args, kwargs)
	}
}

// ofText is a function of the interpreter that reads a short text.
func ofText(name string, limit int) builtinFunc {
	f := library(name)
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if n := len(stringArg(args, 0)); n > limit {
			return nil, fmt.Errorf("%s: a text of %d bytes; at most %d", name, n, limit)
		}
		v, err := f(thread, b, args, kwargs)
		if err != nil {
			return nil, err
		}
		return AccountOf(thread).checkInt(v)
	}
}

// A Sequence is a value of the host that gives its elements to one thread at a time. An
// iterator that fails calls Stop.
type Sequence interface {
	starlark.Value
	On(thread *starlark.Thread) starlark.Iterable
}

// iterable gives the iterable of a loop over v.
func iterable(thread *starlark.Thread, v starlark.Value) starlark.Value {
	if s, ok := v.(Sequence); ok {
		return s.On(thread)
	}
	return v
}

// Elements gives the elements of an iterable, and charges for them.
func Elements(thread *starlark.Thread, v starlark.Value) ([]starlark.Value, error) {
	a := AccountOf(thread)
	iter := starlark.Iterate(iterable(thread, v))
	if iter == nil {
		return nil, fmt.Errorf("%s value is not iterable", v.Type())
	}
	defer iter.Done()
	var elems []starlark.Value
	if n := starlark.Len(v); n >= 0 {
		if err := a.elements(n); err != nil {
			return nil, err
		}
		elems = make([]starlark.Value, 0, n)
	}
	var x starlark.Value
	for iter.Next(&x) {
		if len(elems) == cap(elems) { // its length was unknown
			if err := a.elements(max(len(elems), 4)); err != nil {
				return nil, err
			}
		}
		elems = append(elems, x)
	}
	return elems, stateOf(thread).pending
}

// one unpacks a single argument that is iterable.
func one(name string, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) ([]starlark.Value, error) {
	var from starlark.Value
	if err := starlark.UnpackPositionalArgs(name, args, kwargs, 0, &from); err != nil {
		return nil, err
	}
	if from == nil {
		return nil, nil
	}
	elems, err := Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return elems, nil
}

func every(want starlark.Bool) builtinFunc {
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		elems, err := one(b.Name(), thread, args, kwargs)
		if err != nil {
			return nil, err
		}
		for _, e := range elems {
			if e.Truth() != want {
				return !want, nil
			}
		}
		return want, nil
	}
}

func makeDictOf(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	a := AccountOf(thread)
	if err := a.Spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	d := NewDict(a)
	return d, d.fill(thread, "dict", args, kwargs)
}

func dir(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs("dir", args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	var names []string
	if has, ok := x.(starlark.HasAttrs); ok {
		names = has.AttrNames()
	}
	if err := AccountOf(thread).elements(3 * len(names)); err != nil {
		return nil, err
	}
	sort.Strings(names)
	list := make([]starlark.Value, len(names))
	for i, name := range names {
		list[i] = starlark.String(name)
	}
	return starlark.NewList(list), nil
}

func enumerate(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from starlark.Value
	var start int
	if err := starlark.UnpackArgs("enumerate", args, kwargs, "iterable", &from, "start?", &start); err != nil {
		return nil, err
	}
	elems, err := Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("enumerate: %w", err)
	}
	if err := AccountOf(thread).elements(4 * len(elems)); err != nil {
		return nil, err
	}
	for i, e := range elems {
		elems[i] = starlark.Tuple{starlark.MakeInt(start + i), e}
	}
	return starlark.NewList(elems), nil
}

// Joined is the text of arguments as print shows them, and of sep.
func Joined(thread *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) (string, error) {
	sep := " "
	if err := starlark.UnpackArgs(name, nil, kwargs, "sep?", &sep); err != nil {
		return "", err
	}
	a := AccountOf(thread)
	var b strings.Builder
	for i, v := range args {
		text, err := str(a, v)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text = sep + text
		}
		if err := a.Work(len(text), 2*len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func getattr(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, otherwise starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("getattr", args, kwargs, 2, &x, &name, &otherwise); err != nil {
		return nil, err
	}
	v, err := attribute(x, name)
	if err != nil && otherwise != nil {
		return otherwise, nil
	}
	return v, err
}

func hasattr(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("hasattr", args, kwargs, 2, &x, &name); err != nil {
		return nil, err
	}
	_, err := attribute(x, name)
	return starlark.Bool(err == nil), nil
}

// fixed is a number as text, with a given number of decimals.
func fixed(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var number starlark.Value
	digits := 0
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "number", &number, "digits?", &digits); err != nil {
		return nil, err
	}
	if digits < 0 || digits > 100 {
		return nil, fmt.Errorf("fixed: %d digits; at most 100", digits)
	}
	if err := AccountOf(thread).Spend(4, 400); err != nil {
		return nil, err
	}
	if i, ok := number.(starlark.Int); ok {
		text := i.String()
		if digits > 0 {
			text += "." + strings.Repeat("0", digits)
		}
		return starlark.String(text), nil
	}
	f, ok := number.(starlark.Float)
	if !ok {
		return nil, fmt.Errorf("fixed: want a number, got %s", number.Type())
	}
	return starlark.String(strconv.FormatFloat(float64(f), 'f', digits, 64)), nil
}

// maxRange bounds the numbers of a range, so that no arithmetic on them
// overflows.
const maxRange = 1 << 52

func makeRange(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	for _, arg := range args {
		if i, ok := arg.(starlark.Int); ok {
			if n, fits := i.Int64(); !fits || n > maxRange || n < -maxRange {
				return nil, AccountOf(thread).Fail("memory", "a range goes from -2**52 to 2**52")
			}
		}
	}
	return starlark.Universe["range"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

func asText(name string, f func(*Account, starlark.Value) (string, error), thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs(name, args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	text, err := f(AccountOf(thread), x)
	return starlark.String(text), err
}
