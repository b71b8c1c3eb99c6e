package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a single value.
const (
	maxValueDepth = 1000   // nesting of arrays and objects
	maxDigits     = 10_000 // digits of one integer
)

// A Float is a JSON number with a fraction or an exponent. It prints without
// an exponent, in as few digits as identify it: 1234567.5, not 1.2345675e+06.
type Float float64

// String gives the decimal digits of f.
func (f Float) String() string { return strconv.FormatFloat(float64(f), 'f', -1, 64) }

// MarshalJSON gives the decimal digits of f. It is an error if f is not finite.
func (f Float) MarshalJSON() ([]byte, error) { return EncodeValue(f) }

// DecodeValue decodes one JSON value without losing anything of its numbers:
// into nil, bool, string, int64, *big.Int (integers beyond int64), Float (any
// number with a fraction or an exponent), []any or map[string]any. Of equal
// keys of an object the last wins.
//
// It is an error if data holds anything but one value, is nested more than
// 1,000 deep, or has a number that cannot be represented.
func DecodeValue(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if err == io.EOF {
			return nil, fmt.Errorf("no JSON value: the text is empty")
		}
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more text after the JSON value, at offset %d", dec.InputOffset())
	}
	return exact(v, 0)
}

// exact replaces the json.Numbers within v, in place where v is a container.
func exact(v any, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxValueDepth)
	}
	var err error
	switch v := v.(type) {
	case json.Number:
		return parseNumber(string(v))
	case []any:
		for i := range v {
			if v[i], err = exact(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		//workflowcheck:ignore the order does not show
		for key := range v {
			if v[key], err = exact(v[key], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// parseNumber reads a JSON number into int64, *big.Int or Float.
func parseNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("number %s is out of range", excerpt(s))
		}
		return Float(f + 0), nil // -0 is 0
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if len(s) > maxDigits {
		return nil, fmt.Errorf("integer %s has more than %d digits", excerpt(s), maxDigits)
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", excerpt(s))
	}
	return i, nil
}

// EncodeValue encodes v as JSON: object members sorted by name, numbers in
// full and without exponents, <, > and & as they are, no white space. Besides
// what DecodeValue gives it takes any other Go numbers, strings, slices and
// maps with string keys. It is an error if v holds something that JSON does
// not have or is nested more than 1,000 deep.
func EncodeValue(v any) (json.RawMessage, error) {
	e := encoder{limit: math.MaxInt}
	if err := e.encode(v); err != nil {
		return nil, err
	}
	return e.out, nil
}

// An encoder appends JSON to out until it is longer than limit.
type encoder struct {
	out   []byte
	limit int
}

func (e *encoder) encode(v any) error {
	if err := e.value(v, 0); err != nil {
		return err
	}
	if len(e.out) > e.limit {
		return errTooLarge
	}
	return nil
}

func (e *encoder) value(v any, depth int) error {
	if depth > maxValueDepth {
		return fmt.Errorf("nested more than %d deep", maxValueDepth)
	}
	if len(e.out) > e.limit {
		return errTooLarge
	}
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		e.string(v)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case *big.Int:
		e.out = v.Append(e.out, 10)
	case Float:
		return e.float(float64(v))
	case []any:
		return e.array(len(v), func(i int) any { return v[i] }, depth)
	case map[string]any:
		return e.object(sortedKeys(v), func(key string) any { return v[key] }, depth)
	default:
		return e.other(v, depth)
	}
	return nil
}

func (e *encoder) float(f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("JSON has no number for %v", f)
	}
	e.out = strconv.AppendFloat(e.out, f+0, 'f', -1, 64) // -0 is 0
	return nil
}

func (e *encoder) array(n int, at func(int) any, depth int) error {
	e.out = append(e.out, '[')
	for i := range n {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(at(i), depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) object(keys []string, at func(string) any, depth int) error {
	e.out = append(e.out, '{')
	for i, key := range keys {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.string(key)
		e.out = append(e.out, ':')
		if err := e.value(at(key), depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// other encodes Go values that are not as DecodeValue gives them.
func (e *encoder) other(v any, depth int) error {
	switch v := v.(type) {
	case json.Number:
		n, err := parseNumber(string(v))
		if err != nil {
			return err
		}
		return e.value(n, depth)
	case FormSchema:
		e.out = append(e.out, v...) // which is written so
		return nil
	case json.RawMessage:
		decoded, err := DecodeValue(v)
		if err != nil {
			return err
		}
		return e.value(decoded, depth)
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Bool:
		e.out = strconv.AppendBool(e.out, r.Bool())
	case reflect.String:
		e.string(r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = strconv.AppendInt(e.out, r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = strconv.AppendUint(e.out, r.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		return e.float(r.Float())
	case reflect.Slice, reflect.Array:
		return e.array(r.Len(), func(i int) any { return r.Index(i).Interface() }, depth)
	case reflect.Map:
		if r.Type().Key().Kind() != reflect.String {
			return fmt.Errorf("JSON has no objects with keys of type %v", r.Type().Key())
		}
		keys := make([]string, 0, r.Len())
		for _, key := range r.MapKeys() {
			keys = append(keys, key.String())
		}
		sort.Strings(keys)
		return e.object(keys, func(key string) any {
			return r.MapIndex(reflect.ValueOf(key).Convert(r.Type().Key())).Interface()
		}, depth)
	default:
		return fmt.Errorf("JSON has nothing for a value of type %T", v)
	}
	return nil
}

const hexDigits = "0123456789abcdef"

// string appends s as encoding/json does without HTML escaping.
func (e *encoder) string(s string) {
	e.out = append(e.out, '"')
	start := 0
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			e.out = appendEscaped(append(e.out, s[start:i]...), b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			e.out = append(append(e.out, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			e.out = append(append(e.out, s[start:i]...), `\u202`...)
			e.out = append(e.out, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	e.out = append(append(e.out, s[start:]...), '"')
}

func appendEscaped(out []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(out, '\\', b)
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	case '\b':
		return append(out, '\\', 'b')
	case '\f':
		return append(out, '\\', 'f')
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
}

// sortedKeys gives the keys of m in order, so that nothing ever depends on
// the order in which Go walks a map.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	//workflowcheck:ignore sorted below
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// describe says what kind of value v is, for messages: "an object".
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "no value"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		if _, ok := numberOf(v); ok {
			return "a number"
		}
		return fmt.Sprintf("a %T", v)
	}
}

// excerpt quotes the start of s, for messages.
func excerpt(s string) string {
	const most = 40
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}
