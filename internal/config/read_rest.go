package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/telemetry"
)

func (r *reader) quotas(c *quotas) Quotas {
	if c == nil {
		return Quotas{}
	}
	return Quotas{OpenRuns: given(c.OpenRuns), RunsPerMinute: given(c.RunsPerMinute), WaitingRuns: given(c.WaitingRuns), Requests: given(c.Requests)}
}

// given is a number; 0 = it is not there.
func given(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func (r *reader) scripts(c *scripts) Scripts {
	if c == nil {
		return Scripts{}
	}
	s := Scripts{Agents: c.Agents}
	if c.Limits == nil {
		return s
	}
	s.Limits = &runs.ScriptLimits{Calls: c.Limits.Calls, Width: c.Limits.Width, Branches: c.Limits.Branches, Time: time.Duration(c.Limits.Time)}
	s.Limits.Steps, s.Limits.Memory, s.Limits.Value, s.Limits.Depth = c.Limits.Steps, c.Limits.Memory, c.Limits.Value, c.Limits.Depth
	return s
}

func (r *reader) publishing(c *publishing) Publishing {
	if c == nil {
		return Publishing{}
	}
	s := Publishing{Drift: registry.DriftPolicy(c.Drift)}
	for i, v := range c.Versions {
		at := keyPath{"publishing", "versions", i}
		offer := VersionOffer{definitions.Reference{Name: v.Tool, Version: v.Version}, v.As}
		if _, err := definitions.ParseReference(v.Tool); err != nil && v.Tool != "" {
			r.errorf(at.to("tool"), "publishing", "%v", err)
		}
		if err := offer.Reference.Check(); err != nil && v.Version != "" {
			r.errorf(at.to("version"), "publishing", "%q is no version and no constraint of versions, such as 1.2.0, 1 or ^1.2", v.Version)
		}
		if _, err := definitions.ParseReference(v.As); v.As != "" && (err != nil || v.As == v.Tool) {
			r.errorf(at.to("as"), "publishing", "%q is no name of a tool of its own, such as %s_v1", v.As, v.Tool)
		}
		if v.As != "" && slices.ContainsFunc(s.Versions, func(o VersionOffer) bool { return o.As == v.As }) {
			r.errorf(at.to("as"), "publishing", "%s is the name of another one, too", v.As)
		}
		s.Versions = append(s.Versions, offer)
	}
	return s
}

// telemetry is what the configuration wants; the environment may want more.
func (r *reader) telemetry(c *telemetryRules) (o telemetry.Options) {
	if c == nil {
		return o
	}
	at := keyPath{"telemetry"}
	if e := c.Endpoint; e != "" {
		u, err := url.Parse(e)
		if strings.Contains(e, "://") && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			r.errorf(at.to("endpoint"), "telemetry", "%q is neither host:port nor an http or https URL", e)
		}
		if !c.TracingEnabled && !c.MetricsEnabled {
			r.noEffect(at.to("endpoint"), "set tracingEnabled or metricsEnabled as well")
		}
	} else if c.TracingEnabled || c.MetricsEnabled && !c.EnablePrometheusMetricsPath {
		r.errorf(at.to("endpoint"), "telemetry", "is missing: where traces and metrics are sent to, by OTLP over HTTP")
	}
	return telemetry.Options{
		Service: c.ServiceName, Endpoint: c.Endpoint, Insecure: c.Insecure, Headers: c.Headers,
		Traces: c.TracingEnabled, Metrics: c.MetricsEnabled, Sampling: r.sampling(at.to("samplingRate"), c.SamplingRate),
		Attributes: c.CustomAttributes, Prometheus: c.EnablePrometheusMetricsPath,
	}
}

func (r *reader) sampling(p keyPath, text string) *float64 {
	if text == "" {
		return nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0 && rate <= 1) {
		r.errorf(p, "telemetry", "%q is not a share from 0 to 1", text)
	}
	return &rate
}
