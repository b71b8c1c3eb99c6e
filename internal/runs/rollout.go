package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/workflows"
)

// Deployment is the name under which Temporal knows perdure's workers that report which
// build they are.
const Deployment = "perdure"

// A BuildState reports what a build of the workers is for.
type BuildState string

// The states of a build.
const (
	BuildCurrent  BuildState = "current"  // starts new runs
	BuildRamping  BuildState = "ramping"  // starts a share of the new runs
	BuildInactive BuildState = "inactive" // was never promoted
	BuildDraining BuildState = "draining" // has runs under way and starts none
	BuildDrained  BuildState = "drained"  // has none: its workers can go
)

// A Build is a version of the workers.
type Build struct {
	ID      string     `json:"id"`
	State   BuildState `json:"state"`
	Percent float32    `json:"percent,omitempty"` // of new runs, while it is ramping
	Created time.Time  `json:"created"`
	Workers int        `json:"workers"` // that polled lately; with 0, the runs of the build wait
}

// errNoBuilds: no worker has a build ID.
var errNoBuilds = errors.New("no worker has a build ID; start workers with --build-id")

// Rollouts are about the builds of the workers that execute runs.
type Rollouts struct{ temporal client.Client }

// Rollouts returns those of the workers of c.
func (c *Client) Rollouts() Rollouts { return Rollouts{c.temporal} }

// Builds lists the builds of the workers, the newest first; an error if there
// are none.
func (r Rollouts) Builds(ctx context.Context) ([]Build, error) {
	found, err := r.temporal.WorkerDeploymentClient().GetHandle(Deployment).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return nil, ofBuilds("listing the builds of workers", err)
	}
	workers, err := r.workers(ctx)
	if err != nil {
		return nil, err
	}
	routing := found.Info.RoutingConfig
	is := func(v *worker.WorkerDeploymentVersion, id string) bool { return v != nil && v.BuildID == id }
	var all []Build
	for _, v := range found.Info.VersionSummaries {
		b := Build{ID: v.Version.BuildID, Created: v.CreateTime, State: BuildInactive, Workers: workers[v.Version.BuildID]}
		switch {
		case is(routing.CurrentVersion, b.ID):
			b.State = BuildCurrent
		case is(routing.RampingVersion, b.ID):
			b.State, b.Percent = BuildRamping, routing.RampingVersionPercentage
		case v.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDraining:
			b.State = BuildDraining
		case v.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDrained:
			b.State = BuildDrained
		}
		all = append(all, b)
	}
	return all, nil
}

// workers counts the workers of each build. Temporal forgets one that was killed after five
// minutes, and one that was stopped at once.
func (r Rollouts) workers(ctx context.Context) (map[string]int, error) {
	queue, err := r.temporal.DescribeTaskQueue(ctx, workflows.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return nil, fmt.Errorf("looking for workers: %w", err)
	}
	byBuild := map[string]int{}
	for _, p := range queue.Pollers {
		byBuild[p.GetDeploymentOptions().GetBuildId()]++
	}
	return byBuild, nil
}

// Promote has a build start the new runs: all of them with 100 percent, a share
// with less. Workers of the build must be there. Runs under way stay with theirs.
func (r Rollouts) Promote(ctx context.Context, build string, percent float32) error {
	all, err := r.Builds(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, b := range all {
		ids = append(ids, b.ID)
	}
	i := slices.Index(ids, build)
	switch {
	case i < 0:
		return fmt.Errorf("no worker has the build ID %s; known builds: %s", build, strings.Join(ids, ", "))
	case all[i].Workers == 0:
		return fmt.Errorf("build %s has no workers, so new runs would wait; start them with --build-id %s, then promote it", build, build)
	}
	handle := r.temporal.WorkerDeploymentClient().GetHandle(Deployment)
	if percent < 100 {
		_, err = handle.SetRampingVersion(ctx, client.WorkerDeploymentSetRampingVersionOptions{BuildID: build, Percentage: percent})
	} else {
		_, err = handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
	}
	return ofBuilds("promoting the build "+build, err)
}

func ofBuilds(doing string, err error) error {
	var missing *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return fmt.Errorf("%s: %w", doing, errNoBuilds)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
