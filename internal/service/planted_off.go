//go:build !planted

package service

import (
	"go.temporal.io/sdk/interceptor"

	"github.com/perdure/perdure/activities"
)

// planted is what calls backend tools, as it is.
func planted(c activities.Caller) activities.Caller { return c }

// plantedInRuns is what is planted into runs: nothing.
func plantedInRuns() []interceptor.WorkerInterceptor { return nil }
