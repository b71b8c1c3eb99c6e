package template

import (
	"fmt"
	"math/big"
)

// print ends every printed pipeline.
func (x *expansion) print(v any) (string, error) {
	if x.native {
		x.value = v
		return "", nil
	}
	return x.text(v)
}

// ranged charges for a range: text/template sorts the members of an object before the
// first turn.
func (x *expansion) ranged(v any) (any, error) {
	if object, ok := v.(map[string]any); ok {
		return v, x.charge(len(object) * sortPrice)
	}
	return v, nil
}

// text gives v as it is printed.
func (x *expansion) text(v any) (string, error) {
	if i, ok := v.(*big.Int); ok {
		if err := x.spells(number{big: i}); err != nil {
			return "", err
		}
	}
	s, err := printed(v)
	if err != nil {
		return "", err
	}
	return s, x.charge(x.printPrice(v, len(s)))
}

// printPrice is that of printing v as text of so many bytes: the members of
// objects are sorted.
func (x *expansion) printPrice(v any, bytes int) int {
	switch v.(type) {
	case []any, map[string]any:
		return containerFactor * bytes
	}
	return bytes
}

// printed gives v as templates print it: nothing for a missing value, numbers
// in full, arrays and objects in Go's format (map[a:1 b:[2 3]]) as text/template does.
func printed(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	out, err := appendPrinted(nil, v, 0)
	return string(out), err
}

func appendPrinted(out []byte, v any, depth int) ([]byte, error) {
	if depth > MaxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", MaxValueDepth)
	}
	if len(out) > MaxExpansion {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case string:
		return append(out, v...), nil
	case float64:
		return append(out, Float(v).String()...), nil
	case []any:
		return appendPrintedArray(out, v, depth)
	case map[string]any:
		return appendPrintedObject(out, v, depth)
	default:
		return fmt.Append(out, v), nil
	}
}

func appendPrintedArray(out []byte, array []any, depth int) (_ []byte, err error) {
	out = append(out, '[')
	for i, element := range array {
		if i > 0 {
			out = append(out, ' ')
		}
		if out, err = appendPrinted(out, element, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func appendPrintedObject(out []byte, object map[string]any, depth int) (_ []byte, err error) {
	out = append(out, "map["...)
	for i, key := range SortedKeys(object) {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(append(out, key...), ':')
		if out, err = appendPrinted(out, object[key], depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}
