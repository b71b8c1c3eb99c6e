package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStateOfBefore: while the state of runs cannot be had, the last one is exported for
// a minute and then none, however seldom metrics are read and however long a request for
// it takes. An outage is reported once.
func TestStateOfBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("Temporal is away")
		var broken error
		c := &cachedSnapshot{ended: &atomic.Bool{}, take: func(ctx context.Context) (Snapshot, error) {
			if broken != nil {
				<-ctx.Done()
				return Snapshot{}, broken
			}
			return Snapshot{Runs: map[string]int64{"running": 3}}, nil
		}}
		reads := func(when string, want int64, wantErr error) {
			t.Helper()
			if s, err := c.get(t.Context()); s.Runs["running"] != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v", when, s, err)
			}
		}
		reads("at first", 3, nil)
		broken = away
		time.Sleep(40 * time.Second)
		reads("soon", 3, nil)
		time.Sleep(time.Minute)
		reads("later", 0, away)
		if !c.begins() || c.begins() {
			t.Error("an outage is not reported once")
		}
		broken = nil
		time.Sleep(time.Minute)
		reads("once it is back", 3, nil)
		broken = away
		time.Sleep(time.Hour)
		reads("after an hour in which nobody has read", 0, nil)
		if !c.begins() {
			t.Error("the next outage is not reported")
		}
		time.Sleep(snapshotLimit)
	})
}
