package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"text/template"
)

// valueFunctions take values of any kind: JSON, defaults, kinds, and functions of
// text/template made to take every kind of number and to be charged.
var valueFunctions = map[string]function{
	"json":      {1, 1, toJSON},
	"toJson":    {1, 1, toJSON},
	"toRawJson": {1, 1, toJSON},
	"toPrettyJson": {1, 1, func(c *call) any {
		text, _ := toJSON(c).(string)
		var out bytes.Buffer
		if c.err == nil {
			c.ok(json.Indent(&out, []byte(text), "", "  "))
		}
		return c.built(out.String())
	}},
	"fromJson": {1, 1, fromJSON},

	"default": {2, 2, func(c *call) any {
		if isTrue(c.args[1]) {
			return c.args[1]
		}
		return c.args[0]
	}},
	"empty": {1, 1, func(c *call) any { return !isTrue(c.args[0]) }},
	"coalesce": {0, -1, func(c *call) any {
		for _, arg := range c.args {
			if isTrue(arg) {
				return arg
			}
		}
		return nil
	}},
	"ternary": {3, 3, func(c *call) any {
		if isTrue(c.args[2]) {
			return c.args[0]
		}
		return c.args[1]
	}},
	"fail": {1, 1, func(c *call) any {
		if message := c.str(0); message != "" {
			return c.failf("%s", message)
		}
		return c.failf("called without a reason")
	}},
	"kindOf": {1, 1, func(c *call) any { return kindName(c.args[0]) }},
	"kindIs": {2, 2, func(c *call) any { return c.args[0] == any(kindName(c.args[1])) }},

	"len":      {1, 1, func(c *call) any { return int64(c.length()) }},
	"index":    {1, -1, indexed},
	"slice":    {1, 4, sliced},
	"toString": {1, 1, func(c *call) any { return c.printed(c.args[0]) }},
	"print":    {0, -1, func(c *call) any { return c.built(fmt.Sprint(c.printable()...)) }},
	"println":  {0, -1, func(c *call) any { return c.built(fmt.Sprintln(c.printable()...)) }},
	"printf":   {1, -1, formatted},
	"html":     {0, -1, func(c *call) any { return c.built(template.HTMLEscapeString(fmt.Sprint(c.printable()...))) }},
	"js":       {0, -1, func(c *call) any { return c.built(template.JSEscapeString(fmt.Sprint(c.printable()...))) }},
	"urlquery": {0, -1, func(c *call) any { return c.built(template.URLQueryEscaper(c.printable()...)) }},
}

func toJSON(c *call) any {
	e := encoder{limit: MaxExpansion}
	if c.ok(e.encode(c.args[0])) {
		c.spend(c.x.printPrice(c.args[0], len(e.out)))
	}
	return string(e.out)
}

func fromJSON(c *call) any {
	text, ok := c.args[0].(string)
	if !ok {
		return c.failf("wants JSON text, got %s", Describe(c.args[0]))
	}
	if !c.ok(c.x.decodes(text)) {
		return nil
	}
	v, err := DecodeValue([]byte(text))
	if err != nil {
		return c.failf("%s is not JSON: %w", Excerpt(text), err)
	}
	return v
}

// A container is an array or an object as text for fmt, which puts spaces around it
// as around an array.
type container struct{ text string }

func (c container) String() string { return c.text }

// printable makes the arguments safe for fmt.Sprint: missing values are empty,
// and containers are printed within the limits.
func (c *call) printable() []any {
	out := make([]any, len(c.args))
	for i, arg := range c.args {
		out[i] = arg
		switch arg := arg.(type) {
		case nil:
			out[i] = ""
		case float64:
			out[i] = Float(arg)
		case *big.Int:
			c.ok(c.x.spells(number{big: arg}))
		case []any, map[string]any:
			out[i] = container{c.printed(arg)}
		}
	}
	if c.err != nil {
		return nil
	}
	return out
}

// length is that of the first argument.
func (c *call) length() int {
	switch v := c.args[0].(type) {
	case string:
		return len(v)
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	c.failf("%s has no length", Describe(c.args[0]))
	return 0
}

func indexed(c *call) any {
	value := c.args[0]
	for _, key := range c.args[1:] {
		if value == nil || c.err != nil {
			return nil
		}
		value = c.element(value, key)
	}
	return value
}

// element is the element or member of a value.
func (c *call) element(value, key any) any {
	switch container := value.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			return c.failf("an object is indexed by a string, not by %s", Describe(key))
		}
		c.ok(c.x.reads(name))
		return container[name]
	case []any:
		if i := c.position(key, len(container)); c.err == nil {
			return container[i]
		}
		return nil
	case string:
		if i := c.position(key, len(container)); c.err == nil {
			return int64(container[i])
		}
		return nil
	}
	return c.failf("%s cannot be indexed", Describe(value))
}

// position gives key as an index below n.
func (c *call) position(key any, n int) int {
	i, ok := intOf(key)
	switch {
	case !ok:
		c.failf("an array is indexed by an integer, not by %s", Describe(key))
	case i < 0 || i >= n:
		c.failf("index %d is out of range: the length is %d", i, n)
	}
	return i
}

func intOf(v any) (int, bool) {
	n, ok := numberOf(v)
	if !ok {
		return 0, false
	}
	return n.int()
}

func sliced(c *call) any {
	size := c.length()
	bounds := [2]int{0, size}
	for i, arg := range c.args[1:] {
		if i == 2 {
			c.ok(errors.New("takes at most two indexes"))
			return nil
		}
		n, ok := intOf(arg)
		if !ok || n < 0 || n > bounds[1] {
			return c.failf("index %v is out of range: the length is %d", arg, size)
		}
		bounds[i] = n
	}
	if bounds[0] > bounds[1] {
		return c.failf("index %d is above index %d", bounds[0], bounds[1])
	}
	switch v := c.args[0].(type) {
	case string:
		return v[bounds[0]:bounds[1]]
	case []any:
		return v[bounds[0]:bounds[1]:bounds[1]]
	}
	return c.failf("%s cannot be sliced", Describe(c.args[0]))
}

// kindName gives the reflect.Kind of v as sprig's kindOf does.
func kindName(v any) string {
	n, ok := numberOf(v)
	switch {
	case ok && n.isFloat:
		return "float64"
	case ok:
		return "int64"
	}
	return reflect.ValueOf(v).Kind().String()
}
