package script

import (
	"cmp"
	"fmt"
	"time"

	"go.starlark.net/starlark"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
	bounded "github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/record"
)

// attempt calls a function and gives its outcome: .ok, .value, .error.
func attempt(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 || len(kwargs) > 0 {
		return nil, fmt.Errorf("%s: want a function and its arguments", bi.Name())
	}
	fn, ok := args[0].(starlark.Callable)
	if !ok {
		return nil, fmt.Errorf("%s: want a function, got %s", bi.Name(), args[0].Type())
	}
	b := branchOf(thread)
	if err := bounded.AccountOf(thread).Spend(10, 1<<10); err != nil {
		return nil, err
	}
	v, err := bounded.Invoke(thread, fn, args[1:])
	switch {
	case err == nil:
		return outcome(v, v, nil), nil
	case b.run.catchable(err):
		return outcome(nil, nil, errorValue(b.run.errorOf(err))), nil
	}
	return nil, err
}

// within calls a function under a time limit.
func within(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var limit starlark.Value
	var fn starlark.Callable
	var name string
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "timeout", &limit, "fn", &fn, "name?", &name); err != nil {
		return nil, err
	}
	d, err := duration(limit)
	if err != nil {
		return nil, fmt.Errorf("%s: timeout: %w", bi.Name(), err)
	}
	b := branchOf(thread)
	site, err := b.begin(thread)
	if err != nil {
		return nil, err
	}
	known, effects := len(b.unknown), b.effects
	v, inTime, err := b.deadlined(thread, site, fn, d)
	if !inTime {
		if name != "" {
			name = "step " + name + " "
		}
		return nil, b.finalIfUnknown(&Error{Code: codes.StepTimeout, Category: codes.CategoryTimeout, Path: site.Path, Retryable: b.effects == effects,
			Message: fmt.Sprintf("%stimed out after %s", name, d.Round(time.Millisecond))}, known)
	}
	return v, err
}

// deadlined calls a function and stops it after d. If an earlier execution recorded
// how that ended, it ends the same way again: recorded results come at once, and the
// deadline may have passed long ago.
func (b *branch) deadlined(thread *starlark.Thread, site Site, fn starlark.Callable, d time.Duration) (v starlark.Value, inTime bool, err error) {
	deadline, err := b.run.host.Began(b.ctx, site)
	if err := b.answered(site, err); err != nil {
		return nil, true, err
	}
	outer := b.ctx
	ctx, stop := workflow.WithCancel(outer)
	defer stop()
	_, stopped := DeadlineExceeded(outer)
	open := deadline.Ended == "" && !stopped
	switch until := deadline.Began.Add(d); {
	case open:
		ctx = b.run.host.After(ctx, site, until, func() {
			deadline.Ended = record.OutOfTime
			stop()
		})
	case deadline.Ended == record.OutOfTime:
		ctx = workflow.WithValue(ctx, deadlineExceededKey{}, until)
	}
	b.ctx = ctx
	v, err = bounded.Invoke(thread, fn, nil)
	b.ctx = outer
	if outer.Err() != nil { // stopped from outside
		return v, true, err
	}
	if open {
		deadline.Ended = cmp.Or(deadline.Ended, record.InTime)
		b.run.host.Ended(site, deadline)
	}
	return v, deadline.Ended != record.OutOfTime, err
}
