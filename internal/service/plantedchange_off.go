//go:build !plantedchange

package service

import (
	"go.temporal.io/sdk/interceptor"
)

// plantedChange is what a build does differently in every run: nothing.
func plantedChange() []interceptor.WorkerInterceptor { return nil }
