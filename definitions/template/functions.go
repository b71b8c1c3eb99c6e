package template

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

// A function is one that templates can call. It depends on nothing but its
// arguments, changes none of them, and charges the expansion for what it
// builds.
type function struct {
	min, max int // arguments; max < 0 = any number
	call     func(x *expansion, args []any) (any, error)
}

// builtinFunctions are those of text/template that are used as they are. They
// stop at the first argument that decides, which no other function can.
var builtinFunctions = map[string]function{
	"and": {min: 1, max: -1},
	"or":  {min: 1, max: -1},
	"not": {min: 1, max: 1},
}

// functionTable is the one list of functions: for checking and for expanding.
var functionTable = mergeTables(
	comparisonFunctions, builtinReplacements, textFunctions, regexFunctions, numberFunctions, dataFunctions)

func mergeTables(tables ...map[string]function) map[string]function {
	merged := map[string]function{}
	for _, table := range tables {
		//workflowcheck:ignore no name is in two tables
		for name, f := range table {
			merged[name] = f
		}
	}
	return merged
}

func lookupFunction(name string) (function, bool) {
	if f, ok := functionTable[name]; ok {
		return f, true
	}
	f, ok := builtinFunctions[name]
	return f, ok
}

func isFunction(name string) bool {
	_, ok := lookupFunction(name)
	return ok
}

// An Arity is how many arguments a function takes; Max < 0 = any number.
type Arity struct{ Min, Max int }

// Functions gives all functions that templates can call.
func Functions() map[string]Arity {
	all := map[string]Arity{}
	//workflowcheck:ignore a map again
	for name, f := range mergeTables(functionTable, builtinFunctions) {
		all[name] = Arity{f.min, f.max}
	}
	return all
}

// arity says what is wrong with calling a function with n arguments.
func arity(name string, n int) string {
	f, _ := lookupFunction(name)
	switch {
	case n >= f.min && (f.max < 0 || n <= f.max):
		return ""
	case f.min == f.max:
		return fmt.Sprintf("%s takes %s, not %d", name, countedArguments(f.min), n)
	case n < f.min:
		return fmt.Sprintf("%s takes at least %s, not %d", name, countedArguments(f.min), n)
	}
	return fmt.Sprintf("%s takes at most %s, not %d", name, countedArguments(f.max), n)
}

func countedArguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// functions binds the table to x.
func (x *expansion) functions() template.FuncMap {
	bound := template.FuncMap{printFunc: x.print, fieldFunc: x.field, rangeFunc: x.ranged}
	//workflowcheck:ignore a map again
	for name, f := range functionTable {
		bound[name] = func(args ...any) (any, error) {
			if message := arity(name, len(args)); message != "" {
				return nil, errors.New(message)
			}
			if err := x.charge(callPrice); err != nil {
				return nil, err
			}
			return f.call(x, args)
		}
	}
	return bound
}

// built charges for a text that a function built.
func (x *expansion) built(s string) (any, error) { return s, x.charge(len(s)) }

// Functions take arguments by these. A missing value is an empty text, array
// or object; where a number is wanted it is an error.

func (x *expansion) textArg(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, x.reads(v)
	case []any, map[string]any:
		return "", fmt.Errorf("wants a string, got %s", Describe(v))
	}
	return x.text(v)
}

func (x *expansion) numberArg(v any) (number, error) {
	if n, ok := numberOf(v); ok {
		return n, nil
	}
	if s, ok := v.(string); ok {
		if err := x.readsNumber(s); err != nil {
			return number{}, err
		}
		if parsed, ok := parseDecimal(s); ok {
			n, _ := numberOf(parsed)
			return n, nil
		}
		return number{}, fmt.Errorf("wants a number, got %s", Excerpt(s))
	}
	return number{}, fmt.Errorf("wants a number, got %s", Describe(v))
}

func (x *expansion) integerArg(v any) (number, error) {
	n, err := x.numberArg(v)
	if err != nil {
		return number{}, err
	}
	i, ok := n.integer()
	if !ok {
		return number{}, fmt.Errorf("wants an integer, got %v", n.value())
	}
	return i, nil
}

