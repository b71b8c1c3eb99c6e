package service

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
)

// A WebURL is the address of a web site, without a final slash; "" = none.
type WebURL string

// UnmarshalText refuses any other text.
func (w *WebURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a URL such as https://tools.example.com", text)
	}
	*w = WebURL(strings.TrimRight(string(text), "/"))
	return nil
}

// Origin is that of the pages of the site.
func (w WebURL) Origin() string {
	u, err := url.Parse(string(w))
	if err != nil {
		return string(w) // never: it was parsed before
	}
	return u.Scheme + "://" + u.Host
}

// GatewayOptions are those of a gateway.
type GatewayOptions struct {
	Keys           Keys
	PublicURL      WebURL
	AllowedOrigins []WebURL
	AllowedHosts   []string
	gateway.Timing
	NoRunTools   bool
	SignInByLink bool // the person at the terminal signs in to the approvals page by a one-time link
}

// Clients serves MCP and health. Requests during the start wait until there are tools.
func (s *Service) Clients() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.Health())
	mux.Handle(Endpoint, s.whenOpen(s.opts.Telemetry.HTTP(s.front.gateway.Handler())))
	mux.Handle(gateway.RegistryPrefix, s.whenOpen(s.front.gateway.Handler()))
	mux.Handle(auth.WellKnown, s.front.gateway.Handler())
	mux.Handle(auth.WellKnown+"/", s.front.gateway.Handler())
	mux.Handle(approvals.Prefix, s.front.approvals)
	mux.Handle(approvals.Prefix+"/", s.front.approvals)
	return mux
}

func (s *Service) whenOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.opened:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// Reload reads definitions again when their files change, until ctx ends. Files with
// mistakes change nothing; the log and the status show the mistakes.
func (s *Service) Reload(ctx context.Context, src config.Sources) {
	log := s.opts.Logger
	scripts := config.ScriptFiles(s.opts.Loaded.Definitions)
	last := src.Stamp(scripts...)
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		stamp := src.Stamp(scripts...)
		if stamp == last {
			continue
		}
		last = stamp
		found, diags := config.Load(src)
		if named := config.ScriptFiles(found.Definitions); !slices.Equal(named, scripts) {
			scripts, last = named, src.Stamp(named...)
		}
		if err := diags.Err(); err != nil {
			s.reloadError.Store(&err)
			log.Error("changed definitions have mistakes; the server still uses the earlier ones", "error", err)
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
