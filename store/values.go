package store

import (
	"context"
	"errors"
	"time"
)

// ErrNoValue is returned for a value that is not kept, or not any more.
var ErrNoValue = errors.New("the value is not kept here")

// Values keep what runs hold and is too large for a history, as it comes: sealed
// or in clear. They are safe for concurrent use, by any number of processes as
// far as these share the store.
type Values interface {
	// Put keeps a value of a run. What is there under the ID already is the same.
	Put(ctx context.Context, id, run string, data []byte) error
	// Get gives a value, or ErrNoValue.
	Get(ctx context.Context, id string) ([]byte, error)
	// Sweep deletes the values of runs that are gone, and says of how many. A run
	// is not asked about again for an hour, by whichever process. gone is asked
	// about runs one by one; if it fails, so does Sweep.
	Sweep(ctx context.Context, gone func(ctx context.Context, run string) (bool, error)) (runs int, err error)
}

const (
	// SweepEvery is how often values of runs that are gone should be looked for.
	SweepEvery = 10 * time.Minute
	// A run is asked about at most once in recheck; a value is kept at least for
	// as long, since it is there before the run that holds it.
	recheck = time.Hour
	// valueLimit bounds writing or reading a value.
	valueLimit = time.Minute
	sweepBatch = 500 // runs
)
