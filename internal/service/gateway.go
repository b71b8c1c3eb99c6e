package service

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/gateway/auth"
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

// origin is that of the pages of the site.
func (w WebURL) origin() string {
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
	mux.Handle("/", s.health())
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

func namesOf(defs []*definitions.Definition) []string {
	var names []string
	for _, d := range defs {
		names = append(names, d.Name)
	}
	return names
}
