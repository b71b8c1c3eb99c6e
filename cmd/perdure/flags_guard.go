package main

import (
	"fmt"
)

// guardFlags control the quarantine of runs that take their worker down, and how many
// runs a worker caches.
type guardFlags struct {
	QuarantineAfter int `help:"How many workers may be lost while they execute a run alone, which they do after a worker was lost with it, before it is quarantined. A quarantined run is not executed until somebody releases it (see perdure runs release)." default:"2" placeholder:"N"`

	CachedRuns int `help:"How many runs the worker keeps in memory between steps, about 0.16 MB each; it reads others from Temporal when they continue. Default: as many as fit into half of its memory limit, at most 10000." placeholder:"N"`
}

// Validate is called by kong.
func (f guardFlags) Validate() error {
	if f.QuarantineAfter < 1 {
		return fmt.Errorf("--quarantine-after must be at least 1, not %d", f.QuarantineAfter)
	}
	if f.CachedRuns < 0 {
		return fmt.Errorf("--cached-runs is a number of runs, not %d", f.CachedRuns)
	}
	return nil
}
