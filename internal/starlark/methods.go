package starlark

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// boundMethods are the methods whose calls may take long or allocate.
var boundMethods = func() map[string]bool {
	names := map[string]bool{"in_location": true}
	for name := range stringMethods {
		names[name] = true
	}
	for name := range listMethods {
		names[name] = true
	}
	return names
}()

// attribute is v.name.
func attribute(v starlark.Value, name string) (starlark.Value, error) {
	switch v := v.(type) {
	case starlark.String:
		if b := stringMethods[name]; b != nil {
			return b.BindReceiver(v), nil
		}
		return nil, fmt.Errorf("string has no .%s method", name)
	case *starlark.List:
		if b := listMethods[name]; b != nil {
			return b.BindReceiver(v), nil
		}
	}
	if name == "in_location" {
		return nil, errNoZones
	}
	if t, ok := v.(starlarktime.Time); ok && name == "format" {
		return timeFormat.BindReceiver(t), nil
	}
	has, ok := v.(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("%s has no .%s field or method", v.Type(), name)
	}
	attr, err := has.Attr(name)
	if attr == nil && err == nil {
		err = fmt.Errorf("%s has no .%s field or method", v.Type(), name)
	}
	return attr, err
}

// foreignMembers are fields and methods that values have in other languages, and what to
// write.
var foreignMembers = map[string]string{
	"length": "len(x)", "size": "len(x)", "count": "len(x)", "push": "x.append(y)", "add": "x.append(y)", "toString": "str(x)",
	"map": "[f(y) for y in x]", "filter": "[y for y in x if f(y)]", "forEach": "for y in x:", "includes": "y in x", "contains": "y in x", "has": "y in x", "has_key": "y in x", "hasOwnProperty": "y in x",
	"toUpperCase": "x.upper()", "toLowerCase": "x.lower()", "trim": "x.strip()", "startsWith": "x.startswith(y)", "endsWith": "x.endswith(y)", "indexOf": "x.find(y)", "substring": "x[a:b]", "slice": "x[a:b]",
	"sort": "sorted(x)", "copy": "dict(x) or list(x)",
}

// noMember is the message of a value that does not have a member.
var noMember = regexp.MustCompile(`^(dict|list|string) has no \.(\w+) (?:field or )?method$`)

// textAndOther is the message of a text that is joined with something else.
var textAndOther = regexp.MustCompile(`^unknown binary op: (string \+ \w+|\w+ \+ string)$`)

// meant says what to write instead of what a message is about, as words that follow it;
// "" = not known.
func meant(message string) string {
	m := noMember.FindStringSubmatch(message)
	switch {
	case message == "unhandled index operation struct[string]":
		return `: write x.name, not x["name"]`
	case message == "unknown binary op: dict + dict":
		return ": write a | b"
	case textAndOther.MatchString(message):
		return ": str(x) makes a text of what is none"
	case m == nil:
		return ""
	case foreignMembers[m[2]] != "":
		return ": write " + foreignMembers[m[2]]
	case m[1] == "dict":
		return fmt.Sprintf(": write [%q]", m[2])
	}
	return ""
}

var timeFormat = starlark.NewBuiltin("format", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if n := len(stringArg(args, 0)); n > maxTextShow {
		return nil, fmt.Errorf("format: a layout of %d bytes; at most %d", n, maxTextShow)
	}
	if err := AccountOf(thread).Spend(4, 8*maxTextShow); err != nil {
		return nil, err
	}
	return callMethod(thread, b.Receiver().(starlarktime.Time), "format", args, kwargs)
})

// callMethod calls a method of the library.
func callMethod(thread *starlark.Thread, recv starlark.HasAttrs, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	method, err := recv.Attr(name)
	if err != nil {
		return nil, err
	}
	return method.(*starlark.Builtin).CallInternal(thread, args, kwargs)
}

// A stringCost is the cost of a method of a string: bytes that it keeps.
type stringCost func(s string, args starlark.Tuple) int

var stringMethods = func() map[string]*starlark.Builtin {
	none := func(string, starlark.Tuple) int { return boxBytes }
	cased := func(s string, _ starlark.Tuple) int { return 3*len(s) + boxBytes }
	pieces := func(count func(s string) int) stringCost {
		return func(s string, args starlark.Tuple) int {
			n := count(s)
			if sep := stringArg(args, 0); sep != "" {
				n = strings.Count(s, sep)
			}
			return (n + 1) * (2*elemBytes + boxBytes)
		}
	}
	methods := map[string]*starlark.Builtin{}
	for names, cost := range map[string]stringCost{
		"count endswith find index isalnum isalpha isdigit islower isspace istitle isupper lstrip partition removeprefix removesuffix rfind rindex rpartition rstrip startswith strip": none,
		"capitalize lower title upper": cased,
		"split rsplit":                 pieces(countFields),
		"splitlines": pieces(func(s string) int {
			return strings.Count(s, "\n") + strings.Count(s, "\r")
		}),
		"replace": func(s string, args starlark.Tuple) int {
			return len(s) + strings.Count(s, stringArg(args, 0))*len(stringArg(args, 1)) + boxBytes
		},
		"elems codepoints elem_ords codepoint_ords": none,
	} {
		for _, name := range strings.Fields(names) {
			methods[name] = starlark.NewBuiltin(name, stringMethod(cost))
		}
	}
	methods["join"] = starlark.NewBuiltin("join", stringJoin)
	methods["format"] = starlark.NewBuiltin("format", stringFormat)
	return methods
}()

func countFields(s string) int {
	n := 0
	for range strings.FieldsSeq(s) {
		n++
	}
	return n
}

