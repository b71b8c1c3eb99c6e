package script

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	bounded "github.com/perdure/perdure/internal/starlark"
)

// A pages value is the result of iterate: the items of a tool that returns them a
// page at a time. A loop over it calls the tool for each page.
type pages struct {
	tool  string
	args  starlark.Value // a dict, or nil
	page  starlark.Value // a name, or a function
	start int
	items string // path of the items in a page; "" = its only list
	max   int    // pages
}

var (
	_ bounded.Sequence  = (*pages)(nil)
	_ bounded.Composite = (*pages)(nil)
)

// Parts implements bounded.Composite. The arguments are a private copy.
func (p *pages) Parts() []starlark.Value { return []starlark.Value{p.page} }

// On implements bounded.Sequence.
func (p *pages) On(thread *starlark.Thread) starlark.Iterable { return &walk{pages: p, thread: thread} }

func (p *pages) String() string        { return "<pages of " + p.tool + ">" }
func (p *pages) Type() string          { return "pages" }
func (p *pages) Freeze()               {}
func (p *pages) Truth() starlark.Bool  { return true }
func (p *pages) Hash() (uint32, error) { return 0, errors.New("unhashable type: pages") }

// iterate makes pages. If page is a name, that argument counts up until a page has no
// items; if it is a function, it gives the arguments for the page after a result, or
// None to stop.
func iterate(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var tool, given starlark.Value
	p := &pages{page: starlark.String("page"), start: 1, max: 1000}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "tool", &tool, "args?", &given, "page?", &p.page, "start?", &p.start, "items?", &p.items, "max_pages?", &p.max); err != nil {
		return nil, err
	}
	switch tool := tool.(type) {
	case starlark.String:
		p.tool = string(tool)
	case *starlark.Builtin:
		p.tool = tool.Name()
	default:
		return nil, fmt.Errorf("%s: tool: want its name, got %s", b.Name(), tool.Type())
	}
	switch p.page.(type) {
	case starlark.String, starlark.Callable:
	default:
		return nil, fmt.Errorf("%s: page: want the name of an argument or a function, got %s", b.Name(), p.page.Type())
	}
	if given != nil && given != starlark.None {
		d, ok := given.(*bounded.Dict)
		if !ok {
			return nil, fmt.Errorf("%s: args: want a dict, got %s", b.Name(), given.Type())
		}
		copied, err := d.Copy() // later changes do not count
		if err != nil {
			return nil, err
		}
		p.args = copied
	}
	return p, bounded.AccountOf(thread).Spend(1, 10*16)
}

// A reader fetches one page after the other.
type reader struct {
	pages  *pages
	thread *starlark.Thread
	read   int
	next   starlark.Value // arguments that the page function gave
	done   bool
}

// page gives the items of the next page; none at the end.
func (r *reader) page() ([]starlark.Value, error) {
	for !r.done {
		result, err := r.call()
		if err != nil {
			return nil, err
		}
		items, err := r.pages.itemsOf(r.thread, result)
		if err != nil {
			return nil, err
		}
		if _, numbered := r.pages.number(); numbered {
			r.done = len(items) == 0
		} else if err := r.advance(result); err != nil {
			return nil, err
		}
		if len(items) > 0 {
			return items, nil
		}
	}
	return nil, nil
}

// number is the argument that counts pages up; false = a function gives the arguments.
func (p *pages) number() (name string, ok bool) { return starlark.AsString(p.page) }

// call calls the tool for the next page.
func (r *reader) call() (starlark.Value, error) {
	p, b := r.pages, branchOf(r.thread)
	if r.read >= p.max {
		return nil, fmt.Errorf("iterate: %s has more than %d pages: raise max_pages", p.tool, p.max)
	}
	args := bounded.NewDict(b.run.Account)
	for _, from := range []starlark.Value{p.args, r.next} {
		if from != nil {
			if err := args.Update(from); err != nil {
				return nil, err
			}
		}
	}
	if name, numbered := p.number(); numbered {
		if err := args.SetKey(starlark.String(name), starlark.MakeInt(p.start+r.read)); err != nil {
			return nil, err
		}
	}
	out, err := b.callTool(r.thread, p.tool, args, nil, ToolCall{})
	if err != nil {
		return nil, err
	}
	result, err := b.parsed(out)
	if err == nil {
		r.read++
	}
	return result, err
}

// advance asks the page function for the arguments of the next page.
func (r *reader) advance(result starlark.Value) error {
	next, err := bounded.Invoke(r.thread, r.pages.page, starlark.Tuple{result})
	switch d, ok := next.(*bounded.Dict); {
	case err != nil:
		return err
	case !bool(next.Truth()):
		r.done = true
	case !ok:
		return fmt.Errorf("iterate: the page function gave %s, want a dict of arguments, or None", next.Type())
	default:
		r.next = d
	}
	return nil
}

// itemsOf are the items of a page.
func (p *pages) itemsOf(thread *starlark.Thread, result starlark.Value) ([]starlark.Value, error) {
	v := result
	switch {
	case p.items != "":
		for _, name := range strings.Split(p.items, ".") {
			d, ok := v.(*bounded.Dict)
			if !ok {
				return nil, fmt.Errorf("iterate: a page of %s has no %s", p.tool, p.items)
			}
			inner, err := d.Lookup(starlark.String(name))
			if err != nil {
				return nil, err
			}
			if v = inner; v == nil {
				return nil, fmt.Errorf("iterate: a page of %s has no %s", p.tool, p.items)
			}
		}
	default:
		if d, ok := v.(*bounded.Dict); ok {
			if v = onlyList(d); v == nil {
				return nil, fmt.Errorf("iterate: a page of %s has not exactly one list: set items= to the path of its items", p.tool)
			}
		}
	}
	if v == starlark.None {
		return nil, nil
	}
	if _, ok := v.(*starlark.List); !ok {
		return nil, fmt.Errorf("iterate: the items of a page of %s are %s, want a list", p.tool, v.Type())
	}
	return bounded.Elements(thread, v)
}

// onlyList is the one list among the values of a dict.
func onlyList(d *bounded.Dict) starlark.Value {
	var lists []starlark.Value
	_ = d.Each(func(_, value starlark.Value) error {
		if _, ok := value.(*starlark.List); ok {
			lists = append(lists, value)
		}
		return nil
	})
	if len(lists) != 1 {
		return nil
	}
	return lists[0]
}

// A walk is pages in a loop of a thread.
type walk struct {
	*pages
	thread *starlark.Thread
}

func (w *walk) Iterate() starlark.Iterator {
	return &walking{reader: &reader{pages: w.pages, thread: w.thread}}
}

type walking struct {
	reader *reader
	items  []starlark.Value
}

// Next cannot return an error, so a failure stops the thread.
func (w *walking) Next(v *starlark.Value) bool {
	if len(w.items) == 0 {
		items, err := w.reader.page()
		if err != nil {
			bounded.Stop(w.reader.thread, err)
			return false
		}
		w.items = items
	}
	if len(w.items) == 0 {
		return false
	}
	*v, w.items = w.items[0], w.items[1:]
	return true
}

func (w *walking) Done() {}
