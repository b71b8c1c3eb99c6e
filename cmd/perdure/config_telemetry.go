package main

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/telemetry"
)

type telemetryConfig struct {
	Endpoint         string            `yaml:"endpoint"`
	ServiceName      string            `yaml:"serviceName"`
	TracingEnabled   bool              `yaml:"tracingEnabled"`
	MetricsEnabled   bool              `yaml:"metricsEnabled"`
	SamplingRate     string            `yaml:"samplingRate"`
	Headers          map[string]string `yaml:"headers"`
	Insecure         bool              `yaml:"insecure"`
	CustomAttributes map[string]string `yaml:"customAttributes"`

	EnablePrometheusMetricsPath bool `yaml:"enablePrometheusMetricsPath"`

	// Without effect here.
	ServiceVersion       string   `yaml:"serviceVersion"`
	EnvironmentVariables []string `yaml:"environmentVariables"`
	CACertPath           string   `yaml:"caCertPath"`
	UseLegacyAttributes  *bool    `yaml:"useLegacyAttributes"`
}

// telemetry is what the configuration wants; the environment may want more.
func (r *configReader) telemetry(c *telemetryConfig) (o telemetry.Options) {
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
			r.warnf(at.to("endpoint"), "no-effect", "has no effect without tracingEnabled or metricsEnabled")
		}
	} else if c.TracingEnabled || c.MetricsEnabled && !c.EnablePrometheusMetricsPath {
		r.errorf(at.to("endpoint"), "telemetry", "is missing: where traces and metrics are sent to, by OTLP over HTTP")
	}
	for key, set := range map[string]bool{
		"serviceVersion": c.ServiceVersion != "", "environmentVariables": c.EnvironmentVariables != nil,
		"useLegacyAttributes": c.UseLegacyAttributes != nil,
	} {
		if set {
			r.noEffect(at.to(key))
		}
	}
	if c.CACertPath != "" {
		r.warnf(at.to("caCertPath"), "no-effect", "has no effect here; set OTEL_EXPORTER_OTLP_CERTIFICATE in the environment")
	}
	return telemetry.Options{
		Service: c.ServiceName, Endpoint: c.Endpoint, Insecure: c.Insecure, Headers: c.Headers,
		Traces: c.TracingEnabled, Metrics: c.MetricsEnabled, Sampling: r.sampling(at.to("samplingRate"), c.SamplingRate),
		Attributes: c.CustomAttributes, Prometheus: c.EnablePrometheusMetricsPath,
	}
}

func (r *configReader) sampling(p keyPath, text string) *float64 {
	if text == "" {
		return nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0 && rate <= 1) {
		r.errorf(p, "telemetry", "%q is not a share from 0 to 1", text)
	}
	return &rate
}
