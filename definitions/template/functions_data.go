package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// maxListLength bounds the arrays that functions build.
const maxListLength = 100_000

// list charges for an array of n elements that a function builds.
func (x *expansion) list(n int) error {
	if n > maxListLength {
		return fmt.Errorf("an array of more than %d elements", maxListLength)
	}
	return x.charge(n * elementPrice)
}

// numberFunctions calculate exactly with integers of any size.
var numberFunctions = map[string]function{
	"add":     {1, -1, folded(addition)},
	"mul":     {1, -1, folded(multiplication)},
	"sub":     {2, 2, folded(subtraction)},
	"div":     {2, 2, divided(division)},
	"mod":     {2, 2, divided(remainder)},
	"add1":    {1, 1, func(x *expansion, args []any) (any, error) { return folded(addition)(x, []any{args[0], int64(1)}) }},
	"max":     {1, -1, extreme(1)},
	"min":     {1, -1, extreme(-1)},
	"floor":   {1, 1, rounded(math.Floor)},
	"ceil":    {1, 1, rounded(math.Ceil)},
	"round":   {2, 2, roundTo},
	"int":     {1, 1, rounded(math.Trunc)},
	"int64":   {1, 1, rounded(math.Trunc)},
	"atoi":    {1, 1, rounded(math.Trunc)},
	"float64": {1, 1, toFloat},
	"until": {1, 1, func(x *expansion, args []any) (any, error) {
		return untilStep(x, []any{int64(0), args[0], nil})
	}},
	"untilStep": {3, 3, untilStep},
}

func folded(op operation) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		result, err := x.numberArg(args[0])
		if err != nil {
			return nil, err
		}
		for _, arg := range args[1:] {
			n, err := x.numberArg(arg)
			if err != nil {
				return nil, err
			}
			if err := x.charge(callPrice + result.words()*n.words()/8); err != nil {
				return nil, err
			}
			if result, err = op.apply(result, n); err != nil {
				return nil, err
			}
		}
		return result.value(), nil
	}
}

func divided(op operation) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		if n, err := x.numberArg(args[1]); err == nil && n.compare(number{}) == 0 {
			return nil, fmt.Errorf("division by zero")
		}
		return folded(op)(x, args)
	}
}

func extreme(sign int) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		best, err := x.numberArg(args[0])
		if err != nil {
			return nil, err
		}
		for _, arg := range args[1:] {
			n, err := x.numberArg(arg)
			if err != nil {
				return nil, err
			}
			if n.compare(best) == sign {
				best = n
			}
		}
		return best.value(), nil
	}
}

// rounded makes a function that gives an integer.
func rounded(how func(float64) float64) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		n, err := x.numberArg(args[0])
		if err != nil {
			return nil, err
		}
		if !n.isFloat {
			return n.value(), nil
		}
		i, ok := number{float: how(n.float), isFloat: true}.integer()
		if !ok {
			return nil, fmt.Errorf("%v is out of range", n.value())
		}
		return i.value(), nil
	}
}

// round rounds to a number of decimals, halves away from zero.
func roundTo(x *expansion, args []any) (any, error) {
	n, err := x.numberArg(args[0])
	if err != nil {
		return nil, err
	}
	decimals, err := x.intArg(args[1])
	if err != nil {
		return nil, err
	}
	if !n.isFloat || decimals > 300 {
		return n.value(), nil
	}
	scale := math.Pow(10, float64(decimals))
	if result := math.Round(n.float*scale) / scale; !math.IsNaN(result) && !math.IsInf(result, 0) {
		return Float(result), nil
	}
	return n.value(), nil
}

func toFloat(x *expansion, args []any) (any, error) {
	n, err := x.numberArg(args[0])
	if err != nil {
		return nil, err
	}
	f := n.float64()
	if math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number is out of range")
	}
	return Float(f), nil
}

// untilStep counts from start to before stop; without a step by one, up or
// down.
func untilStep(x *expansion, args []any) (any, error) {
	start, err := x.intArg(args[0])
	if err != nil {
		return nil, err
	}
	stop, err := x.intArg(args[1])
	if err != nil {
		return nil, err
	}
	step := 1
	if stop < start {
		step = -1
	}
	if args[2] != nil {
		if step, err = x.intArg(args[2]); err != nil {
			return nil, err
		}
	}
	if step == 0 || step > 0 && stop <= start || step < 0 && stop >= start {
		return []any{}, nil
	}
	distance := math.Abs(float64(stop)-float64(start)) / math.Abs(float64(step))
	length := int(min(math.Ceil(distance), 2*maxListLength))
	if err := x.list(length); err != nil {
		return nil, err
	}
	list := make([]any, 0, length)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		list = append(list, int64(i))
	}
	return list, nil
}

