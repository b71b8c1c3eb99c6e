package config

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/telemetry"
)

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
