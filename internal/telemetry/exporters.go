package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// signals are the enabled kinds of telemetry.
type signals struct{ traces, metrics, prometheus bool }

// signals are those enabled by the options or by the environment: by an endpoint, unless
// OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER disable it (OpenTelemetry specification).
func (o Options) signals() (signals, error) {
	if o.getenv("OTEL_SDK_DISABLED") == "true" {
		return signals{}, nil
	}
	traces, err := o.exporters("TRACES", "otlp")
	if err != nil {
		return signals{}, err
	}
	metrics, err := o.exporters("METRICS", "otlp", "prometheus")
	if err != nil {
		return signals{}, err
	}
	configured := o.Endpoint != ""
	return signals{
		traces:     configured && o.Traces || traces["otlp"],
		metrics:    configured && o.Metrics || metrics["otlp"],
		prometheus: o.Prometheus || metrics["prometheus"],
	}, nil
}

// exporters are those of a signal in the environment.
func (o Options) exporters(signal string, known ...string) (map[string]bool, error) {
	variable := "OTEL_" + signal + "_EXPORTER"
	named := map[string]bool{}
	for name := range strings.SplitSeq(o.getenv(variable), ",") {
		switch name = strings.TrimSpace(name); {
		case name == "" && o.getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+o.getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != "":
			named["otlp"] = true
		case name == "", name == "none":
		case strings.Contains(" "+strings.Join(known, " ")+" ", " "+name+" "):
			named[name] = true
		default:
			return nil, fmt.Errorf("%s: %q is not one of %s, none", variable, name, strings.Join(known, ", "))
		}
	}
	return named, nil
}

func (o Options) getenv(name string) string {
	if o.Getenv == nil {
		return os.Getenv(name)
	}
	return o.Getenv(name)
}

// overGRPC reports whether OTLP uses gRPC for a signal whose endpoint is in the
// environment.
func (o Options) overGRPC(signal string) bool {
	protocol := cmp.Or(o.getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), o.getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	return o.Endpoint == "" && protocol == "grpc"
}

func (o Options) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch {
	case o.overGRPC("TRACES"):
		return otlptracegrpc.New(ctx)
	case o.Endpoint == "":
		return otlptracehttp.New(ctx)
	}
	options := []otlptracehttp.Option{otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithEndpointURL(o.url("/v1/traces"))}
	if o.Insecure {
		options = append(options, otlptracehttp.WithInsecure())
	}
	return otlptracehttp.New(ctx, options...)
}

func (o Options) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	switch {
	case o.overGRPC("METRICS"):
		return otlpmetricgrpc.New(ctx)
	case o.Endpoint == "":
		return otlpmetrichttp.New(ctx)
	}
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithHeaders(o.Headers), otlpmetrichttp.WithEndpointURL(o.url("/v1/metrics"))}
	if o.Insecure {
		options = append(options, otlpmetrichttp.WithInsecure())
	}
	return otlpmetrichttp.New(ctx, options...)
}

// url is that of a signal at the endpoint, which may lack a scheme.
func (o Options) url(path string) string {
	endpoint := strings.TrimRight(o.Endpoint, "/") + path
	switch {
	case strings.Contains(o.Endpoint, "://"):
		return endpoint
	case o.Insecure:
		return "http://" + endpoint
	}
	return "https://" + endpoint
}

// prometheusReader collects metrics when they are read, with those of the process.
func prometheusReader() (sdkmetric.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	return reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}
