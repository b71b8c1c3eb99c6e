// Package service has the process that perdure dev, serve, gateway and worker run: a
// pool of backends with a gateway, a worker, or both on it, made of what its
// configuration says.
package service

import (
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
	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/web"
)

// A Service is what one process serves: a gateway, a worker or both, on one
// pool of backends. It is made with what can be checked without anybody else;
// start then brings it up.
type Service struct {
	*shared
	front    *front    // nil in a process that is only a worker
	executor *executor // nil in a process that is only a gateway

	opened   chan struct{} // closed when requests are served: every backend was tried once
	prepared chan struct{} // closed when Temporal answers and has what runs need
	started  atomic.Bool   // every part is up
	needs    []*need       // without which no calls can be taken
	stopping atomic.Bool

	reloadError atomic.Pointer[error] // what is wrong with changed definitions; nil = nothing
}

// Options are those of a service. Loaded, Temporal and Logger are required, and one of
// Gateway and Worker.
type Options struct {
	Loaded    *config.Loaded
	Temporal  client.Client
	Namespace string                  // of Temporal
	Converter converter.DataConverter // of Temporal; nil = the SDK's default
	// Prepare makes the namespace ready; it is tried until it succeeds or says
	// that trying is in vain. nil = it is ready.
	Prepare func(context.Context) error
	// Grants are what callers have left. nil = no backend wants it.
	Grants store.Grants
	// Keys sign what runs are told, and say what they believe.
	Keys     *signing.Keys
	Unproven bool // whether runs take answers that nobody has signed
	// Published is where published definitions are. nil = nothing can be published.
	Published store.Registry
	Database  *store.Postgres // that has both; nil = none
	// Values are what is too large for histories. nil = nothing is.
	Values   store.Values
	ValuesIn *store.Postgres // that has them; nil = none does
	Gateway  *GatewayOptions // nil = none
	Worker   bool            // whether it executes runs
	// Answers are kept for the next process on this machine. nil = they are not.
	Answers gateway.Answers
	// Deployment is the build of the worker, for versioning.
	Deployment worker.DeploymentOptions
	Version    string // of the program
	// Guard stands between the worker and Temporal, on the connection of Temporal.
	// nil = nothing does.
	Guard *quarantine.Guard
	// Grace is how long requests and calls under way get to end at a stop.
	Grace time.Duration
	// OnStop is called when a stop begins. nil = nobody wants to know.
	OnStop func()
	// Telemetry is told what happens. nil = nobody is.
	Telemetry *telemetry.Telemetry
	Logger    *slog.Logger
}

// Close ends the connections among the options.
func (o Options) Close() {
	if o.Database != nil {
		o.Database.Close()
	}
	if o.ValuesIn != nil {
		o.ValuesIn.Close()
	}
	o.Temporal.Close()
}

// New makes the parts. Nothing is called and nothing runs yet.
func New(o Options) (*Service, error) {
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

// start brings the parts up, and returns when calls can be taken. Backends
// that are down and a Temporal that does not answer are waited for: the ones
// for a while, the other for as long as it takes.
func (s *Service) start(ctx context.Context) error {
	s.pool.Start(ctx)
	ready := make(chan error, 1)
	go func() { ready <- s.prepare(ctx) }()
	s.awaitBackends(ctx)
	s.startRegistry(ctx)
	close(s.opened)
	if err := <-ready; err != nil {
		return err
	}
	close(s.prepared)
	for _, n := range s.needs {
		go n.watch(ctx)
	}
	// The worker takes up the runs of an earlier process at once, so the
	// backends that these call come first.
	if s.executor != nil {
		if err := s.executor.start(ctx); err != nil {
			return err
		}
	}
	s.started.Store(true)
	return nil
}

// Serve starts the service and serves requests that come to the listener, nil
// = none, until ctx or another way in ends. ready is called once, when calls
// can be taken.
//
// Then it stops in order: no more requests and steps are taken, those under way
// get the grace period to end, and after them their backends end. Runs are left
// alone: whoever has Temporal goes on with them.
func (s *Service) Serve(ctx context.Context, listener net.Listener, handler http.Handler, ready func() (ended <-chan error)) error {
	// Requests outlive ctx: they get time to end.
	server := web.New(web.Options{Handler: handler, Origins: s.origins(), MaxBody: s.maxRequest(), Logger: s.opts.Logger})
	ended := make(chan error, 1)
	if listener != nil {
		go func() { ended <- server.Serve(listener) }()
	}
	starting, cancel := context.WithCancel(ctx) // and what goes on beside
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- s.start(starting) }()
	var other <-chan error // another way in
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

// origins is whose requests are served.
func (s *Service) origins() web.OriginPolicy {
	if s.front == nil {
		return web.OriginPolicy{}
	}
	return s.front.origins
}

// SignIn says how people sign in to the approvals page.
func (s *Service) SignIn() auth.LoginKind { return s.front.signIn }

// ServeStdio serves one client on a pair of streams until it goes away.
func (s *Service) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.front.gateway.ServeStdio(ctx, in, out)
}

// Where says for the log where the service is.
func (s *Service) Where(listener net.Listener) []any {
	at := []any{"namespace", s.opts.Namespace, "worker", s.executor != nil}
	if listener != nil {
		at = append(at, "listen", listener.Addr().String())
	}
	if s.front != nil {
		at = append(at, "mcp", string(s.opts.Gateway.PublicURL)+Endpoint, "definitions", len(s.opts.Loaded.Definitions))
	}
	return at
}

// stop ends the parts. The gateway's streams are ended when nobody can connect
// any more, so that whoever comes back comes to another replica.
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
