package script

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.temporal.io/sdk/workflow"
)

// attempt calls a function and gives what it came to: .ok, .value, .error.
func attempt(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 || len(kwargs) > 0 {
		return nil, fmt.Errorf("%s: want a function and its arguments", bi.Name())
	}
	fn, ok := args[0].(starlark.Callable)
	if !ok {
		return nil, fmt.Errorf("%s: want a function, got %s", bi.Name(), args[0].Type())
	}
	b := branchOf(thread)
	if err := accountOf(thread).spend(10, 1<<10); err != nil {
		return nil, err
	}
	v, err := b.call(thread, fn, args[1:])
	switch {
	case err == nil:
		return outcome(v, v, nil), nil
	case b.run.catchable(err):
		return outcome(nil, nil, errorValue(b.run.kind(err))), nil
	}
	return nil, err
}

// within calls a function, and stops it when it takes too long.
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
	site, err := b.ask(thread)
	if err != nil {
		return nil, err
	}
	v, inTime, err := b.inTime(thread, site, fn, d)
	if !inTime {
		if name != "" {
			name = "step " + name + " "
		}
		return nil, &Error{Code: "step_timeout", Category: "timeout", Path: site.Path, Retryable: true,
			Message: fmt.Sprintf("%stimed out after %s", name, d.Round(time.Millisecond))}
	}
	return v, err
}

// inTime calls a function, and stops it when it takes longer than d. How that has
// ended in an execution before stays so: there, all that is recorded comes at once,
// and the time may be over long since.
func (b *branch) inTime(thread *starlark.Thread, site Site, fn starlark.Callable, d time.Duration) (v starlark.Value, inTime bool, err error) {
	spell, err := b.run.host.Began(b.ctx, site)
	if err := b.asked(site, err); err != nil {
		return nil, true, err
	}
	outer := b.ctx
	ctx, stop := workflow.WithCancel(outer)
	defer stop()
	_, stopped := RanOut(outer)
	open := spell.Ended == "" && !stopped
	switch until := spell.Began.Add(d); {
	case open:
		timer := workflow.NewTimerWithOptions(ctx, max(until.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{Summary: site.Path + ": timeout"})
		workflow.GoNamed(ctx, site.Path+" timeout", func(ctx workflow.Context) {
			if timer.Get(ctx, nil) == nil {
				spell.Ended = OutOfTime
				stop()
			}
		})
	case spell.Ended == OutOfTime:
		ctx = workflow.WithValue(ctx, outOfTimeKey{}, until)
	}
	b.ctx = ctx
	v, err = b.call(thread, fn, nil)
	b.ctx = outer
	if outer.Err() != nil { // which the world has stopped
		return v, true, err
	}
	if open {
		spell.Ended = cmp.Or(spell.Ended, InTime)
		b.run.host.Ended(site, spell)
	}
	return v, spell.Ended != OutOfTime, err
}

// report tells of a failure with which the script goes on.
func report(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	var message string
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "error", &v, "message?", &message); err != nil {
		return nil, err
	}
	e, err := errorFrom(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bi.Name(), err)
	}
	e.Message = cmp.Or(message, e.Message)
	b := branchOf(thread)
	if err := accountOf(thread).spend(50, 1<<10); err != nil {
		return nil, err
	}
	if !b.loading && !b.deciding {
		b.run.host.Report(b.ctx, b.site(thread), e)
	}
	return starlark.None, nil
}

// errorFrom is the error that a script has caught, or one that it has made and
// that does not say of calls what only these can.
func errorFrom(v starlark.Value) (*Error, error) {
	r, ok := v.(*record)
	if !ok || !slices.Contains(r.names, "category") || !slices.Contains(r.names, "code") {
		return nil, fmt.Errorf("want an error, such as .error of attempt, got %s", v.Type())
	}
	text := func(name string) string {
		v, _ := r.Attr(name)
		s, _ := starlark.AsString(v)
		return s
	}
	e := &Error{Code: text("code"), Category: text("category"), Message: text("message"), Tool: text("tool"), Path: text("path")}
	if attempts, _ := r.Attr("attempt"); attempts != nil {
		_ = starlark.AsInt(attempts, &e.Attempt)
	}
	if retryable, _ := r.Attr("retryable"); retryable != nil {
		e.Retryable = bool(retryable.Truth())
	}
	if details := text("details"); details != "" {
		e.Details = json.RawMessage(details)
	}
	if !slices.Contains(failCategories, e.Category) && !(r.caught && slices.Contains(caughtCategories, e.Category)) {
		return nil, fmt.Errorf("an error of the category %s cannot be told on", shown(starlark.String(e.Category)))
	}
	e.Final = e.Category != "tool" && e.Category != "timeout"
	return e, nil
}

// failCategories are those of which a script may fail.
var failCategories = []string{"tool", "template", "timeout", "declined", "limit", "validation"}

// caughtCategories are those with which a script may fail only if something has
// failed so: what they say of a call decides what is done about it.
var caughtCategories = []string{"outcome_unknown", "permission"}

// fail ends the script with a message, or with an error that it has caught.
func fail(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	e, rest := &Error{}, make([]starlark.Tuple, 0, len(kwargs))
	var message string
	for _, kv := range kwargs {
		into := map[starlark.String]*string{"code": &e.Code, "category": &e.Category, "message": &message}[kv[0].(starlark.String)]
		if into == nil {
			rest = append(rest, kv)
			continue
		}
		text, ok := starlark.AsString(kv[1])
		if !ok {
			return nil, fmt.Errorf("%s: %s: want a string, got %s", b.Name(), kv[0], kv[1].Type())
		}
		*into = text
	}
	if e.Category != "" && !slices.Contains(failCategories, e.Category) {
		return nil, fmt.Errorf("%s: category is one of %s", b.Name(), strings.Join(failCategories, ", "))
	}
	if len(args) == 1 && len(rest) == 0 {
		if caught, err := errorFrom(args[0]); err == nil {
			caught.Code, caught.Category, caught.Message = cmp.Or(e.Code, caught.Code), cmp.Or(e.Category, caught.Category), cmp.Or(message, caught.Message)
			return nil, caught
		}
	}
	text, err := joined(thread, b.Name(), args, rest)
	if err != nil {
		return nil, err
	}
	text = cmp.Or(text, message)
	if e.Code == "" && e.Category == "" {
		return nil, &failure{text}
	}
	e.Code, e.Category, e.Message = cmp.Or(e.Code, CodeFailed), cmp.Or(e.Category, "tool"), text
	e.Final = e.Category != "tool" && e.Category != "timeout"
	return nil, e
}

// errDeciding is what a function of a policy ends with that asks for something.
var errDeciding = errors.New("what probe and undo are given says something of a call, and must not call anything itself")
