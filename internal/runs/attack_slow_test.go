package runs

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
)

// TestAttackSlowTemporal: a Temporal that is so slow that the time of a request is over
// counts as one that cannot be reached, and not as a fault; a client that disconnects
// does not.
func TestAttackSlowTemporal(t *testing.T) {
	t.Parallel()
	slow, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for ctx, want := range map[context.Context]error{slow: context.DeadlineExceeded, gone: context.Canceled} {
		err := failure(ctx, "reading", "tool/run", serviceerror.NewDeadlineExceeded("context deadline exceeded"))
		if !errors.Is(err, want) || errors.Is(err, ErrUnavailable) != (ctx == slow) {
			t.Errorf("%v is reported as %v", want, err)
		}
	}
}