func (x *expansion) intArg(v any) (int, error) {
	n, err := x.integerArg(v)
	if err != nil {
		return 0, err
	}
	i, ok := n.int()
	if !ok {
		return 0, fmt.Errorf("%v is out of range", n.value())
	}
	return i, nil
}

func listArg(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	}
	return nil, fmt.Errorf("wants an array, got %s", Describe(v))
}

func objectArg(v any) (map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("wants an object, got %s", Describe(v))
}

// isTrue is the truth of if, and, or and not.
func isTrue(v any) bool {
	truth, _ := template.IsTrue(v)
	return truth
}

// comparisonFunctions compare numbers exactly, whatever their kinds, and all
// else as text/template does.
var comparisonFunctions = map[string]function{
	"eq": {2, -1, func(x *expansion, args []any) (any, error) {
		for _, other := range args[1:] {
			equal, err := x.same(args[0], other)
			if equal || err != nil {
				return equal, err
			}
		}
		return false, nil
	}},
	"ne": {2, 2, func(x *expansion, args []any) (any, error) {
		equal, err := x.same(args[0], args[1])
		return !equal, err
	}},
	"lt": {2, 2, ordered(func(c int) bool { return c < 0 })},
	"le": {2, 2, ordered(func(c int) bool { return c <= 0 })},
	"gt": {2, 2, ordered(func(c int) bool { return c > 0 })},
	"ge": {2, 2, ordered(func(c int) bool { return c >= 0 })},
}

// same is sameValue, charged.
func (x *expansion) same(a, b any) (bool, error) {
	if err := x.compares(a, b); err != nil {
		return false, err
	}
	return sameValue(a, b)
}

// sameValue is eq of two values. A missing value is the same as another and as
// nothing else.
func sameValue(a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	n, isNumber := numberOf(a)
	m, otherToo := numberOf(b)
	if isNumber && otherToo {
		return n.compare(m) == 0, nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return a == b, nil
		}
	case bool:
		if b, ok := b.(bool); ok {
			return a == b, nil
		}
	}
	return false, fmt.Errorf("cannot compare %s and %s", Describe(a), Describe(b))
}

func ordered(holds func(int) bool) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		if err := x.compares(args[0], args[1]); err != nil {
			return nil, err
		}
		n, isNumber := numberOf(args[0])
		m, otherToo := numberOf(args[1])
		if isNumber && otherToo {
			return holds(n.compare(m)), nil
		}
		a, isText := args[0].(string)
		b, otherToo := args[1].(string)
		if isText && otherToo {
			return holds(strings.Compare(a, b)), nil
		}
		return nil, fmt.Errorf("cannot order %s and %s", Describe(args[0]), Describe(args[1]))
	}
}

// equal compares whole values, numbers by what they are worth.
func (x *expansion) equal(a, b any) (bool, error) {
	if err := x.charge(elementPrice); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if equal, err := x.equal(a[i], b[i]); !equal || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		if err := x.charge(len(a) * callPrice); err != nil {
			return false, err
		}
		for _, key := range SortedKeys(a) {
			other, ok := b[key]
			if !ok {
				return false, nil
			}
			if equal, err := x.equal(a[key], other); !equal || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if err := x.compares(a, b); err != nil {
		return false, err
	}
	equal, err := sameValue(a, b)
	return equal && err == nil, nil
}

// builtinReplacements do what text/template's functions of these names do,
// for every kind of number, and within the limits of an expansion.
var builtinReplacements = map[string]function{
	"len":   {1, 1, lengthOf},
	"index": {1, -1, indexed},
	"slice": {1, 4, sliced},
	"print": {0, -1, func(x *expansion, args []any) (any, error) {
		args, err := x.printable(args)
		if err != nil {
			return nil, err
		}
		return x.built(fmt.Sprint(args...))
	}},
	"println": {0, -1, func(x *expansion, args []any) (any, error) {
		args, err := x.printable(args)
		if err != nil {
			return nil, err
		}
		return x.built(fmt.Sprintln(args...))
	}},
	"printf":   {1, -1, formatted},
	"html":     {0, -1, escaped(template.HTMLEscapeString)},
	"js":       {0, -1, escaped(template.JSEscapeString)},
	"urlquery": {0, -1, escaped(func(s string) string { return template.URLQueryEscaper(s) })},
}

// A container is an array or an object as text for fmt, which puts spaces
// around it as it would around the array itself.
type container struct{ text string }

func (c container) String() string { return c.text }

// printable makes args safe for fmt.Sprint: missing values are empty, and
// containers are printed within the limits.
func (x *expansion) printable(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = arg
		switch arg := arg.(type) {
		case nil:
			out[i] = ""
		case float64:
			out[i] = Float(arg)
		case *big.Int:
			if err := x.spells(number{big: arg}); err != nil {
				return nil, err
			}
		case []any, map[string]any:
			text, err := x.text(arg)
			if err != nil {
				return nil, err
			}
			out[i] = container{text}
		}
	}
	return out, nil
}

