package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

// health serves the health of the service: /healthz is 200 while the process lives,
// /reachable while it takes requests, even if only to ask for a retry, and /readyz
// while it takes calls.
func (s *Service) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /reachable", s.serveReachable)
	mux.HandleFunc("GET /readyz", s.serveReady)
	if s.opts.Loaded.Telemetry.Prometheus && s.opts.Telemetry.Handler() != nil {
		mux.HandleFunc("GET "+metricsPath, s.serveMetrics)
	}
	return mux
}

// serveReachable answers 200 from the first readiness of the service until it stops,
// else 503. It is for load balancers: an outage that all gateways share removes none.
func (s *Service) serveReachable(w http.ResponseWriter, _ *http.Request) {
	code := http.StatusOK
	if s.phase() != "" {
		code = http.StatusServiceUnavailable
	}
	w.WriteHeader(code)
	fmt.Fprintln(w, http.StatusText(code))
}

// serveReady answers 200 if the service takes calls, else 503; with ?verbose, with the
// status as JSON, once at a time for each caller. If requests need an identity, so does the status: it names backends,
// and tools that the caller may know.
func (s *Service) serveReady(w http.ResponseWriter, r *http.Request) {
	reasons := s.unready()
	code := http.StatusOK
	if len(reasons) > 0 {
		code = http.StatusServiceUnavailable
	}
	if !r.URL.Query().Has("verbose") {
		w.WriteHeader(code)
		fmt.Fprintln(w, http.StatusText(code))
		return
	}
	who, err := s.callers.Authenticate(r)
	if err != nil {
		auth.Refuse(w, err)
		return
	}
	// It may be long, and its reader slow.
	leave, err := s.reported.Take(r.Context(), web.Caller(who.Known(), r))
	if err != nil {
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s.status(r.Context(), who, reasons)) // the client disconnected
}

// unready reports why the service takes no calls; nil = it does.
func (s *Service) unready() []string {
	var reasons []string
	switch phase := s.phase(); {
	case phase == phaseStarting && !s.isPrepared():
		reasons = append(reasons, phase+": Temporal has not answered yet")
	case phase != "":
		reasons = append(reasons, phase)
	}
	for _, n := range s.needs {
		if n.blocks() {
			reasons = append(reasons, n.name+" is away; run perdure doctor")
		}
	}
	return reasons
}

// isPrepared reports whether Temporal is prepared for runs.
func (s *Service) isPrepared() bool {
	select {
	case <-s.prepared:
		return true
	default:
		return false
	}
}

// The phases of a service in which it takes no calls.
const (
	phaseStarting = "starting"
	phaseStopping = "stopping"
)

// phase is the current one; "" = none of them.
func (s *Service) phase() string {
	switch {
	case s.stopping.Load():
		return phaseStopping
	case !s.started.Load():
		return phaseStarting
	}
	return ""
}

// Withheld names the composite tools that cannot be offered at present; perdure
// definitions says why.
func (s *Service) Withheld() (names []string) {
	for _, c := range s.front.gateway.Composites() {
		if !c.Available {
			names = append(names, c.Name)
		}
	}
	return names
}

// status is what a caller may know of the service.
func (s *Service) status(ctx context.Context, who auth.Identity, reasons []string) ServerStatus {
	status := ServerStatus{
		Ready: len(reasons) == 0, Reasons: reasons,
		Backends: []BackendStatus{}, Composites: []CompositeStatus{}, Tools: []ToolStatus{},
	}
	policy := &s.opts.Loaded.Auth.Policy
	oversees := policy.Oversees(who)
	if err := s.reloadError.Load(); err != nil && oversees {
		status.DefinitionsError = (*err).Error()
	}
	known := map[string]int{} // tools that the caller may know of, by backend
	for _, t := range s.pool.Tools() {
		if s.mayKnow(who, t.Name) {
			known[t.Backend]++
		} else {
			status.Partial = true
		}
	}
	for _, b := range s.pool.Status() {
		if !oversees {
			if b.Tools = known[b.Name]; b.Tools == 0 {
				continue
			}
		}
		of := BackendStatus{Name: b.Name, Connected: b.Up, Tools: b.Tools}
		if oversees { // errors name addresses, limits their worker
			of.Error, of.Limits, of.Limited = b.Error, s.opts.Loaded.Limits[b.Name].String(), s.limited(ctx, b.Name)
		}
		status.Backends = append(status.Backends, of)
	}
	if s.front != nil {
		status.Composites = s.front.status(who)
	}
	for _, t := range s.pool.Tools() {
		if !s.mayKnow(who, t.Name) {
			continue
		}
		status.Tools = append(status.Tools, ToolStatus{
			Name: t.Name, Backend: t.Backend, Original: t.Original, Effect: t.Effect, KeyArgument: t.KeyArgument,
			OnUnknown: t.OnUnknown, Probe: t.Probe, Hidden: t.Hidden,
		})
	}
	return status
}

// status is what a caller may know of the composite tools.
func (s *front) status(who auth.Identity) []CompositeStatus {
	known := []CompositeStatus{}
	for _, c := range s.gateway.Composites() {
		if !s.gateway.MayKnow(who, c.Definition) {
			continue
		}
		of := CompositeStatus{
			Name: c.Name, Version: c.Definition.Version, RunAs: c.Definition.RunAs, Available: &c.Available, Reason: c.Reason, Hidden: c.Hidden, Callers: c.Definition.Expose.Callers,
		}
		if c.Published == nil {
			of.Contradicts = s.registry.Contradicts(c.Definition)
		}
		if c.Name != c.Definition.Name {
			of.Definition = c.Definition.Name
		}
		known = append(known, of)
	}
	return known
}
