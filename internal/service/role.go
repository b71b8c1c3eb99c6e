package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/workflows"
)

// A Role is a process among others on one Temporal: it serves clients, executes runs,
// or both.
type Role struct {
	Sources config.Sources
	Loaded  *config.Loaded // configuration and definitions
	Version string         // of the program

	Temporal    client.Options // of the connection
	Namespace   runs.Namespace // how it is registered, if it may be
	PayloadKeys *payloads.Keys // seal payloads of runs; nil = nothing is sealed
	Keys        Keys

	Database    string // URL of a PostgreSQL; "" = none
	LargeValues bool   // keeps them in the database

	Gateway  *GatewayOptions // nil = it serves no clients
	Worker   *WorkerOptions  // nil = it executes no runs
	Listener net.Listener    // of clients, or only of health; nil = none

	Grace     time.Duration // for requests and calls under way at a stop
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
}

// WorkerOptions set how runs are executed.
type WorkerOptions struct {
	Unproven        bool // runs take unsigned answers
	Deployment      worker.DeploymentOptions
	QuarantineAfter int // lost workers that executed a run alone, after which it is quarantined
	CachedRuns      int // in memory; 0 = as many as fit
}

// Run runs the role until ctx ends.
func (r Role) Run(ctx context.Context) error {
	options, err := r.options(ctx)
	if err != nil {
		return err
	}
	defer options.close()
	s, err := New(options)
	if err != nil {
		return err
	}
	handler := s.health()
	if r.Gateway != nil {
		handler = s.Clients()
	}
	go s.Reload(ctx, r.Sources)
	err = s.Serve(ctx, r.Listener, handler, func() <-chan error {
		r.Logger.Info("ready", append(s.where(r.Listener), "key", r.Keys.Proofs.ID())...)
		return nil
	})
	r.Logger.Info("stopped; runs continue at other workers, or when this process is started again")
	return err
}

// options are those of the service. The caller closes them.
func (r Role) options(ctx context.Context) (Options, error) {
	o, err := r.connect(ctx)
	if err != nil {
		return o, err
	}
	o.Keys, o.Version, o.Gateway = r.Keys.Proofs, r.Version, r.Gateway
	if r.Worker != nil {
		o.Worker, o.Unproven, o.Deployment = true, r.Worker.Unproven, r.Worker.Deployment
	}
	if err := r.open(ctx, &o); err != nil {
		o.close()
		return o, err
	}
	return o, nil
}

// connect makes a client of Temporal, which need not answer yet, and its options.
func (r Role) connect(ctx context.Context) (Options, error) {
	o := r.Temporal
	o.HostPort = cmp.Or(o.HostPort, client.DefaultHostPort)
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	o.Logger = sdklog.NewStructuredLogger(Quiet(r.Logger))
	if err := r.Telemetry.Temporal(&o); err != nil {
		return Options{}, err
	}
	payloads.Seal(&o, r.PayloadKeys)
	options := Options{
		Loaded: r.Loaded, Namespace: o.Namespace, Grace: r.Grace, Telemetry: r.Telemetry, Logger: r.Logger,
		OnStop: func() { r.Logger.Info("stopping", "grace", r.Grace.String()) },
	}
	if r.LargeValues {
		db, err := openDatabase(ctx, r.Database, nil, r.Logger)
		if err != nil {
			return Options{}, err
		}
		payloads.Keep(&o, db.Values())
		options.Values, options.ValuesIn = db.Values(), db
	}
	payloads.ReportUnread(&o, workflows.Unread)
	options.Witness = &runs.Witness{}
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, options.Witness.DialOption())
	if r.Worker != nil {
		CacheRuns(r.Worker.CachedRuns)
		options.Guard = NewGuard(&o, r.Worker.QuarantineAfter, r.LargeValues, r.Keys.Proofs, r.Telemetry, r.Logger)
		options.News, options.clock = NewNews(&o), newClock(&o, r.Logger)
	}
	tc, err := client.NewLazyClient(o)
	if err != nil {
		if options.ValuesIn != nil {
			options.ValuesIn.Close()
		}
		return Options{}, fmt.Errorf("connecting to Temporal at %s: %w", o.HostPort, err)
	}
	options.Temporal, options.Converter = tc, o.DataConverter
	ns := r.Namespace
	ns.Name, ns.Logger = o.Namespace, r.Logger
	options.Prepare = prepareUntilDone(tc, o.HostPort, ns)
	return options, nil
}

// open opens the database, if any.
func (r Role) open(ctx context.Context, o *Options) (err error) {
	if r.Database == "" {
		return nil
	}
	sealing, err := r.Keys.sealing()
	if err != nil {
		return err
	}
	if o.Database, err = openDatabase(ctx, r.Database, sealing, r.Logger); err != nil {
		return err
	}
	o.Published, o.Kept = o.Database.Registry(), o.Database
	return nil
}

const (
	databasePatience = 30 * time.Second // for the database at a start
	databasePause    = time.Second      // between two tries
)

// openDatabase opens a database, and waits for it for a while.
func openDatabase(ctx context.Context, url string, sealing *store.Keys, log *slog.Logger) (*store.Postgres, error) {
	for until := time.Now().Add(databasePatience); ; {
		s, err := store.OpenPostgres(ctx, url, sealing, log)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, fmt.Errorf("%w; to fix it: %s", err, store.Fix(err))
		}
		log.Warn("the database is not ready; trying again", "error", err, "fix", store.Fix(err))
		select {
		case <-time.After(databasePause):
		case <-ctx.Done():
		}
	}
}

// prepareUntilDone makes a function that prepares a namespace for runs, and tries again
// while Temporal cannot be reached.
func prepareUntilDone(c client.Client, address string, ns runs.Namespace) func(context.Context) error {
	return func(ctx context.Context) error {
		for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
			err := runs.Prepare(ctx, c, ns)
			if !errors.Is(err, runs.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
			ns.Logger.Warn("Temporal is not ready; trying again", "address", address, "namespace", ns.Name,
				"in", pause.String(), "error", err, "fix", cmp.Or(runs.Fix(err), "wait for it, or set --address"))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
