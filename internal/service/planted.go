//go:build planted

package service

import (
	"os"

	"go.temporal.io/sdk/interceptor"

	"github.com/perdure/perdure/activities"
)

// What PERDURE_PLANTED plants into a worker that was built with the tag planted, so that
// tests can show that it is found, or survived.
const (
	plantedFault     = "fault"
	plantedChange    = "change"
	plantedVersioned = "versioned change"
	plantedKiller    = "killer"
)

// planted is what calls backend tools, with the fault if that is planted.
func planted(c activities.Caller) activities.Caller {
	if os.Getenv("PERDURE_PLANTED") == plantedFault {
		return repeating{c}
	}
	return c
}

// plantedInRuns is what is planted into runs.
func plantedInRuns() []interceptor.WorkerInterceptor {
	switch os.Getenv("PERDURE_PLANTED") {
	case plantedChange:
		return []interceptor.WorkerInterceptor{&changes{}}
	case plantedVersioned:
		return []interceptor.WorkerInterceptor{&changes{versioned: true}}
	case plantedKiller:
		return []interceptor.WorkerInterceptor{&killers{}}
	}
	return nil
}
