package script

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
)

// parallel calls functions side by side: those of a list, or those of a dict. Of a
// dict, each is called once the functions that after names have returned, with their
// results.
func parallel(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var from, after starlark.Value
	f := parallelCall{thread: thread, name: b.Name(), onError: abort}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fns", &from, "max?", &f.width, "on_error?", &f.onError, "after?", &after); err != nil {
		return nil, err
	}
	if d, ok := from.(*bounded.Dict); ok {
		return f.graph(d, after)
	}
	if after != nil && after != starlark.None {
		return nil, fmt.Errorf("%s: after is for a dict of functions", b.Name())
	}
	fns, err := bounded.Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	for i, fn := range fns {
		if _, ok := fn.(starlark.Callable); !ok {
			return nil, fmt.Errorf("%s: element %d is %s, want a function: lambda: …", b.Name(), i, fn.Type())
		}
		f.calls = append(f.calls, branchCall{fn: fn})
	}
	return f.out()
}

// mapParallel calls a function with each item, side by side.
func mapParallel(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var from starlark.Value
	f := parallelCall{thread: thread, name: b.Name(), onError: abort}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn, "items", &from, "max?", &f.width, "on_error?", &f.onError); err != nil {
		return nil, err
	}
	items, err := bounded.Elements(thread, from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	for _, item := range items {
		f.calls = append(f.calls, branchCall{fn: fn, args: starlark.Tuple{item}})
	}
	return f.out()
}

// Values of on_error.
const (
	abort   = "abort"   // the first failure stops the others and fails the whole
	collect = "collect" // each result is an outcome
)

// A parallelCall is one call of parallel or map_parallel.
type parallelCall struct {
	thread  *starlark.Thread
	name    string
	calls   []branchCall
	width   int
	onError string

	results []starlark.Value
	failed  error // the first failure that counts
	skip    bool  // branches that have not begun are not called

	begun []int     // in this order
	was   *Branches // recorded by an earlier execution; nil = nothing
}

type branchCall struct {
	fn    starlark.Value
	args  starlark.Tuple
	after []int           // calls whose results are its arguments
	ended workflow.Future // of a call that others come after
	end   workflow.Settable
}

// A skip is the value of skip_rest. After a function returns it, functions of the
// same parallel that have not begun are not called.
type skip struct{ starlark.Value }

func skipRest(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value = starlark.None
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "result?", &v); err != nil {
		return nil, err
	}
	return skip{v}, nil
}

