package template

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

// A number is any number of a template. Integers are exact at any size: in small, or
// in big if they do not fit.
type number struct {
	small   int64
	big     *big.Int // nil if small holds the integer
	float   float64
	isFloat bool
}

// numberOf gives the number that v is. Text is not a number.
func numberOf(v any) (number, bool) {
	switch v := v.(type) {
	case int64:
		return number{small: v}, true
	case int:
		return number{small: int64(v)}, true
	case Float:
		return number{float: float64(v), isFloat: true}, !math.IsNaN(float64(v))
	case float64:
		return number{float: v, isFloat: true}, !math.IsNaN(v)
	case *big.Int:
		return number{big: v}, v != nil
	case nil, string, bool, []any, map[string]any:
		return number{}, false
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return number{small: r.Int()}, true
	case r.CanUint():
		if r.Uint() > math.MaxInt64 {
			return number{big: new(big.Int).SetUint64(r.Uint())}, true
		}
		return number{small: int64(r.Uint())}, true
	case r.CanFloat():
		return number{float: r.Float(), isFloat: true}, !math.IsNaN(r.Float())
	}
	return number{}, false
}

// value gives n as DecodeValue would.
func (n number) value() any {
	switch {
	case n.isFloat:
		return Float(n.float)
	case n.big == nil:
		return n.small
	case n.big.IsInt64():
		return n.big.Int64()
	}
	return n.big
}

// bigInt gives an integer; not to be modified.
func (n number) bigInt() *big.Int {
	if n.big != nil {
		return n.big
	}
	return big.NewInt(n.small)
}

// float64 gives the nearest floating-point number.
func (n number) float64() float64 {
	if n.isFloat {
		return n.float
	}
	if n.big == nil {
		return float64(n.small)
	}
	f, _ := new(big.Float).SetInt(n.big).Float64()
	return f
}

// integer gives n as an integer if it is one, be it written 3 or 3.0.
func (n number) integer() (number, bool) {
	if !n.isFloat {
		return n, true
	}
	if n.float != math.Trunc(n.float) || math.IsInf(n.float, 0) {
		return number{}, false
	}
	return truncated(n.float), true
}

// truncated gives the integer part of a finite f.
func truncated(f float64) number {
	if math.Abs(f) < 1<<62 {
		return number{small: int64(f)}
	}
	i, _ := new(big.Float).SetFloat64(f).Int(nil)
	return number{big: i}
}

// int gives n as an int if it is an integer that fits.
func (n number) int() (int, bool) {
	i, ok := n.integer()
	if !ok {
		return 0, false
	}
	switch v := i.value().(type) {
	case int64:
		return int(v), int64(int(v)) == v
	default:
		return 0, false
	}
}

// compare gives -1, 0 or 1, exactly, whatever kinds of number a and b are.
func (n number) compare(m number) int {
	if !n.isFloat && !m.isFloat {
		if n.big == nil && m.big == nil {
			switch {
			case n.small < m.small:
				return -1
			case n.small > m.small:
				return 1
			}
			return 0
		}
		return n.bigInt().Cmp(m.bigInt())
	}
	return n.bigFloat().Cmp(m.bigFloat())
}

// words is about how many machine words n takes.
func (n number) words() int {
	if n.big == nil {
		return 1
	}
	return n.big.BitLen()/64 + 1
}

// bigFloat gives n without loss.
func (n number) bigFloat() *big.Float {
	switch {
	case n.isFloat:
		return new(big.Float).SetFloat64(n.float)
	case n.big == nil:
		return new(big.Float).SetInt64(n.small)
	}
	return new(big.Float).SetInt(n.big)
}

// parseInteger reads a base-10 integer of any size, also one that is written
// with a fraction of zeros, such as 12.0.
func parseInteger(s string) (any, bool) {
	s = strings.TrimSpace(s)
	whole, fraction, _ := strings.Cut(s, ".")
	if strings.Trim(fraction, "0") != "" || len(whole) > maxDigits {
		return nil, false
	}
	if i, err := strconv.ParseInt(whole, 10, 64); err == nil {
		return i, true
	}
	if strings.Contains(whole, "_") {
		return nil, false
	}
	i, ok := new(big.Int).SetString(whole, 10)
	if !ok {
		return nil, false
	}
	return number{big: i}.value(), true
}

// parseDecimal reads a number as parseInteger does, or one with a fraction or
// an exponent. What JSON cannot say (infinity, hexadecimal digits) is none.
func parseDecimal(s string) (any, bool) {
	if i, ok := parseInteger(s); ok {
		return i, true
	}
	s = strings.TrimSpace(s)
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return nil, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, false
	}
	return Float(f), true
}

// An operation is arithmetic on two numbers: exact on integers, in floating
// point as soon as one of them is not an integer.
type operation struct {
	integers func(z, a, b *big.Int) *big.Int
	floats   func(a, b float64) float64
}

var (
	addition       = operation{(*big.Int).Add, func(a, b float64) float64 { return a + b }}
	subtraction    = operation{(*big.Int).Sub, func(a, b float64) float64 { return a - b }}
	multiplication = operation{(*big.Int).Mul, func(a, b float64) float64 { return a * b }}
	division       = operation{(*big.Int).Quo, func(a, b float64) float64 { return a / b }}
	remainder      = operation{(*big.Int).Rem, math.Mod}
)

func (op operation) apply(a, b number) (number, error) {
	if a.isFloat || b.isFloat {
		f := op.floats(a.float64(), b.float64())
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return number{}, fmt.Errorf("the result is out of range")
		}
		return number{float: f, isFloat: true}, nil
	}
	result := op.integers(new(big.Int), a.bigInt(), b.bigInt())
	if result.BitLen() > maxDigits*3 { // log2(10) is a little more than 3
		return number{}, fmt.Errorf("the result has too many digits")
	}
	return number{big: result}, nil
}
