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
	o.Version, o.Gateway = r.Version, r.Gateway
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
	at := r.Temporal
	at.HostPort = cmp.Or(at.HostPort, client.DefaultHostPort)
	at.Namespace = cmp.Or(at.Namespace, client.DefaultNamespace)
	at.Logger = sdklog.NewStructuredLogger(Quiet(r.Logger))
	o := Options{
		Loaded: r.Loaded, Keys: r.Keys.Proofs, Namespace: at.Namespace, Grace: r.Grace, Telemetry: r.Telemetry, Logger: r.Logger,
		OnStop: func() { r.Logger.Info("stopping", "grace", r.Grace.String()) },
	}
	if r.LargeValues {
		db, err := openDatabase(ctx, r.Database, nil, r.Logger)
		if err != nil {
			return Options{}, err
		}
		o.Values, o.ValuesIn = db.Values(), db
	}
	err := o.Connect(at, r.PayloadKeys, r.Worker, func(at client.Options) (client.Client, error) {
		o.Witness = &runs.Witness{}
		at.ConnectionOptions.DialOptions = append(at.ConnectionOptions.DialOptions, o.Witness.DialOption())
		if r.Worker != nil {
			o.clock = newClock(&at, r.Logger)
		}
		return client.NewLazyClient(at)
	})
	if err != nil {
		if o.ValuesIn != nil {
			o.ValuesIn.Close()
		}
		return Options{}, fmt.Errorf("connecting to Temporal at %s: %w", at.HostPort, err)
	}
	ns := r.Namespace
	ns.Name, ns.Logger = at.Namespace, r.Logger
	o.Prepare = prepareUntilDone(o.Temporal, at.HostPort, ns)
	return o, nil
}

// Connect makes the client of Temporal by dial, with all that has a part in its connection:
// traces, the keys that seal, o.Values and, where runs are executed, their quarantine and
// their news.
func (o *Options) Connect(at client.Options, keys *payloads.Keys, w *WorkerOptions, dial func(client.Options) (client.Client, error)) (err error) {
	if err := o.Telemetry.Temporal(&at); err != nil {
		return err
	}
	payloads.Seal(&at, keys)
	if o.Values != nil {
		payloads.Keep(&at, o.Values)
	}
	payloads.ReportUnread(&at, workflows.Unread)
	if w != nil {
		cacheRuns(w.CachedRuns)
		o.Guard = NewGuard(&at, w.QuarantineAfter, o.Values != nil, o.Keys, o.Telemetry, o.Logger)
		o.News = NewNews(&at)
	}
	o.Converter = at.DataConverter
	o.Temporal, err = dial(at)
	return err
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
