package template

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxWidth bounds width and precision of a printf directive.
const maxWidth = 10_000

// printf is fmt.Sprintf on values as templates have them: floating-point
// verbs take integers, integer verbs take 3.0, %s and %v take anything, and a
// missing value is empty text. What fmt would print as %!d(…) is an error.
func formatted(x *expansion, args []any) (any, error) {
	format, err := x.textArg(args[0])
	if err != nil {
		return nil, err
	}
	p := formatter{x: x, args: args[1:]}
	if err := p.run(format); err != nil {
		return nil, err
	}
	return x.built(string(p.out))
}

type formatter struct {
	x    *expansion
	out  []byte
	args []any
	next int // argument
	used int // arguments that directives took
}

func (p *formatter) run(format string) error {
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		p.out = append(p.out, format[:i]...)
		if format = format[i:]; format == "" {
			break
		}
		rest, err := p.directive(format[1:])
		if err != nil {
			return err
		}
		if len(p.out) > MaxExpansion {
			return errTooLarge
		}
		format = rest
	}
	if p.used < len(p.args) {
		return fmt.Errorf("has %s for %d directives", countedArguments(len(p.args)), p.used)
	}
	return nil
}

// directive formats what stands after a % and gives the rest of the format.
func (p *formatter) directive(s string) (rest string, err error) {
	i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("+-# 0", r) })
	if i < 0 {
		return "", errors.New("the format ends within a directive")
	}
	flags := strings.ReplaceAll(s[:i], "#", "")
	width, s, err := p.size(s[i:])
	if err != nil {
		return "", err
	}
	precision := ""
	if strings.HasPrefix(s, ".") {
		if precision, s, err = p.size(s[1:]); err != nil {
			return "", err
		}
		precision = "." + precision
	}
	if s, err = p.explicitIndex(s); err != nil {
		return "", err
	}
	verb, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return "", errors.New("the format ends within a directive")
	}
	if verb == '%' {
		p.out = append(p.out, '%')
		return s[size:], nil
	}
	arg, err := p.arg()
	if err != nil {
		return "", fmt.Errorf("%%%c: %w", verb, err)
	}
	verb, arg, err = p.convert(verb, arg)
	if err != nil {
		return "", fmt.Errorf("%%%c %w", verb, err)
	}
	p.out = fmt.Appendf(p.out, "%"+flags+width+precision+string(verb), arg)
	return s[size:], nil
}

// size reads a width or a precision, which * takes from the arguments.
func (p *formatter) size(s string) (digits, rest string, err error) {
	if strings.HasPrefix(s, "*") {
		arg, err := p.arg()
		if err != nil {
			return "", "", err
		}
		n, err := p.x.intArg(arg)
		if err != nil {
			return "", "", err
		}
		if n < 0 || n > maxWidth {
			return "", "", fmt.Errorf("width %d is out of range (limit %d)", n, maxWidth)
		}
		return fmt.Sprint(n), s[1:], nil
	}
	i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if i < 0 {
		i = len(s)
	}
	if i > 5 || i == 5 && s[:i] > fmt.Sprint(maxWidth) {
		return "", "", fmt.Errorf("width %s is out of range (limit %d)", Excerpt(s[:i]), maxWidth)
	}
	return s[:i], s[i:], nil
}

// explicitIndex reads [n], which says which argument comes next.
func (p *formatter) explicitIndex(s string) (string, error) {
	if !strings.HasPrefix(s, "[") {
		return s, nil
	}
	digits, rest, ok := strings.Cut(s[1:], "]")
	n, isNumber := parseInteger(digits)
	i, fits := intOf(n)
	if !ok || !isNumber || !fits || i < 1 || i > len(p.args) {
		return "", fmt.Errorf("there is no argument %s", Excerpt(s))
	}
	p.next = i - 1
	return rest, nil
}

func (p *formatter) arg() (any, error) {
	if p.next >= len(p.args) {
		return nil, errors.New("there is no argument for it")
	}
	p.next++
	p.used = max(p.used, p.next)
	return p.args[p.next-1], nil
}

// convert makes arg one that fmt knows how to format by verb.
func (p *formatter) convert(verb rune, arg any) (rune, any, error) {
	switch verb {
	case 'v':
		if n, ok := numberOf(arg); ok {
			return verb, n.value(), p.x.spells(n)
		}
		if b, ok := arg.(bool); ok {
			return verb, b, nil
		}
		text, err := p.x.text(arg)
		return 's', text, err
	case 's', 'q':
		text, err := p.x.text(arg)
		return verb, text, err
	case 't':
		if b, ok := arg.(bool); ok {
			return verb, b, nil
		}
		return verb, nil, fmt.Errorf("wants a boolean, got %s", Describe(arg))
	case 'x', 'X':
		if s, ok := arg.(string); ok {
			return verb, s, nil
		}
		fallthrough
	case 'd', 'b', 'o', 'O', 'c', 'U':
		n, err := p.x.integerArg(arg)
		if err == nil {
			err = p.x.spells(n)
		}
		return verb, n.value(), err
	case 'e', 'E', 'f', 'F', 'g', 'G':
		n, err := p.x.numberArg(arg)
		if err != nil || n.isFloat || n.big == nil && n.small>>53 == n.small>>63 {
			return verb, n.float64(), err
		}
		return verb, n.bigFloat(), p.x.charge(n.words() * fractionPrice)
	case 'T':
		return 's', typeName(arg), nil
	}
	return verb, nil, errors.New("is no verb that templates have")
}
