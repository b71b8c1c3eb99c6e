package template

import (
	"fmt"
	"strings"
)

// compareFunctions compare numbers exactly, whatever their kinds, and everything
// else as text/template does.
var compareFunctions = map[string]function{
	"eq": {2, -1, func(c *call) any {
		equal := false
		for i := 1; i < len(c.args) && !equal && c.err == nil; i++ {
			equal = c.same(c.args[0], c.args[i])
		}
		return equal
	}},
	"ne": {2, 2, func(c *call) any { return !c.same(c.args[0], c.args[1]) }},
	"lt": {2, 2, func(c *call) any { return c.order() < 0 }},
	"le": {2, 2, func(c *call) any { return c.order() <= 0 }},
	"gt": {2, 2, func(c *call) any { return c.order() > 0 }},
	"ge": {2, 2, func(c *call) any { return c.order() >= 0 }},
}

// same is sameValue, charged.
func (c *call) same(a, b any) bool {
	if !c.ok(c.x.compares(a, b)) {
		return false
	}
	same, err := sameValue(a, b)
	c.ok(err)
	return same
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

// order compares the two arguments, numbers or texts: -1, 0 or 1.
func (c *call) order() int {
	if !c.ok(c.x.compares(c.args[0], c.args[1])) {
		return 0
	}
	n, isNumber := numberOf(c.args[0])
	m, otherToo := numberOf(c.args[1])
	if isNumber && otherToo {
		return n.compare(m)
	}
	a, isText := c.args[0].(string)
	b, otherToo := c.args[1].(string)
	if !isText || !otherToo {
		c.failf("cannot order %s and %s", Describe(c.args[0]), Describe(c.args[1]))
	}
	return strings.Compare(a, b)
}

// equal compares whole values, numbers by value. Values of different types are not
// equal.
func (c *call) equal(a, b any) bool {
	if !c.spend(elementPrice) {
		return false
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && c.equalArrays(a, b)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && c.equalObjects(a, b)
	}
	if !c.ok(c.x.compares(a, b)) {
		return false
	}
	same, err := sameValue(a, b)
	return same && err == nil
}

func (c *call) equalArrays(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !c.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (c *call) equalObjects(a, b map[string]any) bool {
	if len(a) != len(b) || !c.spend(len(a)*callPrice) {
		return false
	}
	for _, key := range SortedKeys(a) {
		if other, ok := b[key]; !ok || !c.equal(a[key], other) {
			return false
		}
	}
	return true
}
