package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/runs"
)

// buildFlags say which build the workers of a process are.
type buildFlags struct {
	BuildID   string `help:"Which build of perdure this worker is, such as a version or the digest of an image: a run is then executed by workers of the build that started it, and new runs are started by the build that was promoted (see perdure rollout). Default: any worker executes any run." env:"PERDURE_BUILD_ID" placeholder:"ID"`
	BuildRuns string `help:"What becomes of runs under way when another build is promoted: pinned, they stay with the build that started them; upgraded, they go over to it." enum:"pinned,upgraded" default:"pinned"`
}

// deployment is what Temporal is told of a worker.
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
	Status  rolloutStatusCommand  `cmd:"" help:"List the builds of the workers, and which of them starts new runs."`
	Promote rolloutPromoteCommand `cmd:"" help:"Have a build start the new runs, or a share of them."`
}

type rolloutStatusCommand struct {
	temporalFlags `embed:""`
}

func (rolloutStatusCommand) Help() string {
	return `A build that is drained has no runs any more: its workers can be stopped.
Example:

    perdure rollout status --address temporal:7233`
}

func (r rolloutStatusCommand) Run(ctx context.Context, c *console) error {
	all, closeClient, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer closeClient()
	builds, err := all.Builds(ctx)
	if err != nil {
		return err
	}
	if r.Output == "json" {
		return json.NewEncoder(c.out).Encode(builds)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUILD\tSTATE\tSINCE")
	for _, b := range builds {
		state := string(b.State)
		if b.State == runs.BuildRamping {
			state += fmt.Sprintf(" %g%%", b.Percent)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", b.ID, state, b.Created.UTC().Format(time.DateTime))
	}
	return w.Flush()
}

type rolloutPromoteCommand struct {
	temporalFlags `embed:""`

	Build   string  `arg:"" help:"The build, as its workers say with --build-id."`
	Percent float32 `help:"Share of the new runs that it starts, in percent; the rest stays with the current build." default:"100" placeholder:"N"`
}

func (rolloutPromoteCommand) Help() string {
	return `Workers of the build must be there. Runs that other builds have started stay with
these, unless their workers run with --build-runs upgraded: keep them until
"perdure rollout status" says that they are drained. Going back is promoting the
old build again.

    perdure rollout promote v1.4.0 --percent 10
    perdure rollout promote v1.4.0`
}

func (r rolloutPromoteCommand) Validate() error {
	if r.Percent <= 0 || r.Percent > 100 {
		return usagef("--percent %g: a share is more than 0 and at most 100", r.Percent)
	}
	return nil
}

func (r rolloutPromoteCommand) Run(ctx context.Context, c *console) error {
	all, closeClient, err := r.runsClient(ctx)
	if err != nil {
		return err
	}
	defer closeClient()
	if err := all.Promote(ctx, r.Build, r.Percent); err != nil {
		return err
	}
	if r.Output == "json" {
		return json.NewEncoder(c.out).Encode(map[string]any{"build": r.Build, "percent": r.Percent})
	}
	_, err = fmt.Fprintf(c.out, "%s starts %g%% of the new runs\n", r.Build, r.Percent)
	return err
}
