package service

import (
	"math"
	"testing"
)

// A worker keeps as many runs as fit into half of its memory, or as it is told.
func TestCachedRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		most  int
		limit int64
		want  int
	}{
		{0, math.MaxInt64, 10_000},
		{0, 230 << 20, 736},
		{0, 10 << 20, 100},
		{0, 64 << 30, 10_000},
		{50, 230 << 20, 50},
		{20_000, 230 << 20, 20_000},
	} {
		if got := cachedRuns(tc.most, tc.limit); got != tc.want {
			t.Errorf("%d with a limit of %d MB: %d, want %d", tc.most, tc.limit>>20, got, tc.want)
		}
	}
}

// TestAttackFullCache: what the cache holds is removed once memory is full, and not again
// and again where something else fills it.
func TestAttackFullCache(t *testing.T) {
	t.Parallel()
	f := fullness{most: 100}
	for i, step := range []struct {
		live, collection uint64
		want             bool
	}{
		{100, 1, false},
		{101, 2, true},
		{101, 2, false}, // no collection since
		{101, 3, false}, // it may have begun before
		{20, 4, false},
		{101, 5, true},
		{200, 7, false}, // that was not of the cache
		{240, 8, false},
		{251, 9, true},
		{180, 11, false},
		{90, 12, false}, // it has become less
		{120, 13, true},
	} {
		if got := f.reached(step.live, step.collection); got != step.want {
			t.Errorf("step %d, %d bytes after collection %d: %t", i, step.live, step.collection, got)
		}
	}
}
