package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/runs"
)

// buildFlags name the build of the workers of a process.
type buildFlags struct {
	BuildID   string `help:"Build of this worker, such as a version or the digest of an image. Workers of the build that started a run execute it, and the promoted build starts new runs (see perdure rollout). Default: any worker executes any run." env:"PERDURE_BUILD_ID" placeholder:"ID"`
	BuildRuns string `help:"Which build executes runs under way after another build was promoted: pinned, the build that started them; upgraded, the promoted one." enum:"pinned,upgraded" default:"pinned"`
}

// deployment is the worker versioning of Temporal for these flags.
func (f buildFlags) deployment() worker.DeploymentOptions {
	if f.BuildID == "" {
		return worker.DeploymentOptions{}
	}
	behavior := workflow.VersioningBehaviorPinned
	if f.BuildRuns == "upgraded" {
		behavior = workflow.VersioningBehaviorAutoUpgrade
	}
	return worker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   worker.WorkerDeploymentVersion{DeploymentName: runs.Deployment, BuildID: f.BuildID},
		DefaultVersioningBehavior: behavior,
	}
}

type rolloutCommand struct {
	Status  rolloutStatusCommand  `cmd:"" help:"List the builds of workers, and which one starts new runs."`
	Promote rolloutPromoteCommand `cmd:"" help:"Let a build start new runs, or a share of them."`
}

type rolloutStatusCommand struct {
	temporalFlags `embed:""`
}

func (rolloutStatusCommand) Help() string {
	return `A drained build has no more runs: its workers can be stopped. The runs of a draining
build without workers wait: start these again.
Example:

    perdure rollout status --address temporal:7233`
}

func (r rolloutStatusCommand) Run(ctx context.Context, c *console) error {
	all, closeClient, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer closeClient()
	builds, err := all.Rollouts().Builds(ctx)
	if err != nil {
		return err
	}
	if r.Output == "json" {
		return c.printJSON(builds)
	}
	w := c.table(c.out)
	fmt.Fprintln(w, "BUILD\tSTATE\tWORKERS\tSINCE")
	for _, b := range builds {
		state := string(b.State)
		if b.State == runs.BuildRamping {
			state += fmt.Sprintf(" %g%%", b.Percent)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", b.ID, state, b.Workers, b.Created.UTC().Format(time.DateTime))
	}
	return w.Flush()
}

type rolloutPromoteCommand struct {
	temporalFlags `embed:""`

	Build   string  `arg:"" help:"Build, as in --build-id of its workers."`
	Percent float32 `help:"Share of new runs that it starts, in percent; the current build starts the rest." default:"100" placeholder:"N"`
}

func (rolloutPromoteCommand) Help() string {
	return `Workers of the build must be running. Runs of other builds stay with these, unless
their workers have --build-runs upgraded: keep these workers until "perdure rollout
status" shows them as drained. To roll back, promote the old build again. Examples:

    perdure rollout promote v1.4.0 --percent 10
    perdure rollout promote v1.4.0`
}

func (r rolloutPromoteCommand) Validate() error {
	if r.Percent <= 0 || r.Percent > 100 {
		return usagef("--percent %g: must be more than 0 and at most 100", r.Percent)
	}
	return nil
}

func (r rolloutPromoteCommand) Run(ctx context.Context, c *console) error {
	all, closeClient, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer closeClient()
	if err := all.Rollouts().Promote(ctx, r.Build, r.Percent); err != nil {
		return err
	}
	if r.Output == "json" {
		return c.printJSON(map[string]any{"build": r.Build, "percent": r.Percent})
	}
	_, err = fmt.Fprintf(c.out, "%s starts %g%% of new runs\n", r.Build, r.Percent)
	return err
}
