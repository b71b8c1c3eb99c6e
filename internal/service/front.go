package service

import (
	"context"
	"fmt"
	"net/http"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// A front is the gateway and the approvals page.
type front struct {
	*shared
	gateway   *gateway.Gateway
	origins   web.OriginPolicy // of requests
	approvals http.Handler     // the page beside the gateway
	signIn    auth.LoginKind   // of that page
}

// newFront makes a front that starts no run before prepared is closed.
func newFront(common *shared, o GatewayOptions, prepared <-chan struct{}) (*front, error) {
	s := &front{shared: common}
	all := s.runs
	bodies := web.NewBodies(web.Work(), web.Patience)
	page, err := s.newApprovals(o, all, bodies)
	if err != nil {
		return nil, err
	}
	s.approvals, s.signIn = page.handler, page.login
	origins := []string{o.PublicURL.origin()}
	for _, allowed := range o.AllowedOrigins {
		origins = append(origins, allowed.origin())
	}
	s.origins = web.OriginPolicy{Origins: origins, Hosts: o.AllowedHosts}
	timing := o.Timing
	timing.Now = s.opts.clock.now
	s.gateway, err = gateway.New(gateway.Options{
		Name:         s.opts.Loaded.Name,
		Prefix:       s.opts.Loaded.Prefix,
		Version:      s.opts.Version,
		Runs:         preparedRuns{all, s.shared, prepared},
		Catalogue:    s.inTurn(all),
		Registry:     s.registry,
		Credentials:  s.credentials,
		Forwarding:   s.opts.Loaded.Forwarding,
		Keys:         gateway.Keys{Key: o.Keys.Signing, RetiredKeys: o.Keys.Retired},
		Access:       gateway.Access{Authenticate: s.authenticate(), Metadata: metadataOf(s.callers), Policy: &s.opts.Loaded.Auth.Policy},
		Timing:       timing,
		Limits:       gateway.Limits{LinkOver: s.linkOver(), MaxRequest: s.maxRequest(), Bodies: bodies, Quotas: gateway.Quotas(s.opts.Loaded.Quotas)},
		Scripting:    gateway.Scripting{Scripts: s.opts.Loaded.Scripts.Agents, ScriptLimits: s.opts.Loaded.Scripts.Limits, MaxDepth: s.opts.Loaded.MaxDepth},
		Answers:      s.opts.Answers,
		OnDisconnect: s.opts.Loaded.OnDisconnect,
		RunURL:       page.url,
		NoRunTools:   o.NoRunTools,
		Observe:      s.observe(),
		Logger:       s.opts.Logger,
	})
	if err == nil {
		s.registry.OnChange(func() { s.gateway.SetOffers(s.offers()) })
	}
	return s, err
}

// preparedRuns start no run before Temporal is prepared.
type preparedRuns struct {
	*runs.Client
	service  *shared
	prepared <-chan struct{}
}

// Held counts the runs of a caller, or fails at once if only the index is away.
func (r preparedRuns) Held(ctx context.Context, caller string) (runs.Held, error) {
	if err := r.service.away(indexNeed); err != nil && r.service.away(temporalNeed) == nil {
		return runs.Held{}, fmt.Errorf("%w: %w", runs.ErrIndexAway, err)
	}
	return r.Client.Held(ctx, caller)
}

// Start starts a run, or fails at once if Temporal is not prepared.
func (r preparedRuns) Start(ctx context.Context, request runs.StartRequest) (runs.Started, error) {
	select {
	case <-r.prepared:
		started, err := r.Client.Start(ctx, request)
		switch {
		case err == nil && started.Attached:
			r.service.opts.Telemetry.SetRun(ctx, string(started.ID))
		case err == nil:
			r.service.opts.Telemetry.RunStarted(ctx, request.Definition.Name, string(started.ID))
		}
		return started, err
	default:
		return runs.Started{}, fmt.Errorf("starting a run of %s: %w yet", request.Definition.Name, runs.ErrUnavailable)
	}
}

// offers are the composite tools: one for each name, and the versions that are
// tools of their own.
func (s *front) offers() []gateway.Offer {
	var offers []gateway.Offer
	for _, e := range s.registry.Current() {
		offers = append(offers, gateway.Offer{Entry: e})
	}
	for _, v := range s.opts.Loaded.Publishing.Versions {
		e, err := s.registry.Resolve(v.Reference)
		if err != nil {
			wanted := &definitions.Definition{Name: v.Reference.Name, Version: v.Reference.Version}
			offers = append(offers, gateway.Offer{Entry: registry.Entry{Definition: wanted}, As: v.As, Missing: err.Error()})
			continue
		}
		offers = append(offers, gateway.Offer{Entry: e, As: v.As})
	}
	return offers
}

// authenticate is nil if requests need no identity.
func (s *front) authenticate() func(*http.Request) (auth.Identity, error) {
	if s.callers == (auth.Everybody{}) {
		return nil
	}
	return s.callers.Authenticate
}

// metadataOf serves where clients get tokens; nil = there is no issuer.
func metadataOf(callers auth.Authenticator) http.Handler {
	h, _ := callers.(http.Handler)
	return h
}

// inTurn lets direct calls of limited backends wait for their turn.
func (s *front) inTurn(all *runs.Client) limitedPool {
	return limitedPool{tracedPool: s.tools(), limits: s.opts.Loaded.Limits, permits: all, log: s.opts.Logger}
}
