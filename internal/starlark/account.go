package starlark

import (
	"fmt"

	"go.starlark.net/starlark"
)

// An Account counts what the threads of one execution use together. They take turns,
// so it needs no lock.
type Account struct {
	limits Limits
	steps  int
	bytes  int
	failed *LimitError // nothing is allowed after it
}

// A LimitError is the limit that a program has reached. It ends the program:
// every later charge fails with it, too.
type LimitError struct {
	Limit   string // steps, memory, value, nesting, depth, integer, or one of the host's
	Message string
}

func (e *LimitError) Error() string { return e.Message }

// NewAccount gives an empty account.
func NewAccount(limits Limits) *Account { return &Account{limits: limits.WithDefaults()} }

// Steps is how many steps have been taken.
func (a *Account) Steps() int { return a.steps }

// Failed is the limit that was reached; nil = none.
func (a *Account) Failed() *LimitError { return a.failed }

// Spend charges steps, and bytes that a function is about to allocate.
func (a *Account) Spend(steps, bytes int) error {
	if a.failed != nil {
		return a.failed
	}
	a.steps += steps
	a.bytes += bytes + steps*stepBytes
	switch {
	case bytes > maxAtOnce:
		return a.Fail("memory", "one operation takes %d bytes of memory; the limit is %d", bytes, maxAtOnce)
	case a.steps > a.limits.Steps || steps < 0:
		return a.Fail("steps", "the script has taken %d steps, which is its limit: let it do less, or in more calls", a.limits.Steps)
	case a.bytes > a.limits.Memory || a.bytes < 0:
		return a.Fail("memory", "the script has allocated %d bytes of memory, which is its limit: let it keep and build less", a.limits.Memory)
	}
	return nil
}

// Work charges for bytes read or written, and for those of them that are kept.
func (a *Account) Work(touched, kept int) error { return a.Spend(touched/stepWork, kept) }

// Fail ends the program with a limit, unless another one was reached before.
func (a *Account) Fail(limit, format string, args ...any) error {
	if a.failed == nil {
		a.failed = &LimitError{Limit: limit, Message: fmt.Sprintf(format, args...)}
	}
	return a.failed
}

// failure is the limit that was reached as an error, which may be nil.
func (a *Account) failure() error {
	if a.failed != nil {
		return a.failed
	}
	return nil
}

// elements charges for a list of n elements whose size is unknown.
func (a *Account) elements(n int) error {
	if n > maxAtOnce/elemBytes {
		return a.Fail("memory", "a list of %d elements is more than a script may make; the limit is %d", n, maxAtOnce/elemBytes)
	}
	return a.Spend(n/4, n*elemBytes)
}

// checkInt refuses integers that would make arithmetic slow.
func (a *Account) checkInt(v starlark.Value) (starlark.Value, error) {
	i, ok := v.(starlark.Int)
	if !ok {
		return v, nil
	}
	if _, small := i.Int64(); small {
		return v, nil
	}
	if i.BigInt().BitLen() > maxIntBits {
		return nil, a.Fail("integer", "an integer has more than %d bits, which is the limit", maxIntBits)
	}
	return v, a.Spend(1, 2*maxIntBits/8)
}
