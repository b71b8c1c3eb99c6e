package script

import (
	"fmt"
	"time"

	"go.starlark.net/starlark"
)

// Limits bound what a script may use. A field that is zero has its default; a
// value above the default counts as it stands, so whoever takes limits from
// outside has to lower them only.
type Limits struct {
	Steps   int // of the interpreter, of all branches together; an operation on something large takes several. Default 5,000,000
	Memory  int // bytes that the script allocates in all, released or not. Default 128 MiB
	Calls   int // of tools and workflows, and questions. Default 1,000
	Width   int // of parallel and map_parallel: branches at a time. Default 50
	Fan     int // branches of one parallel or map_parallel. Default 1,000
	Value   int // bytes of JSON of a value that comes in or goes out. Default 1,900 KiB
	Source  int // bytes of the script, and of what it loads, together. Default 256 KiB
	Nesting int // of the source, and of values that come in or go out. Default 100
	Depth   int // of calls of functions. Default 200

	// Time is from the start of the script to its end, waiting included, by the
	// clock of the workflow. The host keeps it. 0 = as long as the host lets it.
	Time time.Duration
}

// DefaultLimits are those of a zero Limits.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

// withDefaults gives l with every field set.
func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Steps, 5_000_000)
	set(&l.Memory, 128<<20)
	set(&l.Calls, 1000)
	set(&l.Width, 50)
	set(&l.Fan, 1000)
	set(&l.Value, 1900<<10)
	set(&l.Source, 256<<10)
	set(&l.Nesting, 100)
	set(&l.Depth, 200)
	return l
}

const (
	stepBytes   = 16  // that the interpreter may allocate in one step of its own
	boxBytes    = 24  // of a value that is no pointer
	elemBytes   = 16  // of an element of a list
	entryBytes  = 100 // of an entry of a dict
	stepWork    = 64  // bytes that are read or written in the time of a step
	maxIntBits  = 512 // of an integer
	maxTextShow = 200 // bytes of a value in a message

	// maxAtOnce is how much one operation may allocate, since nobody else has a
	// turn until it has ended.
	maxAtOnce = 16 << 20
)

// An account is what the branches of one run of a script have used together.
// They take turns, so it needs no lock.
type account struct {
	limits Limits
	steps  int
	bytes  int
	calls  int
	failed *Error // the limit that was reached; nothing goes on after that
}

// spend charges steps and bytes that a builtin is about to use.
func (a *account) spend(steps, bytes int) error {
	if a.failed != nil {
		return a.failed
	}
	a.steps += steps
	a.bytes += bytes + steps*stepBytes
	switch {
	case bytes > maxAtOnce:
		a.fail("script_memory", "one operation takes %d bytes of memory; the limit is %d", bytes, maxAtOnce)
	case a.steps > a.limits.Steps || steps < 0:
		a.fail("script_steps", "the script has taken %d steps, which is its limit: let it do less, or in more calls", a.limits.Steps)
	case a.bytes > a.limits.Memory || a.bytes < 0:
		a.fail("script_memory", "the script has allocated %d bytes of memory, which is its limit: let it keep and build less", a.limits.Memory)
	default:
		return nil
	}
	return a.failed
}

// work charges the reading or writing of so many bytes, of which some stay.
func (a *account) work(touched, kept int) error { return a.spend(touched/stepWork, kept) }

func (a *account) fail(code, format string, args ...any) *Error {
	if a.failed == nil {
		a.failed = &Error{Code: code, Category: "limit", Message: fmt.Sprintf(format, args...)}
	}
	return a.failed
}

// failure is the limit that was reached, as an error that may be nil.
func (a *account) failure() error {
	if a.failed != nil {
		return a.failed
	}
	return nil
}

// accountOf is the account of the run to which a thread belongs, for a builtin
// that begins: so that many which take long give others a turn between them.
func accountOf(thread *starlark.Thread) *account {
	b := branchOf(thread)
	if err := b.giveTurn(); err != nil {
		b.stop(thread, err)
	}
	return b.run.account
}

// elements charges a list of n elements, and says no to one of which nothing
// is known but that it is too long.
func (a *account) elements(n int) error {
	if n > maxAtOnce/elemBytes {
		return a.fail("script_memory", "a list of %d elements is more than a script may make; the limit is %d", n, maxAtOnce/elemBytes)
	}
	return a.spend(n/4, n*elemBytes)
}

// checkInt refuses integers that would make arithmetic slow.
func (a *account) checkInt(v starlark.Value) (starlark.Value, error) {
	i, ok := v.(starlark.Int)
	if !ok {
		return v, nil
	}
	if _, small := i.Int64(); small {
		return v, nil
	}
	if i.BigInt().BitLen() > maxIntBits {
		return nil, a.fail("script_integer", "an integer has more than %d bits, which is the limit", maxIntBits)
	}
	return v, a.spend(1, 2*maxIntBits/8)
}
