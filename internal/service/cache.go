package service

import (
	"math"
	"runtime/debug"

	"go.temporal.io/sdk/worker"
)

// A worker keeps runs in memory between their tasks, so that it need not read and
// replay their histories. A run that waits for a person takes about runBytes.
const (
	runBytes      = 160 << 10
	fewCachedRuns = 100
	maxCachedRuns = 10_000
)

// CacheRuns sets how many runs the workers of this process keep in memory; 0 = as many
// as fit into half of Go's memory limit. It is called before the first one starts.
func CacheRuns(most int) {
	worker.SetStickyWorkflowCacheSize(cachedRuns(most, debug.SetMemoryLimit(-1)))
}

// cachedRuns is how many runs are kept where Go has a limit, in bytes.
func cachedRuns(most int, limit int64) int {
	switch {
	case most > 0:
		return most
	case limit == math.MaxInt64:
		return maxCachedRuns
	}
	return int(min(max(limit/2/runBytes, fewCachedRuns), maxCachedRuns))
}
