package store

import (
	"context"
	"errors"
	"time"
)

// ErrNoValue is returned for a value that is not kept, or no longer.
var ErrNoValue = errors.New("value not found")

// Values keep values of runs that are too large for a history, as given: sealed or in
// clear. They are safe for concurrent use, by any number of processes that share the
// store.
type Values interface {
	// Put keeps a value of a run. A value with the same ID is the same value.
	Put(ctx context.Context, id, run string, data []byte) error
	// Get gives a value; an error if it is not kept.
	Get(ctx context.Context, id string) ([]byte, error)
	// Sweep deletes the values of runs that are gone, and gives the number of these
	// runs. It keeps those of a run whose caller is not gone, since arguments and
	// results are in the caller's history, too. look is called for one run after the
	// other, and for each at most once an hour by all processes together; if it fails,
	// so does Sweep.
	Sweep(ctx context.Context, look Look) (runs int, err error)
}

// A Look reports whether a run is gone; if not, parent is the run that called it; "" =
// none.
type Look func(ctx context.Context, run string) (gone bool, parent string, err error)

// unneeded looks at a run, and if it is gone at its parent, if an earlier look gave
// one.
func (look Look) unneeded(ctx context.Context, run, known string) (unneeded bool, parent string, err error) {
	gone, parent, err := look(ctx, run)
	if err != nil || !gone || known == "" {
		return gone, parent, err
	}
	gone, _, err = look(ctx, known)
	return gone, known, err
}

const (
	// SweepEvery is how often Sweep should be called.
	SweepEvery = 10 * time.Minute
	// recheck is the least time between two looks at a run. A value is kept at least
	// for as long, since it is stored before its run exists.
	recheck = time.Hour
	// valueLimit bounds writing or reading a value.
	valueLimit = time.Minute
	sweepBatch = 500 // runs
)
