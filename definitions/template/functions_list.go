package template

import (
	"math"
	"slices"
)

// listFunctions never change the arrays that they are given. The arrays that
// first, last and rest give share their elements, so they cost little.
var listFunctions = map[string]function{
	"list": {0, -1, func(c *call) any {
		c.mayList(len(c.args))
		return c.args
	}},
	"first": {1, 1, func(c *call) any { return elementAt(c.read(), 0) }},
	"last": {1, 1, func(c *call) any {
		list := c.read()
		return elementAt(list, len(list)-1)
	}},
	"rest": {1, 1, func(c *call) any {
		list := c.read()
		return slices.Clip(list[min(1, len(list)):])
	}},
	"initial": {1, 1, func(c *call) any {
		list := c.read()
		return slices.Clip(list[:max(0, len(list)-1)])
	}},
	"reverse": {1, 1, func(c *call) any {
		if list := c.list(0); c.spend(len(list) * elementPrice) {
			reversed := append([]any{}, list...)
			slices.Reverse(reversed)
			return reversed
		}
		return nil
	}},
	"compact": {1, 1, func(c *call) any {
		kept := []any{}
		if list := c.list(0); c.spend(len(list) * elementPrice) {
			for _, element := range list {
				if isTrue(element) {
					kept = append(kept, element)
				}
			}
		}
		return kept
	}},
	"append":  {2, 2, func(c *call) any { return c.concat(c.list(0), c.args[1:]) }},
	"prepend": {2, 2, func(c *call) any { return c.concat(c.args[1:], c.list(0)) }},
	"concat": {0, -1, func(c *call) any {
		lists := make([][]any, len(c.args))
		for i := range lists {
			lists[i] = c.list(i)
		}
		return c.concat(lists...)
	}},
	"has":     {2, 2, func(c *call) any { return c.contains(c.list(1), c.args[0]) }},
	"without": {1, -1, func(c *call) any { return c.keepUnless(func([]any) []any { return c.args[1:] }) }},
	"uniq":    {1, 1, func(c *call) any { return c.keepUnless(func(kept []any) []any { return kept }) }},
	"until": {1, 1, func(c *call) any {
		stop := c.int(0)
		return c.count(0, stop, map[bool]int{true: -1, false: 1}[stop < 0])
	}},
	"untilStep": {3, 3, func(c *call) any { return c.count(c.int(0), c.int(1), c.int(2)) }},
}

// read gives the first argument, a list, and charges for reading it.
func (c *call) read() []any {
	list := c.list(0)
	c.spend(len(list))
	return list
}

func elementAt(list []any, i int) any {
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

func (c *call) concat(lists ...[]any) any {
	all := []any{}
	for _, list := range lists {
		if !c.mayList(len(all) + len(list)) {
			return nil
		}
		all = append(all, list...)
	}
	return all
}

func (c *call) contains(list []any, wanted any) bool {
	for _, element := range list {
		if c.equal(element, wanted) || c.err != nil {
			return true
		}
	}
	return false
}

// keepUnless gives the elements of the list that are not among the unwanted ones,
// which may depend on the elements kept so far.
func (c *call) keepUnless(unwanted func(kept []any) []any) any {
	kept := []any{}
	for _, element := range c.list(0) {
		if !c.contains(unwanted(kept), element) {
			kept = append(kept, element)
		}
	}
	c.mayList(len(kept))
	return kept
}

// count counts from start to before stop.
func (c *call) count(start, stop, step int) any {
	list := []any{}
	if c.err != nil || step == 0 || step > 0 && stop <= start || step < 0 && stop >= start {
		return list
	}
	distance := math.Abs(float64(stop)-float64(start)) / math.Abs(float64(step))
	if !c.mayList(int(min(math.Ceil(distance), 2*maxListLength))) {
		return nil
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		list = append(list, int64(i))
	}
	return list
}
