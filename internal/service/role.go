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

// A Role is what a process does beside others, at a Temporal that all of them share:
// it serves clients, executes runs, or does both.
type Role struct {
	Sources config.Sources
	Loaded  *config.Loaded // what the sources say
	Version string         // of the program

	Temporal    client.Options // how it is reached
	Retention   time.Duration  // of closed runs, where the namespace is registered
	PayloadKeys *payloads.Keys // seal what runs hold; nil = nothing is sealed
	Keys        Keys

	Database    string // URL of a PostgreSQL; "" = none, where nothing needs one
	LargeValues bool   // are kept in the database

	Gateway  *GatewayOptions // nil = it serves no clients
	Worker   *WorkerOptions  // nil = it executes no runs
	Listener net.Listener    // of clients, or of health alone; nil = nobody asks

	Grace     time.Duration // that requests and calls under way get at a stop
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
}

// WorkerOptions say how runs are executed.
type WorkerOptions struct {
	Unproven        bool // runs take answers that nobody has signed
	Deployment      worker.DeploymentOptions
	QuarantineAfter int // losses of its worker after which a run is quarantined
	CachedRuns      int // that are kept in memory; 0 = as many as fit
}

// Run does what the role is for, until ctx ends.
func (r Role) Run(ctx context.Context) error {
	options, err := r.options(ctx)
	if err != nil {
		return err
	}
	defer options.Close()
	s, err := New(options)
	if err != nil {
		return err
	}
	handler := s.Health()
	if r.Gateway != nil {
		handler = s.Clients()
		go s.Reload(ctx, r.Sources)
	}
	err = s.Serve(ctx, r.Listener, handler, func() <-chan error {
		r.Logger.Info("ready", s.Where(r.Listener)...)
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
		o.Close()
		return o, err
	}
	return o, nil
}

// connect makes a client of Temporal, which need not answer yet, and the options
// that belong to it.
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
		db, err := OpenDatabase(ctx, r.Database, nil, r.Logger)
		if err != nil {
			return Options{}, err
		}
		payloads.Keep(&o, db.Values())
		options.Values, options.ValuesIn = db.Values(), db
	}
	payloads.ReportUnread(&o, workflows.Unread)
	if r.Worker != nil {
		CacheRuns(r.Worker.CachedRuns)
		options.Guard = NewGuard(&o, r.Worker.QuarantineAfter, r.LargeValues, r.Keys.Proofs, r.Telemetry, r.Logger)
	}
	tc, err := client.NewLazyClient(o)
	if err != nil {
		if options.ValuesIn != nil {
			options.ValuesIn.Close()
		}
		return Options{}, fmt.Errorf("connecting to Temporal at %s: %w", o.HostPort, err)
	}
	options.Temporal, options.Converter = tc, o.DataConverter
	options.Prepare = prepareUntilDone(tc, o.HostPort, runs.Namespace{Name: o.Namespace, Retention: r.Retention, Logger: r.Logger})
	return options, nil
}

// open opens the database, if there is one, for what is kept in it.
func (r Role) open(ctx context.Context, o *Options) (err error) {
	if r.Database == "" {
		return nil
	}
	var sealing *store.Keys
	delegating := len(r.Loaded.Delegating()) > 0
	if delegating {
		if sealing, err = r.Keys.Sealing(); err != nil {
			return err
		}
	}
	if o.Database, err = OpenDatabase(ctx, r.Database, sealing, r.Logger); err != nil {
		return err
	}
	o.Published = o.Database.Registry()
	if delegating {
		o.Grants = o.Database
	}
	return nil
}

const (
	databasePatience = 30 * time.Second // that a start waits for the database
	databasePause    = time.Second      // between two tries
)

// OpenDatabase opens a database, for which it waits a while.
func OpenDatabase(ctx context.Context, url string, sealing *store.Keys, log *slog.Logger) (*store.Postgres, error) {
	for until := time.Now().Add(databasePatience); ; {
		s, err := store.OpenPostgres(ctx, url, sealing, log)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, err
		}
		log.Warn("the database is not ready; trying again", "error", err)
		select {
		case <-time.After(databasePause):
		case <-ctx.Done():
		}
	}
}

// prepareUntilDone returns what makes a namespace ready for runs, trying again
// for as long as Temporal cannot be reached.
func prepareUntilDone(c client.Client, address string, ns runs.Namespace) func(context.Context) error {
	return func(ctx context.Context) error {
		for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
			err := runs.Prepare(ctx, c, ns)
			if !errors.Is(err, runs.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
			ns.Logger.Warn("Temporal is not ready; trying again", "address", address, "namespace", ns.Name,
				"in", pause.String(), "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
