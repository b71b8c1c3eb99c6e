package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/runs"
	"github.com/perdure/perdure/workflows"
)

// busyLimit is how long a run may compute between two waits, on a busy machine;
// a workflow task has 10 s.
const busyLimit = 8 * time.Second

// startWorker has this process take up steps of runs.
func (s *service) startWorker() error {
	s.worker = worker.New(s.opts.Temporal, workflows.TaskQueue, worker.Options{
		MaxHeartbeatThrottleInterval: time.Second,
		WorkerStopTimeout:            s.opts.Grace,
		DeadlockDetectionTimeout:     busyLimit,
		DeploymentOptions:            s.opts.Build.deployment(),
	})
	workflows.Register(s.worker)
	all := runs.New(runs.Config{Client: s.opts.Temporal, Namespace: s.opts.Namespace, Logger: s.opts.Logger})
	activities.Register(s.worker, activities.New(s.pool, s.opts.Logger).Permit(s.opts.Loaded.Auth.permits).LookBack(lookBack(all)))
	if err := s.worker.Start(); err != nil {
		s.worker = nil
		return fmt.Errorf("starting the worker: %w", err)
	}
	return nil
}

// lookBack has activities read what a run had done before it was reset.
func lookBack(all *runs.Client) activities.Past {
	return func(ctx context.Context, id, execution, key string) (*workflows.ToolResult, bool, error) {
		return all.CallBefore(ctx, runs.RunID(id), execution, key)
	}
}
