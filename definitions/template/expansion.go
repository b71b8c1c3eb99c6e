package template

import (
	"fmt"
	"strings"
	"sync"
	"text/template"
)

// An expansion is one execution of a template: its output and its cost so far.
// Functions are bound to it.
type expansion struct {
	tmpl    *template.Template
	out     []byte
	work    int
	decoded int  // values that were read from JSON
	native  bool // keep the printed value instead of printing it
	value   any
}

// expansions are kept for the next template, since binding the functions
// takes longer than most expansions.
var expansions = sync.Pool{New: func() any { return newExpansion() }}

func newExpansion() *expansion {
	x := &expansion{}
	x.tmpl = template.New("").Funcs(x.functions())
	return x
}

// expansion gives an expansion that is ready to execute t.
func (t *Template) expansion() *expansion {
	if t.subs == nil {
		x := expansions.Get().(*expansion)
		x.tmpl.Tree = t.main
		return x
	}
	x := newExpansion()
	x.tmpl.Tree = t.main
	for _, name := range SortedKeys(t.subs) {
		sub := x.tmpl.New(name)
		if _, err := sub.AddParseTree(name, t.subs[name]); err != nil {
			panic(err) // never: it only fails on a nil template
		}
	}
	return x
}

func (x *expansion) release(t *Template) {
	const keep = 64 << 10
	if t.subs != nil || cap(x.out) > keep {
		return
	}
	*x = expansion{tmpl: x.tmpl, out: x.out[:0]}
	expansions.Put(x)
}

// Write takes what the template writes. An empty write is a turn of a loop
// (see loopTurn) or the printing of nothing.
func (x *expansion) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, x.charge(turnPrice)
	}
	if len(x.out)+len(p) > MaxExpansion {
		return 0, errTooLarge
	}
	x.out = append(x.out, p...)
	return len(p), nil
}

var (
	errTooLarge    = fmt.Errorf("the result is larger than %d bytes (limit MaxExpansion)", MaxExpansion)
	errLargeName   = fmt.Errorf("the value is larger than %d bytes (limit MaxNamedValue)", MaxNamedValue)
	errTooMuchWork = fmt.Errorf("expanding it takes too much work (limit MaxExpansionWork, %d bytes)", MaxExpansionWork)
)

// charge adds to the work of the expansion.
func (x *expansion) charge(work int) error {
	if work > MaxExpansionWork-x.work {
		return errTooMuchWork
	}
	x.work += work
	return nil
}

// field gives the field of base that path names, such as output.text. A field
// of a missing value is missing.
func (x *expansion) field(base any, path string) (any, error) {
	if err := x.charge(callPrice + len(path)/readBytes); err != nil {
		return nil, err
	}
	walked := 0
	for name := range strings.SplitSeq(path, ".") {
		switch object := base.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			base = object[name]
		case Partial:
			base = object[name]
		case Unknown:
			return nil, ErrNotKnown
		default:
			return nil, fieldError(base, path[:max(walked-1, 0)], name)
		}
		walked += len(name) + 1
	}
	switch base.(type) {
	case Partial, Unknown:
		return nil, ErrNotKnown
	}
	return base, nil
}

func fieldError(base any, path, name string) error {
	of := ""
	if path != "" {
		of = " ." + path + " is " + Describe(base) + ";"
	}
	if _, ok := base.([]any); ok {
		return fmt.Errorf("cannot read .%s:%s an array has no fields, use index or range", name, of)
	}
	return fmt.Errorf("cannot read .%s:%s %s has no fields", name, of, Describe(base))
}
