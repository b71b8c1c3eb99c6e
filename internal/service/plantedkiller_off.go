//go:build !plantedkiller

package service

import (
	"go.temporal.io/sdk/interceptor"
)

// plantedKiller is what takes the worker down with certain runs: nothing.
func plantedKiller() []interceptor.WorkerInterceptor { return nil }