func escaped(how func(string) string) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		args, err := x.printable(args)
		if err != nil {
			return nil, err
		}
		return x.built(how(fmt.Sprint(args...)))
	}
}

func lengthOf(_ *expansion, args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return int64(len(v)), nil
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, fmt.Errorf("%s has no length", Describe(args[0]))
}

func indexed(x *expansion, args []any) (any, error) {
	value := args[0]
	for _, key := range args[1:] {
		switch container := value.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("an object is indexed by a string, not by %s", Describe(key))
			}
			if err := x.reads(name); err != nil {
				return nil, err
			}
			value = container[name]
		case []any:
			i, err := position(key, len(container))
			if err != nil {
				return nil, err
			}
			value = container[i]
		case string:
			i, err := position(key, len(container))
			if err != nil {
				return nil, err
			}
			value = int64(container[i])
		default:
			return nil, fmt.Errorf("%s cannot be indexed", Describe(value))
		}
	}
	return value, nil
}

// position gives key as an index below n.
func position(key any, n int) (int, error) {
	i, ok := intOf(key)
	if !ok {
		return 0, fmt.Errorf("an array is indexed by an integer, not by %s", Describe(key))
	}
	if i < 0 || i >= n {
		return 0, fmt.Errorf("index %d is out of range: the length is %d", i, n)
	}
	return i, nil
}

func intOf(v any) (int, bool) {
	n, ok := numberOf(v)
	if !ok {
		return 0, false
	}
	return n.int()
}

func sliced(_ *expansion, args []any) (any, error) {
	size, err := lengthOf(nil, args[:1])
	if err != nil {
		return nil, err
	}
	bounds := [2]int{0, int(size.(int64))}
	for i, arg := range args[1:] {
		if i == 2 {
			return nil, errors.New("takes at most two indexes")
		}
		n, ok := intOf(arg)
		if !ok || n < 0 || n > bounds[1] {
			return nil, fmt.Errorf("index %v is out of range: the length is %d", arg, size)
		}
		bounds[i] = n
	}
	if bounds[0] > bounds[1] {
		return nil, fmt.Errorf("index %d is above index %d", bounds[0], bounds[1])
	}
	switch v := args[0].(type) {
	case string:
		return v[bounds[0]:bounds[1]], nil
	case []any:
		return v[bounds[0]:bounds[1]:bounds[1]], nil
	}
	return nil, fmt.Errorf("%s cannot be sliced", Describe(args[0]))
}

// typeName gives the Go type of v as sprig's typeOf does.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "<nil>"
	case []any:
		return "[]interface {}"
	case map[string]any:
		return "map[string]interface {}"
	}
	if n, ok := numberOf(v); ok {
		return kindOfNumber(n)
	}
	return fmt.Sprintf("%T", v)
}

func kindOfNumber(n number) string {
	if n.isFloat {
		return "float64"
	}
	return "int64"
}

// kindName gives the reflect.Kind of v as sprig's kindOf does.
func kindName(v any) string {
	if n, ok := numberOf(v); ok {
		return kindOfNumber(n)
	}
	return reflect.ValueOf(v).Kind().String()
}

// capitalized gives s with its first letter changed by how.
func capitalized(s string, how func(rune) rune) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 || r == utf8.RuneError || !unicode.IsLetter(r) {
		return s
	}
	return string(how(r)) + s[size:]
}
