package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Limits of a single value.
const (
	MaxValueDepth = 1000   // nesting of arrays and objects
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
	return Exact(v, 0)
}

// Exact replaces the json.Numbers within v, in place where v is a container.
func Exact(v any, depth int) (any, error) {
	if depth > MaxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", MaxValueDepth)
	}
	var err error
	switch v := v.(type) {
	case json.Number:
		return ParseNumber(string(v))
	case []any:
		for i := range v {
			if v[i], err = Exact(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		//workflowcheck:ignore the order does not show
		for key := range v {
			if v[key], err = Exact(v[key], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// ParseNumber reads a JSON number into int64, *big.Int or Float.
func ParseNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("number %s is out of range", Excerpt(s))
		}
		return Float(f + 0), nil // -0 is 0
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if len(s) > maxDigits {
		return nil, fmt.Errorf("integer %s has more than %d digits", Excerpt(s), maxDigits)
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", Excerpt(s))
	}
	return i, nil
}
