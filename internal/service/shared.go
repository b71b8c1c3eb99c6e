package service

import (
	"context"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/workflows"
)

// Shared is what a gateway and a worker of one process share.
type shared struct {
	opts        Options
	pool        *backends.Pool
	credentials *credentials.Broker
	runs        *runs.Client // of all processes
	registry    *registry.Registry
	callers     auth.Authenticator
	needs       []*need // without which no calls are taken
}

func newShared(o Options) (*shared, error) {
	pool, broker, err := newPool(o)
	if err != nil {
		return nil, err
	}
	s := &shared{opts: o, pool: pool, credentials: broker,
		registry: registry.New(registry.Options{Store: o.Published, Drift: o.Loaded.Publishing.Drift, Logger: o.Logger})}
	s.runs = s.newRuns()
	var public WebURL
	if o.Gateway != nil {
		public = o.Gateway.PublicURL
	}
	s.callers, err = Callers(o.Loaded.Auth, public, o.Logger)
	return s, err
}

// newRuns makes the client of the runs of all processes.
func (s *shared) newRuns() *runs.Client {
	c := runs.Config{Client: s.opts.Temporal, Keys: s.opts.Keys, News: s.opts.News, Witness: s.opts.Witness, Namespace: s.opts.Namespace, DataConverter: s.opts.Converter, Logger: s.opts.Logger, Reserve: web.Reserve, Reader: web.Reader, Now: s.opts.clock.now}
	if s.opts.Values != nil {
		c.LargeInputs, c.MaxValue = payloads.Writer(c.DataConverter, s.opts.Values), payloads.MaxValue
	}
	c.DataConverter = payloads.Reader(c.DataConverter, s.opts.Values)
	return runs.New(c)
}

// tools is the traced pool.
func (s *shared) tools() tracedPool {
	return newTracedPool(s.pool, s.opts.Telemetry, s.opts.Loaded.Backends)
}

func (s *shared) prepare(ctx context.Context) error {
	if s.opts.Prepare == nil {
		return nil
	}
	return s.opts.Prepare(ctx)
}

// firstTry is how long a start waits for backends.
const firstTry = 10 * time.Second

// awaitBackends waits until each backend is up or known to be down.
func (s *shared) awaitBackends(ctx context.Context) {
	awaitTried(ctx, s.pool, firstTry)
}

// startRegistry loads the definitions of files and the publications, and follows these
// until ctx ends.
func (s *shared) startRegistry(ctx context.Context) {
	if err := s.registry.Load(ctx); err != nil {
		s.opts.Logger.Warn("cannot read published versions; trying again", "error", err)
	}
	s.registry.SetFiles(s.opts.Loaded.Definitions)
	go s.registry.Follow(ctx)
}

// warnUnmatched logs the rules of a configuration that name what no tool is called.
func (s *shared) warnUnmatched(found *config.Loaded) {
	offered := []string{}
	for _, e := range s.registry.Current() {
		offered = append(offered, e.Definition.Name)
	}
	for _, d := range found.Unmatched(s.pool.Tools(), offered) {
		s.opts.Logger.Warn(d.Message, "check", d.Check, "at", d.Pos.String())
	}
}

// permits reports whether a run may call a tool: with the permission of its caller, or
// of its composite tool, as the definition sets.
func (s *shared) permits(call workflows.ToolCall) bool {
	return s.opts.Loaded.Auth.Policy.May(acting(call.Caller, call.As), auth.Call, auth.Object{Tool: call.Tool})
}

// mayKnow reports whether a caller may know a tool of a backend.
func (s *shared) mayKnow(who auth.Identity, tool string) bool {
	policy, on := &s.opts.Loaded.Auth.Policy, auth.Object{Tool: tool}
	return policy.May(who, auth.Call, on) || policy.May(who, auth.See, on) || policy.May(who, auth.Publish, on)
}

// stateLimit bounds the query for the limits of a backend.
const stateLimit = time.Second

// limited gives the state of a backend's limits; nil = it has none, or they have no
// host.
func (s *shared) limited(ctx context.Context, backend string) *runs.BackendState {
	if !s.opts.Loaded.Limits[backend].Limited() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	state, err := s.runs.BackendState(ctx, backend)
	if err != nil {
		return nil
	}
	return &state
}

// linkOver is the size from which clients get a link to the output of a run, in bytes;
// 0 = never.
func (s *shared) linkOver() int {
	if s.opts.Values == nil {
		return 0
	}
	return 1 << 20
}

// maxRequest is the size of the largest request of a client, in bytes.
func (s *shared) maxRequest() int64 {
	if s.opts.Values == nil {
		return gateway.DefaultMaxRequest
	}
	return runs.MaxLargeArguments + 1<<20
}