// dataFunctions work on arrays, objects and JSON. They never change what they
// are given.
var dataFunctions = map[string]function{
	"json":         {1, 1, toJSON},
	"toJson":       {1, 1, toJSON},
	"toRawJson":    {1, 1, toJSON},
	"toPrettyJson": {1, 1, toPrettyJSON},
	"fromJson":     {1, 1, fromJSON},

	"default": {2, 2, func(_ *expansion, args []any) (any, error) {
		if isTrue(args[1]) {
			return args[1], nil
		}
		return args[0], nil
	}},
	"empty": {1, 1, func(_ *expansion, args []any) (any, error) { return !isTrue(args[0]), nil }},
	"coalesce": {0, -1, func(_ *expansion, args []any) (any, error) {
		for _, arg := range args {
			if isTrue(arg) {
				return arg, nil
			}
		}
		return nil, nil
	}},
	"ternary": {3, 3, func(_ *expansion, args []any) (any, error) {
		if isTrue(args[2]) {
			return args[0], nil
		}
		return args[1], nil
	}},
	"kindOf": {1, 1, func(_ *expansion, args []any) (any, error) { return kindName(args[0]), nil }},
	"kindIs": {2, 2, func(_ *expansion, args []any) (any, error) { return args[0] == any(kindName(args[1])), nil }},
	"typeOf": {1, 1, func(_ *expansion, args []any) (any, error) { return typeName(args[0]), nil }},

	"list":    {0, -1, func(x *expansion, args []any) (any, error) { return args, x.list(len(args)) }},
	"first":   {1, 1, onList(func(l []any) any { return elementAt(l, 0) })},
	"last":    {1, 1, onList(func(l []any) any { return elementAt(l, len(l)-1) })},
	"rest":    {1, 1, onList(func(l []any) any { return l[min(1, len(l)):] })},
	"initial": {1, 1, onList(func(l []any) any { return l[:max(0, len(l)-1)] })},
	"reverse": {1, 1, onCopy(func(l []any) any {
		reversed := slices.Clone(l)
		slices.Reverse(reversed)
		return reversed
	})},
	"compact": {1, 1, onCopy(func(l []any) any {
		kept := make([]any, 0, len(l))
		for _, element := range l {
			if isTrue(element) {
				kept = append(kept, element)
			}
		}
		return kept
	})},
	"append":  {2, 2, appendTo},
	"prepend": {2, 2, prependTo},
	"concat":  {0, -1, concatenated},
	"has":     {2, 2, hasElement},
	"without": {1, -1, withoutElements},
	"uniq":    {1, 1, unique},

	"dict":           {0, -1, newDict},
	"get":            {2, 2, getMember},
	"hasKey":         {2, 2, hasKey},
	"keys":           {0, -1, objectKeys},
	"values":         {1, 1, objectValues},
	"pluck":          {1, -1, pluckMembers},
	"pick":           {1, -1, selecting(true)},
	"omit":           {1, -1, selecting(false)},
	"merge":          {1, -1, mergedObjects(false)},
	"mergeOverwrite": {1, -1, mergedObjects(true)},
	"dig":            {2, -1, digMember},
}

func toJSON(x *expansion, args []any) (any, error) {
	e := encoder{limit: MaxExpansion}
	if err := e.encode(args[0]); err != nil {
		return nil, err
	}
	return string(e.out), x.charge(x.printPrice(args[0], len(e.out)))
}

func toPrettyJSON(x *expansion, args []any) (any, error) {
	text, err := toJSON(x, args)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text.(string)), "", "  "); err != nil {
		return nil, err
	}
	return x.built(out.String())
}

func fromJSON(x *expansion, args []any) (any, error) {
	text, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("wants JSON text, got %s", Describe(args[0]))
	}
	if err := x.decodes(text); err != nil {
		return nil, err
	}
	v, err := DecodeValue([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", Excerpt(text), err)
	}
	return v, nil
}

func onList(how func([]any) any) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		list, err := listArg(args[0])
		if err != nil {
			return nil, err
		}
		return how(slices.Clip(list)), x.charge(len(list))
	}
}

// onCopy is onList where each element is taken over.
func onCopy(how func([]any) any) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		list, err := listArg(args[0])
		if err == nil {
			err = x.charge(len(list) * elementPrice)
		}
		if err != nil {
			return nil, err
		}
		return how(list), nil
	}
}

