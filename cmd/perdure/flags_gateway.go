package main

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/web"
)

// gatewayFlags are the flags of processes that serve clients.
type gatewayFlags struct {
	PublicURL       service.WebURL   `help:"URL at which clients and people reach this server, without /mcp, e.g. https://tools.example.com. Default: the address of --listen." placeholder:"URL"`
	AllowedOrigin   []service.WebURL `help:"Origin of web pages that may send requests, e.g. https://chat.example.com. Repeatable." placeholder:"ORIGIN" sep:"none"`
	AllowedHost     []string         `help:"Host name that requests may use for this server, with its port unless that is the default of the scheme. Repeatable. Always allowed: the host of --public-url, IP addresses, localhost and, for requests not from loopback, names without public DNS." placeholder:"HOST" sep:"none"`
	AllowAnonymous  bool             `help:"Serve everybody who reaches --listen, also from other machines, if incomingAuth is anonymous."`
	CallPatience    time.Duration    `help:"How long a call blocks for a client without elicitation before it gets a handle on the run; 0 = for ever." default:"50s"`
	ReattachWindow  time.Duration    `help:"How long after the end of a run a client of 2026-07-28 that lost the response gets its result by sending the same call again, at most 12h; 0 = each call without an idempotency key starts a run." default:"10m"`
	DisconnectGrace time.Duration    `help:"How long a client of 2026-07-28 that closed the stream of its call may take to send the call again before its run is cancelled; 0 = cancel at once. Overridden by onDisconnect of the configuration and of definitions." default:"60s"`
	StreamRetry     time.Duration    `help:"How long clients with sessions wait before they reconnect to a broken stream, at most 1m. Most try twice, so an outage may last twice as long." default:"5s"`
	NoRunTools      bool             `help:"Do not offer the tools with which a model waits for its runs, lists and cancels them."`
}

// options are the options of a gateway that listens at an address.
func (f *gatewayFlags) options(listens string, keys service.Keys) *service.GatewayOptions {
	return &service.GatewayOptions{
		Keys: keys, PublicURL: cmp.Or(f.PublicURL, service.WebURL("http://"+listens)), AllowedOrigins: f.AllowedOrigin,
		AllowedHosts: f.hosts(), NoRunTools: f.NoRunTools,
		Timing: gateway.Timing{Patience: orNone(f.CallPatience), ReattachWindow: orNone(f.ReattachWindow),
			DisconnectGrace: orNone(f.DisconnectGrace), StreamRetry: f.StreamRetry},
	}
}

// hosts are the allowed host names: those of the flag, and that of --public-url.
func (f *gatewayFlags) hosts() []string {
	hosts := slices.Clone(f.AllowedHost)
	if u, err := url.Parse(string(f.PublicURL)); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// orNone converts a flag, where 0 means none, to an option of the gateway, where 0 means the default.
func orNone(flag time.Duration) time.Duration {
	if flag == 0 {
		return -1
	}
	return flag
}

// refuseStrangers returns an error if unauthenticated callers of other machines would
// be served.
func (f *gatewayFlags) refuseStrangers(callers config.Auth, address net.Addr) error {
	if f.AllowAnonymous || callers.TokenFile != "" || callers.OIDC != nil || web.OnLoopback(address.String()) {
		return nil
	}
	return usagef("everybody who reaches %s could call tools; configure incomingAuth, listen on a loopback address such as 127.0.0.1, or set --allow-anonymous if that is intended", address)
}
