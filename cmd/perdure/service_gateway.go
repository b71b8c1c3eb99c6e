package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/gateway/inbox"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/web"
)

// gatewayFlags say how clients are served.
type gatewayFlags struct {
	PublicURL       webURL        `help:"URL at which clients and people reach this server, without /mcp, e.g. https://tools.example.com. Default: where it listens." placeholder:"URL"`
	AllowedOrigin   []webURL      `help:"Origin of web pages that may send requests, e.g. https://chat.example.com. Repeatable." placeholder:"ORIGIN" sep:"none"`
	AllowedHost     []string      `help:"Name by which requests may call this server, with its port if it is not that of the scheme. Repeatable. Always allowed: that of --public-url, addresses, localhost and, where the server is not called by loopback, names without public DNS." placeholder:"HOST" sep:"none"`
	AllowAnonymous  bool          `help:"Serve everybody who reaches --listen, also beyond this machine, where incomingAuth names no callers."`
	CallPatience    time.Duration `help:"How long a call blocks for a client that cannot be asked questions; 0 = for ever." default:"50s"`
	ReattachWindow  time.Duration `help:"For how long after its end a run whose answer was lost is given to a caller of 2026-07-28 who sends the same call again, with the same arguments, at most 12h; 0 = each call without a key is a run of its own." default:"10m"`
	DisconnectGrace time.Duration `help:"How long a client of 2026-07-28 that has closed the stream of its call has to send it again, before its run is cancelled (onDisconnect of the configuration and of definitions says otherwise); 0 = no time." default:"60s"`
	StreamRetry     time.Duration `help:"How long clients with sessions are told to wait before they come back to a stream that broke. Most try twice, so twice as long is what an outage may take; at most 1m." default:"5s"`
	NoRunTools      bool          `help:"Leave out the tools with which a model waits for its runs, lists and cancels them."`
}

// A webURL is an address of a web site, without a slash at its end; "" = not
// said.
type webURL string

// UnmarshalText refuses what is no such address.
func (w *webURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a URL such as https://tools.example.com", text)
	}
	*w = webURL(strings.TrimRight(string(text), "/"))
	return nil
}

// origin is that of the pages of the site.
func (w webURL) origin() string {
	u, err := url.Parse(string(w))
	if err != nil {
		return string(w) // it was read before
	}
	return u.Scheme + "://" + u.Host
}

// options are those of a gateway that listens at an address.
func (f *gatewayFlags) options(listens string, keys keys) *gatewayOptions {
	return &gatewayOptions{
		Keys: keys, PublicURL: cmp.Or(f.PublicURL, webURL("http://"+listens)), AllowedOrigins: f.AllowedOrigin,
		AllowedHosts: f.hosts(),
		Patience:     orNone(f.CallPatience), ReattachWindow: orNone(f.ReattachWindow), DisconnectGrace: orNone(f.DisconnectGrace), StreamRetry: f.StreamRetry, NoRunTools: f.NoRunTools,
	}
}

