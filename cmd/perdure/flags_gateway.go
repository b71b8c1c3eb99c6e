package main

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

// gatewayFlags say how clients are served.
type gatewayFlags struct {
	PublicURL       service.WebURL   `help:"URL at which clients and people reach this server, without /mcp, e.g. https://tools.example.com. Default: where it listens." placeholder:"URL"`
	AllowedOrigin   []service.WebURL `help:"Origin of web pages that may send requests, e.g. https://chat.example.com. Repeatable." placeholder:"ORIGIN" sep:"none"`
	AllowedHost     []string         `help:"Name by which requests may call this server, with its port if it is not that of the scheme. Repeatable. Always allowed: that of --public-url, addresses, localhost and, where the server is not called by loopback, names without public DNS." placeholder:"HOST" sep:"none"`
	AllowAnonymous  bool             `help:"Serve everybody who reaches --listen, also from other machines, if incomingAuth names no callers."`
	CallPatience    time.Duration    `help:"How long a call blocks for a client that cannot be asked questions; 0 = for ever." default:"50s"`
	ReattachWindow  time.Duration    `help:"For how long after its end a run whose answer was lost is given to a caller of 2026-07-28 who sends the same call again, with the same arguments, at most 12h; 0 = each call without a key is a run of its own." default:"10m"`
	DisconnectGrace time.Duration    `help:"How long a client of 2026-07-28 that has closed the stream of its call has to send it again, before its run is cancelled (onDisconnect of the configuration and of definitions says otherwise); 0 = no time." default:"60s"`
	StreamRetry     time.Duration    `help:"How long clients with sessions are told to wait before they come back to a stream that broke. Most try twice, so twice as long is what an outage may take; at most 1m." default:"5s"`
	NoRunTools      bool             `help:"Leave out the tools with which a model waits for its runs, lists and cancels them."`
}

// options are those of a gateway that listens at an address.
func (f *gatewayFlags) options(listens string, keys service.Keys) *service.GatewayOptions {
	return &service.GatewayOptions{
		Keys: keys, PublicURL: cmp.Or(f.PublicURL, service.WebURL("http://"+listens)), AllowedOrigins: f.AllowedOrigin,
		AllowedHosts: f.hosts(), NoRunTools: f.NoRunTools,
		Timing: gateway.Timing{Patience: orNone(f.CallPatience), ReattachWindow: orNone(f.ReattachWindow),
			DisconnectGrace: orNone(f.DisconnectGrace), StreamRetry: f.StreamRetry},
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

// refuseStrangers is an error where callers are served without being asked who
// they are, beyond this machine.
func (f *gatewayFlags) refuseStrangers(callers config.Auth, address net.Addr) error {
	if f.AllowAnonymous || callers.TokenFile != "" || callers.OIDC != nil || auth.OnLoopback(address.String()) {
		return nil
	}
	return usagef("everybody who reaches %s could call: say who may by incomingAuth, listen on a loopback address such as 127.0.0.1, or give --allow-anonymous if that is meant", address)
}
