package template

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"sort"
	"strconv"
	"unicode/utf8"
)

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

// Canonical gives JSON that is the same for the same value.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	v, err := DecodeValue(raw)
	if err != nil {
		return nil, err
	}
	return EncodeValue(v)
}

// Verbatim is JSON that EncodeValue writes as it is.
type Verbatim json.RawMessage

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
	if depth > MaxValueDepth {
		return fmt.Errorf("nested more than %d deep", MaxValueDepth)
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
		return e.object(SortedKeys(v), func(key string) any { return v[key] }, depth)
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
		n, err := ParseNumber(string(v))
		if err != nil {
			return err
		}
		return e.value(n, depth)
	case Verbatim:
		e.out = append(e.out, v...)
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
