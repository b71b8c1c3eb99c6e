package template

import (
	"fmt"
	"text/template"
)

// A function is one that templates can call. It depends on nothing but its
// arguments, changes none of them, and charges the expansion for what it reads
// and builds.
type function struct {
	min, max int // arguments; max < 0 = any number
	apply    func(c *call) any
}

// builtinFunctions are those of text/template that are used unchanged. They stop at
// the first argument that decides, which other functions cannot.
var builtinFunctions = map[string]function{
	"and": {min: 1, max: -1},
	"or":  {min: 1, max: -1},
	"not": {min: 1, max: 1},
}

// functionTable has all functions, for checking and for expanding.
var functionTable = mergeTables(compareFunctions, textFunctions, regexFunctions, numberFunctions, listFunctions, objectFunctions, valueFunctions)

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
			c := &call{x: x, args: args}
			if message := arity(name, len(args)); message != "" {
				return c.failf("%s", message), c.err
			}
			if !c.spend(callPrice) {
				return nil, c.err
			}
			return c.result(f)
		}
	}
	return bound
}

// A call is one call of a function. It keeps the first error; after that the
// methods that read arguments give nothing.
type call struct {
	x    *expansion
	args []any
	err  error
}

func (c *call) result(f function) (any, error) {
	v := f.apply(c)
	if c.err != nil {
		return nil, c.err
	}
	return v, nil
}

// ok keeps an error, and reports whether there is none yet.
func (c *call) ok(err error) bool {
	if c.err == nil {
		c.err = err
	}
	return c.err == nil
}

func (c *call) failf(format string, args ...any) any {
	c.ok(fmt.Errorf(format, args...))
	return nil
}

// spend charges for work, and reports whether the function may continue.
func (c *call) spend(work int) bool { return c.ok(c.x.charge(work)) }

// fits reports whether a result of n bytes may be built, and fails otherwise.
func (c *call) fits(n int) bool {
	if n < 0 || n > MaxExpansion {
		return c.ok(errTooLarge)
	}
	return c.err == nil
}

// built charges for a text that the function built.
func (c *call) built(s string) any {
	c.spend(len(s))
	return s
}

// maxListLength bounds the arrays that functions build.
const maxListLength = 100_000

// mayList charges for an array of n elements that the function builds.
func (c *call) mayList(n int) bool {
	if n > maxListLength {
		return c.ok(fmt.Errorf("an array of more than %d elements", maxListLength))
	}
	return c.spend(n * elementPrice)
}

// The methods below read arguments. A missing value reads as an empty text, array or
// object; as a number it is an error.

func (c *call) str(i int) string {
	if c.err != nil {
		return ""
	}
	switch v := c.args[i].(type) {
	case string:
		c.ok(c.x.reads(v))
		return v
	case []any, map[string]any:
		c.failf("wants a string, got %s", Describe(v))
		return ""
	}
	return c.printed(c.args[i])
}

// printed is a value as it is printed.
func (c *call) printed(v any) string {
	if c.err != nil {
		return ""
	}
	s, err := c.x.text(v)
	c.ok(err)
	return s
}

func (c *call) strs(from int) []string {
	texts := make([]string, 0, max(len(c.args)-from, 0))
	for i := from; i < len(c.args); i++ {
		texts = append(texts, c.str(i))
	}
	return texts
}

func (c *call) number(i int) number { return c.numberOf(c.args[i]) }

func (c *call) numberOf(v any) number {
	if c.err != nil {
		return number{}
	}
	if n, ok := numberOf(v); ok {
		return n
	}
	s, ok := v.(string)
	if !ok {
		c.failf("wants a number, got %s", Describe(v))
		return number{}
	}
	if !c.ok(c.x.readsNumber(s)) {
		return number{}
	}
	parsed, ok := parseDecimal(s)
	if !ok {
		c.failf("wants a number, got %s", Excerpt(s))
	}
	n, _ := numberOf(parsed)
	return n
}

func (c *call) integerOf(v any) number {
	n := c.numberOf(v)
	i, ok := n.integer()
	if !ok {
		c.failf("wants an integer, got %v", n.value())
	}
	return i
}

func (c *call) int(i int) int { return c.intOf(c.args[i]) }

func (c *call) intOf(v any) int {
	n := c.integerOf(v)
	i, ok := n.int()
	if !ok {
		c.failf("%v is out of range", n.value())
	}
	return i
}

func (c *call) list(i int) []any {
	if c.err != nil || c.args[i] == nil {
		return nil
	}
	list, ok := c.args[i].([]any)
	if !ok {
		c.failf("wants an array, got %s", Describe(c.args[i]))
	}
	return list
}

func (c *call) object(i int) map[string]any {
	if c.err != nil || c.args[i] == nil {
		return nil
	}
	object, ok := c.args[i].(map[string]any)
	if !ok {
		c.failf("wants an object, got %s", Describe(c.args[i]))
	}
	return object
}

// isTrue is the truth of if, and, or and not.
func isTrue(v any) bool {
	truth, _ := template.IsTrue(v)
	return truth
}