func elementAt(list []any, i int) any {
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

func appendTo(x *expansion, args []any) (any, error) {
	return concatenated(x, []any{args[0], []any{args[1]}})
}

func prependTo(x *expansion, args []any) (any, error) {
	return concatenated(x, []any{[]any{args[1]}, args[0]})
}

func concatenated(x *expansion, args []any) (any, error) {
	all := []any{}
	for _, arg := range args {
		list, err := listArg(arg)
		if err != nil {
			return nil, err
		}
		if err := x.list(len(all) + len(list)); err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func hasElement(x *expansion, args []any) (any, error) {
	list, err := listArg(args[1])
	if err != nil {
		return nil, err
	}
	return x.contains(list, args[0])
}

func (x *expansion) contains(list []any, wanted any) (bool, error) {
	for _, element := range list {
		if equal, err := x.equal(element, wanted); equal || err != nil {
			return equal, err
		}
	}
	return false, nil
}

func withoutElements(x *expansion, args []any) (any, error) {
	return x.keepUnless(args[0], func([]any) []any { return args[1:] })
}

func unique(x *expansion, args []any) (any, error) {
	return x.keepUnless(args[0], func(kept []any) []any { return kept })
}

// keepUnless gives the elements of a list that are not among the unwanted ones,
// which may depend on what was kept so far.
func (x *expansion) keepUnless(arg any, unwanted func(kept []any) []any) (any, error) {
	list, err := listArg(arg)
	if err != nil {
		return nil, err
	}
	kept := []any{}
	for _, element := range list {
		drop, err := x.contains(unwanted(kept), element)
		if err != nil {
			return nil, err
		}
		if !drop {
			kept = append(kept, element)
		}
	}
	return kept, x.list(len(kept))
}

// dict makes an object of names and values that alternate.
func newDict(x *expansion, args []any) (any, error) {
	object := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		key, err := x.textArg(args[i])
		if err != nil {
			return nil, err
		}
		object[key] = elementAt(args, i+1)
	}
	return object, x.list(len(args))
}

func getMember(x *expansion, args []any) (any, error) {
	object, err := objectArg(args[0])
	if err != nil {
		return nil, err
	}
	key, err := x.textArg(args[1])
	return object[key], err
}

func hasKey(x *expansion, args []any) (any, error) {
	object, err := objectArg(args[0])
	if err != nil {
		return nil, err
	}
	key, err := x.textArg(args[1])
	_, ok := object[key]
	return ok, err
}

// keys gives the names of the members of objects, sorted within each.
func objectKeys(x *expansion, args []any) (any, error) {
	all := []any{}
	for _, arg := range args {
		object, err := objectArg(arg)
		if err != nil {
			return nil, err
		}
		if err := x.list(len(all) + len(object)); err != nil {
			return nil, err
		}
		if err := x.charge(len(object) * sortPrice); err != nil {
			return nil, err
		}
		all = append(all, anyList(SortedKeys(object))...)
	}
	return all, nil
}

// values gives the members of an object in the order of their names.
func objectValues(x *expansion, args []any) (any, error) {
	object, err := objectArg(args[0])
	if err != nil {
		return nil, err
	}
	if err := x.charge(len(object) * sortPrice); err != nil {
		return nil, err
	}
	all := []any{}
	for _, key := range SortedKeys(object) {
		all = append(all, object[key])
	}
	return all, x.list(len(all))
}

func pluckMembers(x *expansion, args []any) (any, error) {
	key, err := x.textArg(args[0])
	if err != nil {
		return nil, err
	}
	found := []any{}
	for _, arg := range args[1:] {
		object, err := objectArg(arg)
		if err != nil {
			return nil, err
		}
		if value, ok := object[key]; ok {
			found = append(found, value)
		}
	}
	return found, x.list(len(found))
}

// selecting makes pick (keep is true) and omit.
func selecting(keep bool) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		object, err := objectArg(args[0])
		if err != nil {
			return nil, err
		}
		names, err := x.textArgs(args[1:])
		if err != nil {
			return nil, err
		}
		if err := x.charge(len(object) * (sortPrice + len(names)*elementPrice)); err != nil {
			return nil, err
		}
		selected := map[string]any{}
		for _, key := range SortedKeys(object) {
			if slices.Contains(names, key) == keep {
				selected[key] = object[key]
			}
		}
		return selected, x.list(len(object))
	}
}

// merge joins objects, and the objects in them; of two other values that have
// the same place the first stays, or the last with overwrite.
func mergedObjects(overwrite bool) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		result, err := objectArg(args[0])
		if err != nil {
			return nil, err
		}
		for _, arg := range args[1:] {
			other, err := objectArg(arg)
			if err != nil {
				return nil, err
			}
			if result, err = x.merged(result, other, overwrite, 0); err != nil {
				return nil, err
			}
		}
		return result, nil
	}
}

func (x *expansion) merged(a, b map[string]any, overwrite bool, depth int) (map[string]any, error) {
	if depth > MaxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", MaxValueDepth)
	}
	if err := x.charge((1 + len(a) + len(b)) * sortPrice); err != nil {
		return nil, err
	}
	result := make(map[string]any, len(a))
	for _, key := range SortedKeys(a) {
		result[key] = a[key]
	}
	for _, key := range SortedKeys(b) {
		inner, isObject := result[key].(map[string]any)
		other, otherToo := b[key].(map[string]any)
		switch {
		case isObject && otherToo:
			both, err := x.merged(inner, other, overwrite, depth+1)
			if err != nil {
				return nil, err
			}
			result[key] = both
		case overwrite || !isTrue(result[key]):
			result[key] = b[key]
		}
	}
	return result, nil
}

// dig reads a path of an object that comes last; the argument before it is
// what a missing value gives.
func digMember(x *expansion, args []any) (any, error) {
	n := len(args)
	object, err := objectArg(args[n-1])
	if err != nil {
		return nil, err
	}
	path, err := x.textArgs(args[:n-2])
	if err != nil {
		return nil, err
	}
	var value any = object
	for _, key := range path {
		inner, _ := value.(map[string]any)
		member, ok := inner[key]
		if !ok {
			return args[n-2], nil
		}
		value = member
	}
	return value, nil
}
