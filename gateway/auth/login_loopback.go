package auth

import (
	"errors"
	"net"
	"net/http"
	"net/url"

	"github.com/perdure/perdure/internal/web"
)

// onThisMachine accepts only requests of a browser on this machine to a local address:
// not from a page of a web site, a rebound name or a proxy. It is no sign-in: programs
// on this machine pass it, too.
func onThisMachine(r *http.Request) error {
	const advice = "only a browser on the machine of the server is let in, under the name localhost or 127.0.0.1; to let in others, say in the configuration how they sign in: incomingAuth and approvals"
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || !web.OnLoopback(local.String()) || !web.OnLoopback(r.RemoteAddr) || !web.OnLoopback(r.Host) {
		return errors.New(advice)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return errors.New(advice + "; this request came through a proxy")
		}
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !web.OnLoopback(u.Host) {
			return errors.New(advice + "; this request came from another site")
		}
	}
	return nil
}
