package script

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// unavailable are names of Starlark that scripts do not have, and why.
var unavailable = map[string]string{
	"set":   "use a dict, or unique(list)",
	"bytes": "use a string",
	"hash":  "compare the strings",
}

// predeclared are all names that a script may use: the language's and those
// that ask something of the world, each in one table.
var predeclared = func() starlark.StringDict {
	names := operators()
	for name, v := range constants() {
		names[name] = v
	}
	for _, b := range languageBuiltins {
		names[b.name] = starlark.NewBuiltin(b.name, b.f)
	}
	for _, b := range hostBuiltins {
		names[b.name] = starlark.NewBuiltin(b.name, b.f)
	}
	names["data"], names["run"] = starlark.None, starlark.None // of each run
	return names
}()

// Builtins are the names that every script may use, sorted.
func Builtins() []string { return builtinNames() }

// builtinNames are the names of predeclared that a script can write, sorted.
func builtinNames() []string {
	return slices.DeleteFunc(predeclared.Keys(), func(name string) bool { return strings.HasPrefix(name, "$") })
}

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

// languageBuiltins ask nothing of the world.
var languageBuiltins = []builtin{
	{"abs", library("abs")},
	{"all", every(true)},
	{"any", every(false)},
	{"bool", library("bool")},
	{"chr", library("chr")},
	{"dict", makeDictOf},
	{"dir", dir},
	{"enumerate", enumerate},
	{"fail", fail},
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
	{"template", expandTemplate},
	{"tuple", makeTuple},
	{"type", library("type")},
	{"typed", makeTyped},
	{"unique", unique},
	{"zip", zip},
}

// library is a function of the interpreter that takes nothing to speak of.
func library(name string) builtinFunc {
	b := starlark.Universe[name].(*starlark.Builtin)
	return func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return b.CallInternal(thread, args, kwargs)
	}
}

// ofText is a function of the interpreter that reads a text, which must be
// short.
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
		return accountOf(thread).checkInt(v)
	}
}

// iterable gives what a loop over v walks through.
func iterable(thread *starlark.Thread, v starlark.Value) (starlark.Value, error) {
	if p, ok := v.(*pages); ok {
		return &walk{pages: p, thread: thread}, nil
	}
	return v, nil
}

// elements are what an iterable has, charged.
func elements(thread *starlark.Thread, v starlark.Value) ([]starlark.Value, error) {
	a := accountOf(thread)
	if p, ok := v.(*pages); ok {
		return p.all(thread)
	}
	iter := starlark.Iterate(v)
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
		if len(elems) == cap(elems) { // its length was not known
			if err := a.elements(max(len(elems), 4)); err != nil {
				return nil, err
			}
		}
		elems = append(elems, x)
	}
	return elems, nil
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
	elems, err := elements(thread, from)
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
	a := accountOf(thread)
	if err := a.spend(1, 2*entryBytes); err != nil {
		return nil, err
	}
	d := newDict(a)
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
	if err := accountOf(thread).elements(3 * len(names)); err != nil {
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
	elems, err := elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("enumerate: %w", err)
	}
	if err := accountOf(thread).elements(4 * len(elems)); err != nil {
		return nil, err
	}
	for i, e := range elems {
		elems[i] = starlark.Tuple{starlark.MakeInt(start + i), e}
	}
	return starlark.NewList(elems), nil
}

// A failure is what fail(…) ends a script with.
type failure struct{ message string }

func (f *failure) Error() string { return f.message }

// joined is the text of the arguments, as print and fail show them.
func joined(thread *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) (string, error) {
	sep := " "
	if err := starlark.UnpackArgs(name, nil, kwargs, "sep?", &sep); err != nil {
		return "", err
	}
	a := accountOf(thread)
	var b strings.Builder
	for i, v := range args {
		text, err := str(a, v)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text = sep + text
		}
		if err := a.work(len(text), 2*len(text)); err != nil {
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
			if elems, err = elements(thread, args[0]); err != nil {
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
			better, err := compare(accountOf(thread), op, keys[i+1], keys[best])
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

// keysOf gives what elements are ordered by.
func keysOf(thread *starlark.Thread, key starlark.Callable, elems []starlark.Value) ([]starlark.Value, error) {
	if key == nil {
		return elems, nil
	}
	if err := accountOf(thread).elements(len(elems)); err != nil {
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

// fixed is a number with so many digits after the point, as text.
func fixed(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var number starlark.Value
	digits := 0
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "number", &number, "digits?", &digits); err != nil {
		return nil, err
	}
	if digits < 0 || digits > 100 {
		return nil, fmt.Errorf("fixed: %d digits; at most 100", digits)
	}
	if err := accountOf(thread).spend(4, 400); err != nil {
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
				return nil, accountOf(thread).fail("script_memory", "a range goes from -2**52 to 2**52")
			}
		}
	}
	return starlark.Universe["range"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

func asText(name string, f func(*account, starlark.Value) (string, error), thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs(name, args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	text, err := f(accountOf(thread), x)
	return starlark.String(text), err
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
	elems, err := elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("sorted: %w", err)
	}
	keys, err := keysOf(thread, key, elems)
	if err != nil {
		return nil, err
	}
	s := &sorting{account: accountOf(thread), elems: elems, keys: keys, same: key == nil, reverse: reverse}
	sort.Stable(s)
	if s.err != nil {
		return nil, fmt.Errorf("sorted: %w", s.err)
	}
	return starlark.NewList(s.elems), nil
}

// A sorting orders elements by their keys. After a mistake it does nothing more.
type sorting struct {
	account     *account
	elems, keys []starlark.Value
	same        bool // the elements are their own keys
	reverse     bool
	err         error
}

func (s *sorting) Len() int { return len(s.elems) }

func (s *sorting) Swap(i, j int) {
	if s.err == nil {
		s.err = s.account.spend(1, 0)
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
	if s.err = s.account.spend(2, 0); s.err != nil {
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
	elems, err := elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("sum: %w", err)
	}
	for _, e := range elems {
		if total, err = binary(accountOf(thread), syntax.PLUS, total, e); err != nil {
			return nil, fmt.Errorf("sum: %w", err)
		}
	}
	return total, nil
}

// unique gives the elements without those that are equal to one before.
func unique(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	elems, err := one("unique", thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	seen := newDict(accountOf(thread))
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
		if columns[i], err = elements(thread, arg); err != nil {
			return nil, fmt.Errorf("zip: argument %d: %w", i+1, err)
		}
		if n := len(columns[i]); i == 0 || n < rows {
			rows = n
		}
	}
	if err := accountOf(thread).elements(rows * (len(args) + 3)); err != nil {
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
