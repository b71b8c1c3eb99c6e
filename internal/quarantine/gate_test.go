package quarantine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAttackValuesAtOnce: tasks whose values do not fit into memory are executed one after
// the other, and each is in the end.
func TestAttackValuesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{full: func(bytes int64) bool { return bytes > 10 }, left: func() {}}
		var under, most, ended atomic.Int32
		for range 5 {
			go func() {
				if err := g.enter(t.Context(), false, 6); err != nil {
					t.Error(err)
				}
				bytes := g.begin()
				most.Store(max(most.Load(), under.Add(1)))
				time.Sleep(time.Second)
				under.Add(-1)
				ended.Add(1)
				g.end(bytes)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most.Load() != 1 || ended.Load() != 5 || g.bytes != 0 {
			t.Errorf("%d tasks at a time, %d ended, %d bytes are left", most.Load(), ended.Load(), g.bytes)
		}
	})
}

// A task waits until there is memory again, and for as long as it may.
func TestGateWithoutMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		g := &gate{full: func(int64) bool { return full.Load() }, left: func() {}}
		if !g.tryEnter() || g.begin() != 0 {
			t.Fatal("no task is admitted where there is memory")
		}
		full.Store(true)
		if g.tryEnter() {
			t.Error("a task is admitted without memory")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.enter(short, false, 1) == nil {
			t.Error("a task is admitted without memory after a while")
		}
		time.AfterFunc(time.Second, func() { full.Store(false) })
		if err := g.enter(t.Context(), false, 1); err != nil {
			t.Error(err)
		}
	})
}