func stringArg(args starlark.Tuple, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := starlark.AsString(args[i])
	return s
}

// stringMethod charges for a method of the library, then calls it.
func stringMethod(cost stringCost) builtinFunc {
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		recv := b.Receiver().(starlark.String)
		touched := len(recv)
		for i := range args {
			touched += len(stringArg(args, i))
		}
		if err := AccountOf(thread).Work(4*touched, 0); err != nil { // searching is slower than copying
			return nil, err // before the cost is counted, which takes as long as the call
		}
		if err := AccountOf(thread).Work(0, cost(string(recv), args)); err != nil {
			return nil, err
		}
		args, err := tameArgs(b.Name(), recv, args)
		if err != nil {
			return nil, err
		}
		v, err := callMethod(thread, recv, b.Name(), args, kwargs)
		if err != nil {
			return nil, err
		}
		switch b.Name() {
		case "elems", "codepoints", "elem_ords", "codepoint_ords": // lazy
			elems, err := Elements(thread, v)
			return starlark.NewList(elems), err
		}
		return v, nil
	}
}

// maxCutset bounds the argument of strip, which is searched for each character.
const maxCutset = 64

// tameArgs refuses or lowers arguments that the library does not check.
func tameArgs(name string, recv starlark.String, args starlark.Tuple) (starlark.Tuple, error) {
	switch name {
	case "strip", "lstrip", "rstrip":
		if n := len(stringArg(args, 0)); n > maxCutset {
			return nil, fmt.Errorf("%s: %d bytes of characters to take off; at most %d", name, n, maxCutset)
		}
	case "split", "rsplit":
		if len(args) != 2 {
			break
		}
		if n, ok := args[1].(starlark.Int); ok && n.Sign() > 0 {
			if most := starlark.MakeInt(len(recv)); n.BigInt().Cmp(most.BigInt()) > 0 {
				args = starlark.Tuple{args[0], most}
			}
		}
	}
	return args, nil
}

func stringJoin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	sep := string(b.Receiver().(starlark.String))
	var from starlark.Value
	if err := starlark.UnpackPositionalArgs("join", args, kwargs, 1, &from); err != nil {
		return nil, err
	}
	elems, err := Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	parts := make([]string, len(elems))
	size := 0
	for i, e := range elems {
		s, ok := starlark.AsString(e)
		if !ok {
			return nil, fmt.Errorf("join: element %d is %s, want string", i, e.Type())
		}
		parts[i] = s
		size += len(s) + len(sep)
	}
	if err := AccountOf(thread).Work(size, size+boxBytes); err != nil {
		return nil, err
	}
	return starlark.String(strings.Join(parts, sep)), nil
}

var listMethods = map[string]*starlark.Builtin{
	"append": starlark.NewBuiltin("append", listAppend),
	"extend": starlark.NewBuiltin("extend", listExtend),
	"index":  starlark.NewBuiltin("index", listIndex),
	"insert": starlark.NewBuiltin("insert", listShift),
	"pop":    starlark.NewBuiltin("pop", listShift),
	"remove": starlark.NewBuiltin("remove", listRemove),
}

func listAppend(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) != 1 || len(kwargs) > 0 {
		return nil, fmt.Errorf("append: got %d arguments, want 1", len(args)+len(kwargs))
	}
	if err := AccountOf(thread).Spend(0, 2*elemBytes); err != nil {
		return nil, err
	}
	return starlark.None, hinted(b.Receiver().(*starlark.List).Append(args[0]))
}

func listExtend(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from starlark.Value
	if err := starlark.UnpackPositionalArgs("extend", args, kwargs, 1, &from); err != nil {
		return nil, err
	}
	return starlark.None, extend(thread, b.Receiver().(*starlark.List), from)
}

// listShift charges for a method that moves elements.
func listShift(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	list := b.Receiver().(*starlark.List)
	if err := AccountOf(thread).Work(list.Len()*elemBytes/4, 2*elemBytes); err != nil {
		return nil, err
	}
	v, err := callMethod(thread, list, b.Name(), args, kwargs)
	return v, hinted(err)
}

func listIndex(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	list := b.Receiver().(*starlark.List)
	var x starlark.Value
	var start, end starlark.Value = starlark.None, starlark.None
	if err := starlark.UnpackPositionalArgs("index", args, kwargs, 1, &x, &start, &end); err != nil {
		return nil, err
	}
	from, to, err := sliceBounds(start, end, list.Len(), 1)
	if err != nil {
		return nil, err
	}
	i, err := findIn(AccountOf(thread), list, x, from, to)
	if err == nil && i < 0 {
		err = errors.New("index: value not in list")
	}
	return starlark.MakeInt(i), err
}

func findIn(a *Account, list *starlark.List, x starlark.Value, from, to int) (int, error) {
	for i := from; i < to; i++ {
		if err := a.Spend(1, 0); err != nil {
			return -1, err
		}
		if same, err := compare(a, syntax.EQL, list.Index(i), x); same || err != nil {
			return i, err
		}
	}
	return -1, nil
}

func listRemove(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	list := b.Receiver().(*starlark.List)
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs("remove", args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	i, err := findIn(AccountOf(thread), list, x, 0, list.Len())
	switch {
	case err != nil:
		return nil, err
	case i < 0:
		return nil, errors.New("remove: element not found")
	}
	if err := AccountOf(thread).Work(list.Len()*elemBytes/4, 0); err != nil {
		return nil, err
	}
	_, err = callMethod(thread, list, "pop", starlark.Tuple{starlark.MakeInt(i)}, nil)
	return starlark.None, hinted(err)
}
