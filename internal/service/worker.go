package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/workflows"
)

// busyLimit is how long a run may compute between two waits, on a busy machine;
// a workflow task has 10 s.
const busyLimit = 8 * time.Second

// largeBusyLimit is the same where runs hold large values; see
// workflows.LongTask.
const largeBusyLimit = 25 * time.Second

// busy is how long a run may compute between two waits.
func busy(largeValues bool) time.Duration {
	if largeValues {
		return largeBusyLimit
	}
	return busyLimit
}

// NewGuard puts a guard on the connection and the logger of a new worker, which quarantines a run when
// limit workers were lost that executed it alone. Keys check the operators' signals.
func NewGuard(o *client.Options, limit int, largeValues bool, keys *secrets.Keys, metrics *telemetry.Telemetry, log *slog.Logger) *quarantine.Guard {
	g := quarantine.New(quarantine.Options{
		TaskQueue: workflows.TaskQueue, Limit: limit, Computing: busy(largeValues), Full: processMemory().limits(),
		Keys: keys, Alone: metrics.RunExecutedAlone, Quarantined: metrics.RunQuarantined, Logger: log,
	})
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, g.DialOption())
	o.Logger = g.Logger(o.Logger)
	return g
}

// NewNews has the connection of a worker that is about to be made bring news of runs to
// the gateway of the same process.
func NewNews(o *client.Options) *runs.News {
	n := runs.NewNews()
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, n.DialOption())
	return n
}

// An executor takes up steps of runs.
type executor struct {
	*shared
	worker  worker.Worker // nil = it does not
	hosting func()        // stops hosting the limits of backends; nil = not hosted here
}

// start has this process take up steps of runs, until stop, and delete the values of
// runs that are gone until ctx ends.
func (s *executor) start(ctx context.Context) error {
	gauge := processMemory()
	// Each backend may be hosted here, which takes a slot for as long as it lasts.
	tuner, err := s.opts.Guard.Tuner(gauge.slots(1+len(s.opts.Loaded.Backends)), gauge.slots(1))
	if err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	s.worker = worker.New(s.opts.Temporal, workflows.TaskQueue, worker.Options{
		Tuner:                        tuner,
		MaxHeartbeatThrottleInterval: time.Second,
		WorkerStopTimeout:            s.opts.Grace + handOver,
		DeadlockDetectionTimeout:     busy(s.opts.Values != nil),
		DeploymentOptions:            s.opts.Deployment,
		Interceptors:                 slices.Concat(gauge.interceptors(), interceptors(s.opts.Telemetry), plantedInRuns(), []interceptor.WorkerInterceptor{workflows.InPlace()}),
	})
	workflows.Register(s.worker, workflows.Trust{Keys: s.opts.Keys, Unproven: s.opts.Unproven})
	all := s.runs
	history := all.CallHistory()
	o := activities.Options{
		CallBeforeReset: history.CallBeforeReset, LastAttempt: history.LastAttempt, SentUnread: history.SentUnread, HistorySize: history.HistorySize,
		CatchUp: all.CatchUp, Resolve: s.resolve, Outcome: all.ChildOutcome, Latest: all.Latest, TimesAnew: history.TimesAnew,
		UndoneSteps: history.UndoneSteps,
	}
	if s.opts.ValuesIn != nil {
		o.Keeps = s.opts.ValuesIn.Probe
	}
	if s.opts.Loaded.Auth.Policy.Ruled() {
		o.Permits = s.permits
	}
	calls := activities.New(planted(keptPool{s.tools(), s.credentials}), s.opts.Logger, o)
	activities.Register(s.worker, calls)
	activities.RegisterHost(s.worker, s.host(calls, gauge))
	if err := s.worker.Start(); err != nil {
		s.worker = nil
		return fmt.Errorf("starting the worker: %w", err)
	}
	go emptyCache(ctx, memoryLimit())
	s.hosting = s.startHosting(all)
	if s.opts.Values != nil {
		go s.sweepValues(ctx)
	}
	if s.opts.grants() != nil {
		go s.sweepForwarded(ctx)
	}
	return nil
}

// stop ends what start has begun.
func (s *executor) stop() {
	if s.hosting != nil {
		s.hosting()
	}
	if s.worker == nil {
		return
	}
	s.worker.Stop()
	if s.opts.Guard != nil {
		s.opts.Guard.Stopped()
	}
}

// refused is the error of a call that a run may not make. Who sends a script is told
// what who calls the tool is told: that there is none.
func refused(ref workflows.DefinitionRef, d *definitions.Definition) error {
	switch {
	case runs.IsSentScript(runs.RunID(ref.RunID)):
		return activities.ErrNoDefinition
	case d.Expose.Hidden:
		return activities.ErrNotAdmitted
	}
	return activities.ErrNotPermitted
}

// resolve finds the definition that a step calls among those that are served.
func (s *executor) resolve(ctx context.Context, ref workflows.DefinitionRef) (found workflows.ResolvedDefinition, err error) {
	means, err := definitions.ParseReference(ref.Workflow)
	if err != nil {
		return found, fmt.Errorf("%w: %w", activities.ErrInvalidReference, err)
	}
	entry, err := s.registry.Find(ctx, means)
	d := entry.Definition
	var missing *registry.NotFoundError
	switch {
	case errors.As(err, &missing):
		return found, fmt.Errorf("%w: %w", activities.ErrNoDefinition, err)
	case err != nil: // it may pass
		return found, err
	}
	if !admits(&s.opts.Loaded.Auth, ref, d) {
		return found, refused(ref, d)
	}
	if err := d.Scripts().Loadable(); err != nil {
		return found, fmt.Errorf("%w: %s cannot be called: %w", activities.ErrNoDefinition, d.Name, err)
	}
	found.Definition = workflows.Pin(d)
	tools := gateway.StepTools(s.pool)
	if found.Tools, err = gateway.Snapshot(d, tools, s.pool.Unseen); err != nil {
		return found, err
	}
	var drifted *registry.DriftError
	if errors.As(s.registry.CheckDrift(entry, tools), &drifted) {
		return found, &workflows.Error{Code: codes.ToolDrift, Category: codes.CategoryTool, Tool: drifted.Tool, Message: drifted.Error()}
	}
	as := ref.As
	if d.RunAs == definitions.AsComposite {
		as = d.Name
	}
	gateway.AddDynamic(d, s.pool.Tools(), found.Tools, func(name string) bool {
		return s.permits(workflows.ToolCall{Tool: name, Caller: ref.Caller, As: as})
	})
	return found, nil
}
