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
