package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Places are from where, and by which names, requests may come besides those
// that always may; see Options.AllowedOrigins and Options.AllowedHosts.
type Places struct {
	Origins, Hosts []string
}

// Forbidden says why a request is refused for where it comes from: a page of a
// web site that may not, or a name that was rebound to this machine; "" = it is
// not refused. Addresses and localhost cannot be rebound. Without Hosts, names are
// checked only of what comes by loopback: otherwise those of this machine are not
// known.
func (p Places) Forbidden(r *http.Request) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	byLoopback := local != nil && isLoopback(local.String())
	here := isLoopback(r.Host) // whoever sent it, if need be through a tunnel
	if origin := r.Header.Get("Origin"); origin != "" && !p.allowedOrigin(origin, here) {
		return fmt.Sprintf("origin %q is not allowed; --allowed-origin allows one", origin)
	}
	switch {
	case here, p.allowedHost(r.Host), !byLoopback && isAddress(r.Host):
	case byLoopback:
		return fmt.Sprintf("host %q is not allowed on a loopback address; --allowed-host allows one", r.Host)
	case len(p.Hosts) > 0:
		return fmt.Sprintf("host %q is not allowed; --allowed-host allows one", r.Host)
	}
	return ""
}

// allowedOrigin takes pages on this machine where whoever visits them is here,
// too: elsewhere, localhost is anybody's.
func (p Places) allowedOrigin(origin string, here bool) bool {
	if slices.Contains(p.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && here && isLoopback(u.Host)
}

func (p Places) allowedHost(host string) bool {
	if slices.ContainsFunc(p.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) }) {
		return true
	}
	return slices.ContainsFunc(p.Origins, func(origin string) bool {
		u, err := url.Parse(origin)
		return err == nil && strings.EqualFold(u.Host, host)
	})
}

// isLoopback takes a host with or without a port.
func isLoopback(address string) bool {
	host := hostname(address)
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

func isAddress(address string) bool {
	_, err := netip.ParseAddr(hostname(address))
	return err == nil
}

func hostname(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return strings.Trim(address, "[]")
	}
	return host
}
