package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// An OriginPolicy has the names of a server, and the web pages that may send it
// requests.
//
// A page on any site can make a browser send requests to any address, and can later
// point its own name to any address (DNS rebinding): then the browser takes the
// server's answers for the page's own.
type OriginPolicy struct {
	// Origins are those of the pages that may send requests, such as
	// https://chat.example.com, besides pages of this machine for requests by loopback.
	// Their hosts are names of the server as well.
	Origins []string
	// Hosts are further names of the server, with their port unless it is that of the
	// scheme.
	Hosts []string
}

// Refusal says why a request is refused by its Host or Origin; "" = it is not.
//
// A name is allowed if it is one of the policy's, or if it cannot be rebound: an
// address, localhost, and, unless the request comes by loopback, a name that no public
// DNS has.
func (p OriginPolicy) Refusal(r *http.Request) string {
	here := OnLoopback(r.Host) // perhaps through a tunnel
	if origin := r.Header.Get("Origin"); origin != "" && !p.allowsOrigin(origin, here) {
		return fmt.Sprintf("origin %q is not allowed; --allowed-origin allows one", origin)
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	byLoopback := local != nil && OnLoopback(local.String())
	switch {
	case here, p.allowsHost(r.Host), !byLoopback && (isAddress(r.Host) || isPrivate(r.Host)):
		return ""
	case byLoopback:
		return fmt.Sprintf("host %q is not allowed on a loopback address; --allowed-host allows one", r.Host)
	}
	return fmt.Sprintf("host %q is not allowed; --allowed-host allows one", r.Host)
}

// allowsOrigin allows pages of this machine only for requests to this machine: elsewhere,
// localhost is any other machine.
func (p OriginPolicy) allowsOrigin(origin string, here bool) bool {
	if slices.Contains(p.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && here && OnLoopback(u.Host)
}

func (p OriginPolicy) allowsHost(host string) bool {
	if slices.ContainsFunc(p.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) }) {
		return true
	}
	return slices.ContainsFunc(p.Origins, func(origin string) bool {
		u, err := url.Parse(origin)
		return err == nil && strings.EqualFold(u.Host, host)
	})
}

// OnLoopback reports whether a host, with or without a port, is this machine.
func OnLoopback(address string) bool {
	host := hostname(address)
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

func isAddress(address string) bool {
	_, err := netip.ParseAddr(hostname(address))
	return err == nil
}

// isPrivate reports whether a name is in no public DNS, such as those of containers,
// services of a cluster and machines of a home network. Such names cannot be changed
// from outside.
func isPrivate(address string) bool {
	host := strings.ToLower(hostname(address))
	if host == "" || !strings.Contains(host, ".") {
		return host != ""
	}
	for _, suffix := range []string{".svc", ".local", ".internal", ".home.arpa"} { // RFC 6762, RFC 8375, ICANN 2024; .svc is of Kubernetes
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

func hostname(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return strings.Trim(address, "[]")
	}
	return host
}
