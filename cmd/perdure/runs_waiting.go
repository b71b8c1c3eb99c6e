package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/runs"
)

// anybody is what a run waits for where it is not said for what: a person.
const anybody = "person"

// reasons are what runs wait for.
var reasons = []string{"approval", "compensation", "reconciliation", "credentials", "key", "payload", "breaker", "rate", "concurrency"}

// A waitingFlag selects runs that wait: --waiting for a person, --waiting REASON
// for something else, or for just that.
type waitingFlag string

// IsBool lets the flag stand without a value.
func (*waitingFlag) IsBool() bool { return true }

// Decode takes the value if there is one.
func (w *waitingFlag) Decode(ctx *kong.DecodeContext) error {
	*w = anybody
	next := ctx.Scan.Peek()
	given, _ := next.Value.(string)
	switch {
	case next.Type == kong.FlagValueToken:
	case next.IsValue() && slices.Contains(reasons, given):
	default:
		return nil
	}
	ctx.Scan.Pop()
	if !slices.Contains(reasons, given) {
		return fmt.Errorf("%q is nothing that runs wait for; use one of %s, or no value for all that wait for a person", given, strings.Join(reasons, ", "))
	}
	*w = waitingFlag(given)
	return nil
}

// filter adds what the flag says to a filter.
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
