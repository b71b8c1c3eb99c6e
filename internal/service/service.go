// Package service is the process of perdure dev, serve, gateway and worker: a pool of
// backends with a gateway, a worker, or both, made from a configuration.
package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/web"
)

// A Service is a gateway, a worker or both, on one pool of backends. New checks what
// needs no other process; start connects.
type Service struct {
	*shared
	front    *front    // nil in a process that is only a worker
	executor *executor // nil in a process that is only a gateway

	opened   chan struct{} // closed when every backend was tried once, so that requests are served
	prepared chan struct{} // closed when Temporal is prepared for runs
	started  atomic.Bool   // every part is up
	stopping atomic.Bool
	reported runs.Turns // of callers, to get the status

	reloadError atomic.Pointer[error] // mistakes in changed definitions; nil = none
}

// Options are those of a service. Loaded, Temporal and Logger are required, and one of
// Gateway and Worker.
type Options struct {
	Loaded    *config.Loaded
	Temporal  client.Client
	Namespace string                  // of Temporal
	Converter converter.DataConverter // of Temporal; nil = the SDK's default
	// Prepare makes the namespace ready; it is tried until it succeeds or gives an error
	// that does not pass. nil = it is ready.
	Prepare func(context.Context) error
	// Kept has the credentials of callers, and what backends have listed. nil = no backend
	// needs the first, and the second is not kept.
	Kept store.Grants
	// Keys sign and verify signals to runs.
	Keys     *secrets.Keys
	Unproven bool // runs take unsigned answers
	// Published has the published definitions. nil = nothing can be published.
	Published store.Registry
	Database  *store.Postgres // that has both; nil = none
	// Values keeps values that are too large for histories. nil = none.
	Values   store.Values
	ValuesIn *store.Postgres // that has them; nil = none
	Gateway  *GatewayOptions // nil = none
	Worker   bool            // it executes runs
	// Answers are kept for the next process on this machine. nil = not kept.
	Answers gateway.Answers
	// Deployment is the build of the worker, for versioning.
	Deployment worker.DeploymentOptions
	Version    string // of the program
	// Guard intercepts the worker's connection of Temporal. nil = none.
	Guard *quarantine.Guard
	// News of the worker, on the connection of Temporal. nil = there is none.
	News *runs.News
	// Witness of the connection of Temporal. nil = there is none.
	Witness *runs.Witness

	clock *clock // on the worker's connection of Temporal, if there is one; nil = that of New
	// Grace is the time for requests and calls under way at a stop.
	Grace time.Duration
	// OnStop is called when a stop begins. nil = not called.
	OnStop func()
	// Telemetry gets traces and metrics. nil = none.
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
}

// grants are the credentials of callers; nil = no backend needs them.
func (o Options) grants() store.Grants {
	if len(o.Loaded.KeepsForCallers()) == 0 {
		return nil
	}
	return o.Kept
}

// close ends the connections among the options.
func (o Options) close() {
	if o.Database != nil {
		o.Database.Close()
	}
	if o.ValuesIn != nil {
		o.ValuesIn.Close()
	}
	o.Temporal.Close()
}

// New makes the parts, without starting or calling anything.
func New(o Options) (*Service, error) {
	o.Loaded.Auth.Policy.Exchangeable() // by Reload
	o.clock = cmp.Or(o.clock, &clock{log: o.Logger})
	common, err := newShared(o)
	if err != nil {
		return nil, err
	}
	s := &Service{shared: common, opened: make(chan struct{}), prepared: make(chan struct{})}
	if o.Gateway != nil {
		if s.front, err = newFront(common, *o.Gateway, s.prepared); err != nil {
			return nil, err
		}
	}
	if o.Worker {
		s.executor = &executor{shared: common}
	}
	s.needs = s.newNeeds()
	return s, s.watch(s.runs)
}

// start starts the parts, and returns when the service takes calls. It waits for
// backends for a while, and for Temporal without limit.
func (s *Service) start(ctx context.Context) error {
	s.pool.Start(ctx)
	ready := make(chan error, 1)
	go func() { ready <- s.prepare(ctx) }()
	s.awaitBackends(ctx)
	s.startRegistry(ctx)
	s.warnUnmatched(s.opts.Loaded)
	close(s.opened)
	if err := <-ready; err != nil {
		return err
	}
	close(s.prepared)
	for _, n := range s.needs {
		go n.watch(ctx)
	}
	// The worker resumes runs of earlier processes at once, so their backends come
	// first.
	if s.executor != nil {
		if err := s.executor.start(ctx); err != nil {
			return err
		}
	}
	s.started.Store(true)
	return nil
}

// Serve starts the service and serves requests of the listener, nil = none, until ctx
// or another source of requests ends. It calls ready once, when it takes calls.
//
// Then it stops in order: it takes no more requests and steps, those under way get the
// grace period, and then the backends end. Runs stay in Temporal: other workers, or the
// next start, continue them.
func (s *Service) Serve(ctx context.Context, listener net.Listener, handler http.Handler, ready func() (ended <-chan error)) error {
	// Requests outlive ctx: they get time to end.
	server := web.New(web.Options{Handler: handler, Origins: s.origins(), MaxBody: s.maxRequest(), Logger: s.opts.Logger})
	ended := make(chan error, 1)
	if listener != nil {
		go func() { ended <- server.Serve(listener) }()
	}
	starting, cancel := context.WithCancel(ctx) // also for background work
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- s.start(starting) }()
	var other <-chan error // the end of another source of requests
	var err error
	for running := true; running; {
		select {
		case err = <-started:
			started = nil
			if running = err == nil; running {
				other = ready()
			}
		case err = <-ended:
			err = fmt.Errorf("serving requests: %w", err)
			running = false
		case err = <-other:
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	cancel()
	if started != nil {
		<-started
	}
	s.stop(server)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// origins is the policy of the requests that are served.
func (s *Service) origins() web.OriginPolicy {
	if s.front == nil {
		return web.OriginPolicy{}
	}
	return s.front.origins
}

// SignIn reports how people sign in to the approvals page.
func (s *Service) SignIn() auth.LoginKind { return s.front.signIn }

// ServeStdio serves one client on a pair of streams until it disconnects.
func (s *Service) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.front.gateway.ServeStdio(ctx, in, out)
}

// where gives the addresses of the service, for the log.
func (s *Service) where(listener net.Listener) []any {
	at := []any{"namespace", s.opts.Namespace, "worker", s.executor != nil}
	if listener != nil {
		at = append(at, "listen", listener.Addr().String())
	}
	if s.front != nil {
		at = append(at, "mcp", string(s.opts.Gateway.PublicURL)+Endpoint, "definitions", len(s.opts.Loaded.Definitions))
	}
	return at
}

// stop ends the parts. The gateway's streams end after its port is closed, so that
// clients reconnect to another replica.
func (s *Service) stop(server *web.Server) {
	s.stopping.Store(true)
	if s.opts.OnStop != nil {
		s.opts.OnStop()
	}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if s.executor != nil {
			s.executor.stop()
		}
	}()
	if s.front != nil {
		server.OnShutdown(s.front.gateway.Drain)
	}
	if !server.End(s.opts.Grace) {
		s.opts.Logger.Warn("closed requests that did not end within the grace period", "grace", s.opts.Grace.String())
	}
	if s.front != nil {
		s.front.gateway.Close()
	}
	<-worked
	s.pool.Close()
}
