package template

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxWidth bounds width and precision of a printf directive.
const maxWidth = 10_000

// directive matches flags, width, precision, explicit index and verb of a printf
// directive. At the end of a format the verb may be missing.
var directive = regexp.MustCompile(`(?s)%([-+ 0#]*)(\*|\d*)(?:(\.)(\*|\d*))?(?:\[(\d+)\])?(.?)`)

// formatted is fmt.Sprintf for values of templates: floating-point verbs take integers,
// integer verbs take 3.0, %s and %v take anything, and a missing value is empty text.
// What fmt would print as %!d(…) is an error.
func formatted(c *call) any {
	format := c.str(0)
	f := formatter{call: c, args: c.args[1:]}
	for c.err == nil {
		place := directive.FindStringSubmatchIndex(format)
		if place == nil {
			break
		}
		parts := make([]string, len(place)/2)
		for i := range parts {
			if place[2*i] >= 0 {
				parts[i] = format[place[2*i]:place[2*i+1]]
			}
		}
		f.out = append(f.out, format[:place[0]]...)
		f.directive(parts)
		format = format[place[1]:]
		c.fits(len(f.out))
	}
	if f.used < len(f.args) {
		c.failf("has %s for %d directives", countedArguments(len(f.args)), f.used)
	}
	return c.built(string(f.out) + format)
}

type formatter struct {
	*call
	out  []byte
	args []any
	next int // argument
	used int // arguments that directives took
}

// directive formats one directive, given the groups of its regular expression.
func (f *formatter) directive(parts []string) {
	width, precision := f.size(parts[2]), ""
	if parts[3] != "" {
		precision = "." + f.size(parts[4])
	}
	if parts[5] != "" {
		i, err := strconv.Atoi(parts[5])
		if err != nil || i < 1 || i > len(f.args) {
			f.failf("there is no argument [%s]", parts[5])
			return
		}
		f.next = i - 1
	}
	verb := parts[6]
	switch verb {
	case "":
		f.failf("the format ends within a directive")
		return
	case "%":
		f.out = append(f.out, '%')
		return
	}
	arg, ok := f.arg()
	if !ok {
		f.failf("%%%s: there is no argument for it", verb)
		return
	}
	verb, arg = f.convert(verb, arg)
	if f.err != nil {
		f.err = fmt.Errorf("%%%s %w", verb, f.err)
		return
	}
	f.out = fmt.Appendf(f.out, "%"+strings.ReplaceAll(parts[1], "#", "")+width+precision+verb, arg)
}

// size is a width or a precision, which * takes from the arguments.
func (f *formatter) size(digits string) string {
	if digits == "*" {
		arg, ok := f.arg()
		if !ok {
			f.failf("there is no argument for *")
			return ""
		}
		digits = strconv.Itoa(f.intOf(arg))
	}
	if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n < 0 || n > maxWidth) {
		f.failf("width %s is out of range (limit %d)", Excerpt(digits), maxWidth)
	}
	return digits
}

func (f *formatter) arg() (any, bool) {
	if f.next >= len(f.args) {
		return nil, false
	}
	f.next++
	f.used = max(f.used, f.next)
	return f.args[f.next-1], true
}

// convert makes arg a value that fmt can format by verb.
func (f *formatter) convert(verb string, arg any) (string, any) {
	switch verb {
	case "v":
		if n, ok := numberOf(arg); ok {
			f.ok(f.x.spells(n))
			return verb, n.value()
		}
		if b, ok := arg.(bool); ok {
			return verb, b
		}
		return "s", f.printed(arg)
	case "s", "q":
		return verb, f.printed(arg)
	case "t":
		b, ok := arg.(bool)
		if !ok {
			f.failf("wants a boolean, got %s", Describe(arg))
		}
		return verb, b
	case "x", "X":
		if s, ok := arg.(string); ok {
			return verb, s
		}
		return verb, f.integer(arg)
	case "d", "b", "o", "O", "c", "U":
		return verb, f.integer(arg)
	case "e", "E", "f", "F", "g", "G":
		n := f.numberOf(arg)
		if n.isFloat || n.big == nil && n.small>>53 == n.small>>63 {
			return verb, n.float64()
		}
		f.spend(n.words() * fractionPrice)
		return verb, n.bigFloat()
	case "T":
		return "s", kindName(arg)
	}
	f.failf("is no verb that templates have")
	return verb, nil
}

// integer is an integer of any size that is written.
func (f *formatter) integer(arg any) any {
	n := f.integerOf(arg)
	f.ok(f.x.spells(n))
	return n.value()
}
