package starlark

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A printer writes values as Starlark shows them. A list may be in another many times, so
// the text is charged as it grows.
type printer struct {
	account *Account
	b       strings.Builder
	path    []starlark.Value // lists and dicts that are being written
	charged int
	limit   int // of bytes; 0 = the account's
	err     error
}

const maxPrintDepth = 200

func (p *printer) write(s string) {
	if p.err != nil {
		return
	}
	p.b.WriteString(s)
	switch grown := p.b.Len() - p.charged; {
	case p.limit > 0 && p.b.Len() > p.limit:
		p.err = errors.New("too long")
	case p.account != nil && grown > 1<<10:
		p.err = p.account.Work(4*grown, 2*grown)
		p.charged = p.b.Len()
	}
}

func (p *printer) value(v starlark.Value) {
	if p.err == nil && p.account != nil {
		p.err = p.account.Spend(2+len(p.path)/8, 0)
	}
	if p.err != nil {
		return
	}
	switch v := v.(type) {
	case starlark.String:
		p.quote(string(v))
	case *starlark.List:
		p.inside(v, "[", "]", func() { p.sequence(v) })
	case starlark.Tuple:
		closing := ")"
		if len(v) == 1 {
			closing = ",)"
		}
		p.inside(nil, "(", closing, func() { p.sequence(v) })
	case *Dict:
		p.inside(v, "{", "}", func() { p.dict(v) })
	case *Struct:
		p.inside(nil, "struct(", ")", func() { p.record(v) })
	case Marked:
		p.inside(nil, v.Type()+"(", ")", func() { p.value(v.Marked()) })
	case *starlark.Function:
		p.write("<function " + v.Name() + ">")
	case *starlark.Builtin:
		p.write("<built-in function " + v.Name() + ">")
	default:
		p.write(v.String()) // a number, None, a bool, a range, a time: short
	}
}

// quote charges before it makes a text of up to four times the size.
func (p *printer) quote(s string) {
	if p.account != nil {
		if p.err = p.account.Work(4*len(s), 4*len(s)); p.err != nil {
			return
		}
	} else if len(s) > p.limit {
		s = s[:p.limit]
	}
	p.write(syntax.Quote(s, false))
}

// inside writes a value with elements, unless it contains itself.
func (p *printer) inside(v starlark.Value, opening, closing string, elements func()) {
	if len(p.path) >= maxPrintDepth {
		p.err = fmt.Errorf("values are nested more than %d deep: they cannot be shown", maxPrintDepth)
		return
	}
	p.write(opening)
	if v != nil && p.within(v) {
		p.write("...")
	} else {
		p.path = append(p.path, v)
		elements()
		p.path = p.path[:len(p.path)-1]
	}
	p.write(closing)
}

func (p *printer) within(v starlark.Value) bool {
	for _, outer := range p.path {
		if outer == v {
			return true
		}
	}
	return false
}

func (p *printer) sequence(v starlark.Indexable) {
	for i := 0; i < v.Len() && p.err == nil; i++ {
		if i > 0 {
			p.write(", ")
		}
		p.value(v.Index(i))
	}
}

func (p *printer) dict(d *Dict) {
	separator := ""
	for _, e := range d.entries {
		if e.key == nil || p.err != nil {
			continue
		}
		p.write(separator)
		p.value(e.key)
		p.write(": ")
		p.value(e.value)
		separator = ", "
	}
}

func (p *printer) record(r *Struct) {
	for i, name := range r.names {
		if i > 0 {
			p.write(", ")
		}
		p.write(name + " = ")
		p.value(r.values[i])
	}
}

// repr is a value as Starlark shows it.
func repr(a *Account, v starlark.Value) (string, error) {
	p := &printer{account: a}
	p.value(v)
	if p.err == nil {
		p.err = a.Work(4*(p.b.Len()-p.charged), 2*(p.b.Len()-p.charged))
	}
	return p.b.String(), p.err
}

// str is repr, but a string is unchanged.
func str(a *Account, v starlark.Value) (string, error) {
	if s, ok := starlark.AsString(v); ok {
		return s, nil
	}
	return repr(a, v)
}

// Show is a value for a message, shortened.
func Show(v starlark.Value) string {
	p := &printer{limit: maxTextShow}
	p.value(v)
	if p.err == nil {
		return p.b.String()
	}
	return strings.ToValidUTF8(p.b.String()[:min(p.b.Len(), maxTextShow)], "") + "…"
}

// A printed value was converted to text for a format.
type printed struct {
	starlark.Value
	text string
}

func (p printed) String() string { return p.text }

// printable gives a value whose String is bounded, and its greatest length.
func printable(a *Account, v starlark.Value) (starlark.Value, int, error) {
	switch v := v.(type) {
	case starlark.String:
		return v, 4*len(v) + 2, nil
	case starlark.Int, starlark.Float, starlark.Bool, starlark.NoneType:
		return v, maxIntBits, nil
	}
	text, err := repr(a, v)
	return printed{v, text}, len(text), err
}

// interpolate is format % x.
func interpolate(a *Account, format starlark.String, x starlark.Value) (starlark.Value, error) {
	longest := 0
	take := func(v starlark.Value) (starlark.Value, error) {
		v, n, err := printable(a, v)
		longest = max(longest, n)
		return v, err
	}
	var err error
	switch args := x.(type) {
	case starlark.Tuple:
		copied := make(starlark.Tuple, len(args))
		for i, v := range args {
			if copied[i], err = take(v); err != nil {
				return nil, err
			}
		}
		x = copied
	case *Dict:
		x, err = printableDict(format, args, take)
	default:
		x, err = take(x)
	}
	if err != nil {
		return nil, err
	}
	size := len(format) + strings.Count(string(format), "%")*longest
	if err := a.Work(size, size); err != nil {
		return nil, err
	}
	return starlark.Binary(syntax.PERCENT, format, x)
}

// printableDict gives the entries that a format may name, or the dict as one value if it
// names none.
func printableDict(format starlark.String, d *Dict, take func(starlark.Value) (starlark.Value, error)) (starlark.Value, error) {
	if !strings.Contains(string(format), "%(") {
		return take(d)
	}
	c := starlark.NewDict(0)
	err := d.Each(func(key, value starlark.Value) error {
		name, ok := key.(starlark.String)
		if !ok || !strings.Contains(string(format), "("+string(name)+")") {
			return nil
		}
		if c.Len() >= maxSpread {
			return fmt.Errorf("a format has more than %d names", maxSpread)
		}
		v, err := take(value)
		if err != nil {
			return err
		}
		return c.SetKey(name, v)
	})
	return c, err
}

// stringFormat is format.format(…).
func stringFormat(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	a := AccountOf(thread)
	format := b.Receiver().(starlark.String)
	longest := 0
	take := func(v starlark.Value) (starlark.Value, error) {
		v, n, err := printable(a, v)
		longest = max(longest, n)
		return v, err
	}
	shownArgs := make(starlark.Tuple, len(args))
	shownKw := make([]starlark.Tuple, len(kwargs))
	var err error
	for i, v := range args {
		if shownArgs[i], err = take(v); err != nil {
			return nil, err
		}
	}
	for i, kv := range kwargs {
		v, err := take(kv[1])
		if err != nil {
			return nil, err
		}
		shownKw[i] = starlark.Tuple{kv[0], v}
	}
	fields := strings.Count(string(format), "{")
	size := len(format) + fields*longest
	if err := a.Work(size+fields*len(kwargs)*8, size); err != nil {
		return nil, err
	}
	return callMethod(thread, format, "format", shownArgs, shownKw)
}
