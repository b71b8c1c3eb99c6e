package store

import (
	"context"
	"errors"
	"time"
)

// ErrNoValue is returned for a value that is not kept, or not any more.
var ErrNoValue = errors.New("value not found")

// Values keep what runs hold and is too large for a history, as it comes: sealed
// or in clear. They are safe for concurrent use, by any number of processes as
// far as these share the store.
type Values interface {
	// Put keeps a value of a run. What is there under the ID already is the same.
	Put(ctx context.Context, id, run string, data []byte) error
	// Get gives a value, or ErrNoValue.
	Get(ctx context.Context, id string) ([]byte, error)
	// Sweep deletes the values of runs that nobody needs any more, and says of how
	// many: of those that are gone, and were not called by one that is not, in
	// whose history what they were given and came to stands, too. A run is not
	// asked about again for an hour, by whichever process. look is asked about runs
	// one by one; if it fails, so does Sweep.
	Sweep(ctx context.Context, look Look) (runs int, err error)
}

// A Look reports whether a run is gone, and of one that is not, which other has
// called it; "" = none has.
type Look func(ctx context.Context, run string) (gone bool, parent string, err error)

// unneeded looks at a run, and if it is gone at its parent, as far as that is
// known from earlier looks.
func (look Look) unneeded(ctx context.Context, run, known string) (unneeded bool, parent string, err error) {
	gone, parent, err := look(ctx, run)
	if err != nil || !gone || known == "" {
		return gone, parent, err
	}
	gone, _, err = look(ctx, known)
	return gone, known, err
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
