package service

import (
	"context"
	"math"
	"runtime/metrics"
	"time"

	"go.temporal.io/sdk/worker"
)

// A worker keeps runs in memory between their tasks, so that it need not read and
// replay their histories. A run that waits for a person takes about runBytes, and up to
// 30 MB for 1 MB of arguments or results that are many small values.
const (
	runBytes      = 160 << 10
	fewCachedRuns = 100
	maxCachedRuns = 10_000
)

// cacheRuns sets how many runs the workers of this process keep in memory; 0 = as many
// as fit into half of Go's memory limit. It is called before the first one starts.
func cacheRuns(most int) {
	worker.SetStickyWorkflowCacheSize(cachedRuns(most, memoryLimit()))
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

// emptyCache drops waiting runs from this process's cache when memory fills up, until
// ctx ends; they are read from Temporal again. Their number is no measure of their
// size.
func emptyCache(ctx context.Context, limit int64) {
	if limit == math.MaxInt64 {
		return
	}
	full := fullness{most: uint64(limit / 2)}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		metrics.Read(sample)
		if full.reached(sample[0].Value.Uint64(), sample[1].Value.Uint64()) {
			worker.PurgeStickyWorkflowCache() // as many single removals, though workers are running
		}
	}
}

// A fullness reports when what a process holds is worth removing.
type fullness struct {
	most    uint64 // bytes
	emptied uint64 // the collection after which it was removed
	left    uint64 // bytes in use after the removal; 0 = not known yet
}

// reached reports whether live, the bytes in use after a garbage collection, are too
// many. What a removal did not free is not counted again.
func (f *fullness) reached(live, collection uint64) bool {
	if collection < f.emptied+2 { // the next one may have begun before the removal
		return false
	}
	if f.emptied > 0 && f.left == 0 || live < f.left {
		f.left = live
	}
	if live <= f.most || live <= f.left+f.left/4 {
		return false
	}
	f.emptied, f.left = collection, 0
	return true
}