// hosts are the names of the server, if any is said to be one.
func (f *gatewayFlags) hosts() []string {
	hosts := slices.Clone(f.AllowedHost)
	if u, err := url.Parse(string(f.PublicURL)); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// orNone is a flag's value as the gateway wants it, whose 0 means default.
func orNone(flag time.Duration) time.Duration {
	if flag == 0 {
		return -1
	}
	return flag
}

type gatewayOptions struct {
	Keys            keys
	PublicURL       webURL
	AllowedOrigins  []webURL
	AllowedHosts    []string
	Patience        time.Duration
	ReattachWindow  time.Duration
	DisconnectGrace time.Duration
	StreamRetry     time.Duration
	NoRunTools      bool
	SignInByLink    bool          // the person at the terminal signs in to the approvals page by a one-time link
	Retention       time.Duration // of closed runs; 0 = not known
}

// newGateway makes what clients and people reach: the gateway, and the page on
// which people answer.
func (s *service) newGateway(o gatewayOptions) (err error) {
	all := s.runs()
	bodies := web.NewBodies(web.DefaultWork, web.Patience)
	page, err := s.newApprovals(o, all, bodies)
	if err != nil {
		return err
	}
	s.approvals, s.signIn = page.handler, page.login
	origins := []string{o.PublicURL.origin()}
	for _, allowed := range o.AllowedOrigins {
		origins = append(origins, allowed.origin())
	}
	s.origins = web.OriginPolicy{Origins: origins, Hosts: o.AllowedHosts}
	s.gateway, err = gateway.New(gateway.Options{
		Name:            s.opts.Loaded.Name,
		Prefix:          s.opts.Loaded.Prefix,
		Version:         programVersion(),
		Runs:            preparedRuns{all, s.prepared, s.opts.Telemetry},
		Catalogue:       s.inTurn(all),
		Registry:        s.registry,
		Credentials:     s.credentials,
		Key:             o.Keys.signing,
		RetiredKeys:     o.Keys.retired,
		Patience:        o.Patience,
		ReattachWindow:  o.ReattachWindow,
		OnDisconnect:    s.opts.Loaded.OnDisconnect,
		DisconnectGrace: o.DisconnectGrace,
		StreamRetry:     o.StreamRetry,
		NoRunTools:      o.NoRunTools,
		Scripts:         s.opts.Loaded.Scripts.Agents,
		ScriptLimits:    s.opts.Loaded.Scripts.Limits,
		MaxDepth:        s.opts.Loaded.MaxDepth,
		Retention:       o.Retention,
		Authenticate:    s.authenticate(),
		Metadata:        metadataOf(s.callers),
		Policy:          &s.opts.Loaded.Auth.Policy,
		Bodies:          bodies,
		Quotas:          s.opts.Loaded.Quotas,
		RunURL:          page.url,
		Observe:         s.observe(),
		LinkOver:        s.linkOver(),
		MaxRequest:      s.maxRequest(),
		Logger:          s.opts.Logger,
	})
	return err
}

// preparedRuns start no run before Temporal has what runs need.
type preparedRuns struct {
	*runs.Client
	prepared  <-chan struct{}
	telemetry *telemetry.Telemetry
}

// Start starts a run, or says at once that it is too early.
func (r preparedRuns) Start(ctx context.Context, request runs.StartRequest) (runs.Started, error) {
	select {
	case <-r.prepared:
		started, err := r.Client.Start(ctx, request)
		switch {
		case err == nil && started.Attached:
			r.telemetry.SetRun(ctx, string(started.ID))
		case err == nil:
			r.telemetry.RunStarted(ctx, request.Definition.Name, string(started.ID))
		}
		return started, err
	default:
		return runs.Started{}, fmt.Errorf("starting a run of %s: %w yet", request.Definition.Name, runs.ErrUnavailable)
	}
}

// refuseStrangers is an error where callers are served of whom nobody knows who
// they are, beyond this machine.
func (f *gatewayFlags) refuseStrangers(callers authSettings, address net.Addr) error {
	if f.AllowAnonymous || callers.TokenFile != "" || callers.OIDC != nil || auth.OnLoopback(address.String()) {
		return nil
	}
	return usagef("everybody who reaches %s could call: say who may by incomingAuth, listen on a loopback address such as 127.0.0.1, or give --allow-anonymous if that is meant", address)
}

// clients serves MCP and what tells how the service is. Clients that come
// while it starts wait until it has tools to offer.
func (s *service) clients() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.health())
	mux.Handle(endpoint, s.whenOpen(s.opts.Telemetry.HTTP(s.gateway.Handler())))
	mux.Handle(gateway.RegistryPrefix, s.whenOpen(s.gateway.Handler()))
	mux.Handle(auth.WellKnown, s.gateway.Handler())
	mux.Handle(auth.WellKnown+"/", s.gateway.Handler())
	mux.Handle(inbox.Prefix, s.approvals)
	mux.Handle(inbox.Prefix+"/", s.approvals)
	return mux
}

func (s *service) whenOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.opened:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// reload takes definitions over when their files change, until ctx ends. Files
// with mistakes change nothing; what is wrong with them is told in the log, and
// in the status for as long as it is so.
func (s *service) reload(ctx context.Context, src sources) {
	log := s.opts.Logger
	scripts := scriptFiles(s.opts.Loaded.Definitions)
	last := src.stamp(scripts...)
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		stamp := src.stamp(scripts...)
		if stamp == last {
			continue
		}
		last = stamp
		found, diags := load(src)
		if named := scriptFiles(found.Definitions); !slices.Equal(named, scripts) {
			scripts, last = named, src.stamp(named...)
		}
		if err := diags.Err(); err != nil {
			s.reloadError.Store(&err)
			log.Error("changed definitions are not taken over; those of before are still served", "error", err)
			continue
		}
		s.reloadError.Store(nil)
		s.registry.SetFiles(found.Definitions)
		log.Info("definitions reloaded", "definitions", namesOf(found.Definitions))
	}
}

func namesOf(defs []*definitions.Definition) []string {
	var names []string
	for _, d := range defs {
		names = append(names, d.Name)
	}
	return names
}
