package auth

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// loopbackUser lets in a browser on this machine that has asked for this
// machine, and no page of a web site, no name that was rebound, and nobody who
// comes through a proxy.
func loopbackUser(r *http.Request) (Identity, error) {
	const advice = "only browsers on the machine of the server are let in, under the name localhost or 127.0.0.1; to let in others, configure incomingAuth"
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || !OnLoopback(local.String()) || !OnLoopback(r.RemoteAddr) || !OnLoopback(r.Host) {
		return Identity{}, errors.New(advice)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return Identity{}, errors.New(advice + "; this request came through a proxy")
		}
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !OnLoopback(u.Host) {
			return Identity{}, errors.New(advice + "; this request came from another site")
		}
	}
	return Identity{Subject: Anonymous}, nil
}

// OnLoopback reports whether a host, with or without a port, is this machine.
func OnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
