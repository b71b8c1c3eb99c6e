package runs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type askerKey struct{}

// One caller lists its runs for ever, in ways that are all different, where Temporal's
// index may be queried ten times a second. Others whose runs are counted, without which
// none starts, wait for a moment.
func TestAttackIndexFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := listsOf(newStrictIndex(0, 10), slog.New(slog.DiscardHandler))
		c.index.of = func(ctx context.Context) string { who, _ := ctx.Value(askerKey{}).(string); return who }
		of := func(who string) context.Context { return context.WithValue(t.Context(), askerKey{}, who) }
		var all sync.WaitGroup
		over := time.Now().Add(2 * time.Minute)
		for i := range 300 {
			all.Go(func() {
				for n := 0; time.Now().Before(over); n++ {
					_, _ = c.List(of("mallory"), Filter{Tool: fmt.Sprint(i, " ", n)})
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		time.Sleep(5 * time.Second)
		var longest time.Duration
		for time.Now().Before(over.Add(-20 * time.Second)) {
			began := time.Now()
			if _, err := c.Held(of("bob"), "bob"); err != nil {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
			longest = max(longest, time.Since(began))
			time.Sleep(10 * time.Second)
		}
		all.Wait()
		t.Logf("at most %s", longest)
		if longest > 5*time.Second {
			t.Errorf("a count of somebody else took %s", longest)
		}
	})
}
