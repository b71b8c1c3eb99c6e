package script

import (
	"cmp"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	bounded "github.com/perdure/perdure/internal/starlark"
)

// maxRetryDelay is how long retry waits at most between two attempts.
const maxRetryDelay = time.Hour

// retry calls a function again while tools fail in it, or it calls fail.
func retry(thread *starlark.Thread, bi *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	attempts := 3
	var wait starlark.Value = starlark.MakeInt(1)
	var backoff starlark.Value = starlark.MakeInt(2)
	if err := starlark.UnpackArgs(bi.Name(), args, kwargs, "fn", &fn, "attempts?", &attempts, "delay?", &wait, "backoff?", &backoff); err != nil {
		return nil, err
	}
	delay, err := duration(wait)
	if err != nil {
		return nil, fmt.Errorf("%s: delay: %w", bi.Name(), err)
	}
	factor, ok := starlark.AsFloat(backoff)
	if !ok || !(factor >= 1) {
		return nil, fmt.Errorf("%s: backoff: want a number of at least 1, got %s", bi.Name(), bounded.Show(backoff))
	}
	if attempts < 1 {
		return nil, fmt.Errorf("%s: attempts: want at least 1, got %d", bi.Name(), attempts)
	}
	b := branchOf(thread)
	for attempt := 1; ; attempt++ {
		if err := bounded.AccountOf(thread).Spend(100, 2<<10); err != nil {
			return nil, err
		}
		known := len(b.unknown)
		v, err := bounded.Invoke(thread, fn, nil)
		if err == nil || attempt >= attempts || !b.run.repeatable(err) {
			return v, err
		}
		if err := b.finalIfUnknown(err, known); !b.run.repeatable(err) {
			return nil, err
		}
		if delay > 0 {
			if err := b.sleep(thread, delay); err != nil {
				return nil, err
			}
		}
		delay = time.Duration(min(float64(delay)*factor, float64(cmp.Or(maxRetryDelay, 1))))
	}
}

// repeatable reports whether retry may call the function again after an error.
func (r *run) repeatable(err error) bool { return r.catchable(err) && !r.errorOf(err).Final }

// noteUnknown records a call of unknown outcome, in this branch and those around it.
func (b *branch) noteUnknown(e *Error) {
	for ; b != nil; b = b.parent {
		b.unknown = append(b.unknown, e)
	}
}

// noteEffect counts a completed call with effects, in this branch and those around it.
func (b *branch) noteEffect() {
	for ; b != nil; b = b.parent {
		b.effects++
	}
}

// finalIfUnknown makes an error final if b.unknown has grown beyond its first known
// calls: retrying would repeat the new ones. These are calls that parallel has stopped,
// and calls whose failure the script has handled.
func (b *branch) finalIfUnknown(err error, known int) error {
	e := b.run.errorOf(err)
	if len(b.unknown) == known || e.Final || e.Fatal || b.run.Account.Failed() != nil {
		return err
	}
	final, left := *e, b.unknown[known]
	what := "a call in " + left.Path
	if left.Tool != "" {
		what = fmt.Sprintf("%s (%s)", left.Tool, left.Path)
	}
	final.Final, final.Retryable = true, false
	final.Message = fmt.Sprintf("%s; it is not repeated, since it is not known whether %s was executed", clip(e.Message), what)
	return &finalError{err: err, final: &final}
}

// A finalError wraps an error that retry must not repeat.
type finalError struct {
	err   error
	final *Error
}

func (e *finalError) Error() string { return e.final.Message }
func (e *finalError) Unwrap() error { return e.err }

// As gives the final error before the one it wraps.
func (e *finalError) As(target any) bool {
	known, ok := target.(**Error)
	if ok {
		*known = e.final
	}
	return ok
}
