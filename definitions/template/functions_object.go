package template

import (
	"fmt"
	"maps"
	"slices"
)

// objectFunctions never change the objects that they are given.
var objectFunctions = map[string]function{
	"dict": {0, -1, func(c *call) any {
		object := map[string]any{}
		for i := 0; i < len(c.args); i += 2 {
			object[c.str(i)] = elementAt(c.args, i+1)
		}
		c.mayList(len(c.args))
		return object
	}},
	"get": {2, 2, func(c *call) any { return c.object(0)[c.str(1)] }},
	"hasKey": {2, 2, func(c *call) any {
		_, ok := c.object(0)[c.str(1)]
		return ok
	}},
	"keys": {0, -1, func(c *call) any {
		all := []any{}
		for i := range c.args {
			object := c.object(i)
			if !c.mayList(len(all)+len(object)) || !c.spend(len(object)*sortPrice) {
				return nil
			}
			all = append(all, anyList(SortedKeys(object))...)
		}
		return all
	}},
	"values": {1, 1, func(c *call) any {
		object := c.object(0)
		if !c.mayList(len(object)) || !c.spend(len(object)*sortPrice) {
			return nil
		}
		all := []any{}
		for _, key := range SortedKeys(object) {
			all = append(all, object[key])
		}
		return all
	}},
	"pick": {1, -1, func(c *call) any { return c.choose(true) }},
	"omit": {1, -1, func(c *call) any { return c.choose(false) }},
	"pluck": {1, -1, func(c *call) any {
		found := []any{}
		for i := 1; i < len(c.args); i++ {
			if member, ok := c.object(i)[c.str(0)]; ok {
				found = append(found, member)
			}
		}
		c.mayList(len(found))
		return found
	}},
	"merge":          {1, -1, func(c *call) any { return c.mergeAll(false) }},
	"mergeOverwrite": {1, -1, func(c *call) any { return c.mergeAll(true) }},
	"dig":            {2, -1, dig},
}

// choose gives an object with the members that are named, or with the others.
func (c *call) choose(named bool) any {
	object, names := c.object(0), c.strs(1)
	if !c.mayList(len(object)) || !c.spend(len(object)*(sortPrice+len(names)*elementPrice)) {
		return nil
	}
	chosen := map[string]any{}
	for _, key := range SortedKeys(object) {
		if slices.Contains(names, key) == named {
			chosen[key] = object[key]
		}
	}
	return chosen
}

func (c *call) mergeAll(overwrite bool) any {
	result := c.object(0)
	for i := 1; i < len(c.args); i++ {
		result = c.merge(result, c.object(i), overwrite, 0)
	}
	return result
}

// merge joins objects, and the objects in them; of two other values in the same
// place the last stays with overwrite, otherwise the first, unless it counts as
// false.
func (c *call) merge(a, b map[string]any, overwrite bool, depth int) map[string]any {
	if depth > MaxValueDepth {
		c.ok(fmt.Errorf("nested more than %d deep", MaxValueDepth))
	}
	if !c.spend((1 + len(a) + len(b)) * sortPrice) {
		return nil
	}
	result := maps.Clone(a)
	if result == nil {
		result = map[string]any{}
	}
	for _, key := range SortedKeys(b) {
		inner, isObject := result[key].(map[string]any)
		other, otherToo := b[key].(map[string]any)
		switch {
		case isObject && otherToo:
			result[key] = c.merge(inner, other, overwrite, depth+1)
		case overwrite || !isTrue(result[key]):
			result[key] = b[key]
		}
	}
	return result
}

// dig reads a path in the last argument, an object; the argument before is the default.
func dig(c *call) any {
	n := len(c.args)
	var value any = c.object(n - 1)
	for i := range n - 2 {
		inner, _ := value.(map[string]any)
		member, ok := inner[c.str(i)]
		if !ok {
			return c.args[n-2]
		}
		value = member
	}
	return value
}
