package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/runs"
)

// anybody is --waiting without a value: runs that wait for a person.
const anybody = "person"

// reasons are the values of --waiting.
var reasons = []string{"approval", "compensation", "reconciliation", "credentials", "worker", "key", "payload", "parent", "backend", "breaker", "rate", "concurrency"}

// A waitingFlag selects runs that wait: --waiting for a person, --waiting REASON for
// that reason.
type waitingFlag string

// IsBool makes the value optional.
func (*waitingFlag) IsBool() bool { return true }

// Decode reads the value, if any.
func (w *waitingFlag) Decode(ctx *kong.DecodeContext) error {
	*w = anybody
	next := ctx.Scan.Peek()
	given, _ := next.Value.(string)
	switch {
	case next.Type == kong.FlagValueToken:
	case next.IsValue():
	default:
		return nil
	}
	ctx.Scan.Pop()
	if !slices.Contains(reasons, given) {
		return fmt.Errorf("unknown reason %q; use one of %s, or no value for runs that wait for a person", given, strings.Join(reasons, ", "))
	}
	*w = waitingFlag(given)
	return nil
}

// filter adds the flag to a filter.
func (w waitingFlag) filter(f runs.Filter) runs.Filter {
	switch w {
	case "":
	case anybody:
		f.Waiting = true
	default:
		f.WaitingFor = string(w)
	}
	return f
}