// graph runs functions by name and gives a dict of their results; None where a
// function was not called.
func (f *parallelCall) graph(fns *bounded.Dict, after starlark.Value) (starlark.Value, error) {
	index := map[string]int{}
	var names []starlark.Value
	err := fns.Each(func(key, fn starlark.Value) error {
		name, ok := starlark.AsString(key)
		if _, callable := fn.(starlark.Callable); !ok || !callable {
			return fmt.Errorf("%s: want names and functions, got %s: %s", f.name, bounded.Show(key), fn.Type())
		}
		index[name] = len(f.calls)
		names = append(names, key)
		f.calls = append(f.calls, branchCall{fn: fn})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := f.order(index, after); err != nil {
		return nil, err
	}
	if _, err := f.out(); err != nil {
		return nil, err
	}
	results := bounded.NewDict(bounded.AccountOf(f.thread))
	for i, name := range names {
		if err := results.SetKey(name, f.results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// order reads after: name → names of those that come before it.
func (f *parallelCall) order(index map[string]int, after starlark.Value) error {
	if after == nil || after == starlark.None {
		return nil
	}
	d, ok := after.(*bounded.Dict)
	if !ok {
		return fmt.Errorf("%s: after: want a dict of lists of names, got %s", f.name, after.Type())
	}
	err := d.Each(func(key, value starlark.Value) error {
		name, _ := starlark.AsString(key)
		i, ok := index[name]
		if !ok {
			return fmt.Errorf("%s: after: function %s not found", f.name, bounded.Show(key))
		}
		before, err := bounded.Elements(f.thread, value)
		if err != nil {
			return fmt.Errorf("%s: after: %w", f.name, err)
		}
		for _, b := range before {
			name, _ := starlark.AsString(b)
			j, ok := index[name]
			if !ok {
				return fmt.Errorf("%s: after: function %s not found", f.name, bounded.Show(b))
			}
			f.calls[i].after = append(f.calls[i].after, j)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.checkOrder()
}

// checkOrder refuses functions that wait for each other.
func (f *parallelCall) checkOrder() error {
	state := make([]int, len(f.calls)) // 1 = being visited, 2 = done
	var visit func(i int) bool
	visit = func(i int) bool {
		if state[i] != 0 {
			return state[i] == 2
		}
		state[i] = 1
		for _, j := range f.calls[i].after {
			if !visit(j) {
				return false
			}
		}
		state[i] = 2
		return true
	}
	for i := range f.calls {
		if !visit(i) {
			return fmt.Errorf("%s: after: functions wait for each other", f.name)
		}
	}
	return nil
}

func (f *parallelCall) check(b *branch) error {
	limits := b.run.limits
	switch {
	case b.inPolicy:
		return errInPolicy
	case bounded.Loading(f.thread):
		return fmt.Errorf("a file that is loaded must not run branches itself")
	case f.onError != abort && f.onError != collect:
		return fmt.Errorf("%s: on_error is %q or %q", f.name, abort, collect)
	case f.width < 0:
		return fmt.Errorf("%s: max is negative", f.name)
	case len(f.calls) > limits.Branches:
		return b.run.Account.Fail("width", "%s of %d; the limit is %d", f.name, len(f.calls), limits.Branches)
	}
	if f.width == 0 || f.width > limits.Width {
		f.width = limits.Width
	}
	return b.run.Account.Spend(100*len(f.calls), 4<<10*len(f.calls))
}

// out runs the branches and gives their results in order.
func (f *parallelCall) out() (starlark.Value, error) {
	b := branchOf(f.thread)
	if err := f.check(b); err != nil {
		return nil, err
	}
	l := bounded.NewLock(b.run.Account)
	defer l.Release()
	for _, c := range f.calls {
		if err := l.Hold(c.fn); err != nil {
			return nil, err
		}
		if err := l.Hold(c.args); err != nil {
			return nil, err
		}
	}
	f.results = make([]starlark.Value, len(f.calls))
	known := len(b.unknown)
	f.run(b)
	switch {
	case f.failed != nil:
		return nil, bounded.FromThread(b.finalIfUnknown(f.failed, known))
	case b.ctx.Err() != nil:
		return nil, b.ctx.Err()
	case f.was != nil && f.was.Failed:
		return nil, &Error{Code: codes.Internal, Category: codes.CategoryInternal, Fatal: true, Message: f.name + " has failed before, and does not any more"}
	}
	for i, v := range f.results {
		if v == nil { // it was not called
			f.results[i] = starlark.None
		}
	}
	return starlark.NewList(f.results), nil
}

// run starts the branches and waits for them.
func (f *parallelCall) run(b *branch) {
	site := b.site(f.thread)
	if f.was = b.run.host.Decided(site); f.was != nil && f.was.Unknown {
		b.noteUnknown(&Error{Path: site.Path})
	}
	ctx, stop := workflow.WithCancel(b.ctx)
	defer stop()
	call := func(ctx workflow.Context, i int, args starlark.Tuple) {
		if f.skip && f.was == nil || ctx.Err() != nil {
			return
		}
		f.begun = append(f.begun, i)
		path := fmt.Sprintf("%s[%d]", site.Path, i)
		inner := b.run.branch(ctx, b, path+"/")
		v, err := bounded.Invoke(inner.thread(path), f.calls[i].fn, args)
		f.ended(b, site, i, v, err)
		if f.failed != nil {
			stop()
		}
	}
	if f.isOrdered() {
		f.inOrder(ctx, site, call)
		return
	}
	counting := slices.DeleteFunc(numbers(len(f.calls)), func(i int) bool { return !f.counts(i) })
	more := func() bool { return ctx.Err() == nil }
	Each(ctx, site.Path, len(counting), f.width, more, func(ctx workflow.Context, k int) {
		call(ctx, counting[k], f.calls[counting[k]].args)
	})
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// inOrder calls branches in order. Those that wait for others must not take their turns.
func (f *parallelCall) inOrder(ctx workflow.Context, site Site, call func(ctx workflow.Context, i int, args starlark.Tuple)) {
	turns := workflow.NewSemaphore(ctx, int64(f.width))
	running := workflow.NewWaitGroup(ctx)
	for i := range f.calls {
		f.calls[i].ended, f.calls[i].end = workflow.NewFuture(ctx)
	}
	for i, c := range f.calls {
		if !f.counts(i) {
			c.end.Set(nil, nil)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		running.Add(1)
		workflow.GoNamed(ctx, fmt.Sprintf("%s[%d]", site.Path, i), func(ctx workflow.Context) {
			defer running.Done()
			defer c.end.Set(nil, nil)
			args := f.await(ctx, c)
			if turns.Acquire(ctx, 1) != nil {
				return
			}
			defer turns.Release(1)
			call(ctx, i, args)
		})
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	running.Wait(wait)
}

func (f *parallelCall) isOrdered() bool {
	return slices.ContainsFunc(f.calls, func(c branchCall) bool { return len(c.after) > 0 })
}

// await waits for the calls that come before c, and gives their results.
func (f *parallelCall) await(ctx workflow.Context, c branchCall) starlark.Tuple {
	var args starlark.Tuple
	for _, i := range c.after {
		if f.calls[i].ended.Get(ctx, nil) != nil {
			return nil // stopped
		}
		if v := f.results[i]; v != nil {
			args = append(args, v)
		} else {
			args = append(args, starlark.None)
		}
	}
	return args
}

// counts reports whether an earlier execution lets a branch be called.
func (f *parallelCall) counts(i int) bool { return f.was == nil || slices.Contains(f.was.Branches, i) }

// ended takes the result of a branch.
func (f *parallelCall) ended(b *branch, site Site, i int, v starlark.Value, err error) {
	if rest, ok := v.(skip); ok {
		f.skip, v = true, rest.Value
		f.decide(b, site, Branches{Branches: slices.Sorted(slices.Values(f.begun))})
	}
	switch {
	case err == nil && f.onError == collect:
		f.results[i] = outcome(v, v, nil)
	case err == nil:
		f.results[i] = v
	case f.onError == collect && b.run.catchable(err):
		f.results[i] = outcome(nil, nil, errorValue(b.run.errorOf(err)))
	case f.failed == nil:
		f.failed = err
		f.decide(b, site, Branches{Branches: f.upTo(i), Failed: true})
	}
}

// decide records what depends on which branch was first. A later execution cannot
// see that: there, all recorded results come at once.
func (f *parallelCall) decide(b *branch, site Site, d Branches) {
	if _, stopped := DeadlineExceeded(b.ctx); b.ctx.Err() == nil && !stopped && (f.was == nil || d.Failed) {
		b.run.host.Decide(site, d)
	}
}

// upTo gives a branch and those that come before it, sorted.
func (f *parallelCall) upTo(i int) []int {
	all := []int{i}
	for at := 0; at < len(all); at++ {
		for _, j := range f.calls[all[at]].after {
			if !slices.Contains(all, j) {
				all = append(all, j)
			}
		}
	}
	slices.Sort(all)
	return all
}
