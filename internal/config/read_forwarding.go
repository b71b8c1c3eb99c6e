package config

import (
	"net/http"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/backends"
)

// forwarding is what backends get of the requests of callers.
func (r *reader) forwarding(c *configuration) backends.Forwarding {
	own := r.ownHeaders(c)
	for i, name := range c.PassthroughHeaders {
		at := keyPath{"passthroughHeaders", i}
		r.headerName(at, name)
		if err := backends.CheckForwardedHeader(name); err != nil {
			r.errorf(at, "forwarding", "%v", err)
		} else if backend := own[http.CanonicalHeaderKey(name)]; backend != "" {
			r.errorf(at, "forwarding", "backend %s has a header %s of its own in this configuration; keep one of them", backend, name)
		}
	}
	if len(c.PassthroughHeaders) > 0 && !slices.ContainsFunc(c.Backends, func(b *backend) bool { return !b.isProcess() }) {
		r.noEffect(keyPath{"passthroughHeaders"}, "no backend is reached by HTTP; use passthroughMeta")
	}
	for i, key := range c.PassthroughMeta {
		at := keyPath{"passthroughMeta", i}
		if key == "" || strings.Contains(strings.TrimSuffix(key, "*"), "*") {
			r.errorf(at, "forwarding", "%q is no key of _meta and no beginning of one with * at its end, such as acme.example/tenant or acme.example/*", key)
		} else if err := backends.CheckForwardedMeta(key); err != nil {
			r.errorf(at, "forwarding", "%v", err)
		}
	}
	return backends.Forwarding{Headers: slices.Clone(c.PassthroughHeaders), Meta: slices.Clone(c.PassthroughMeta)}
}

// ownHeaders are those that the configuration gives backends, by canonical name, with
// the first backend that has each.
func (r *reader) ownHeaders(c *configuration) map[string]string {
	own := map[string]string{}
	add := func(name, backend string) {
		if name = http.CanonicalHeaderKey(name); own[name] == "" {
			own[name] = backend
		}
	}
	for _, b := range c.Backends {
		for name := range b.Headers {
			add(name, b.Name)
		}
		if c.OutgoingAuth == nil {
			continue
		}
		strategy := c.OutgoingAuth.Backends[b.Name]
		if strategy == nil {
			strategy = c.OutgoingAuth.Default
		}
		if strategy != nil && strategy.HeaderInjection != nil && !b.isProcess() {
			add(strategy.HeaderInjection.HeaderName, b.Name)
		}
	}
	return own
}
