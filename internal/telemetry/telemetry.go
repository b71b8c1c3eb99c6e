// Package telemetry exports traces and metrics by OpenTelemetry, and adds traces to log
// lines.
//
// A nil *Telemetry is off: every method does nothing and costs nothing. Telemetry never
// contains arguments, results, messages of errors or identities of callers.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Options say what to export and where. The zero value exports nothing, unless the
// variables OTEL_* of the environment do.
type Options struct {
	Service string // name of the service; "" = OTEL_SERVICE_NAME, else perdure
	Version string // of the program

	// Endpoint takes OTLP over HTTP: host:port, or a URL. "" = as in the environment.
	Endpoint string
	Insecure bool              // plain HTTP, if Endpoint is no URL
	Headers  map[string]string // of each export to Endpoint
	Traces   bool              // go to Endpoint
	Metrics  bool              // go to Endpoint

	// Sampling is the share of traces that are kept, unless the client decides. nil = as
	// in the environment, else all.
	Sampling   *float64
	Attributes map[string]string // of the process
	Prometheus bool              // metrics can be read at Handler, too

	// Getenv reads the environment. nil = os.Getenv.
	Getenv func(string) string
	// Logger logs errors of exports. nil = slog.Default().
	Logger *slog.Logger
}

// A Telemetry exports traces and metrics. Stop ends it.
type Telemetry struct {
	spans       trace.TracerProvider
	tracer      trace.Tracer
	meter       metric.Meter
	instruments instruments
	handler     http.Handler // of Prometheus; nil = not wanted
	tracing     bool
	metering    bool
	stopped     atomic.Bool // no more is exported
	stop        []func(context.Context) error
}

// scope names the source of spans and metrics.
const scope = "github.com/perdure/perdure"

// Start sets up what the options and the environment enable; nil = nothing. It calls no
// server: errors of the endpoint are logged later.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	wanted, err := o.signals()
	if err != nil || wanted == (signals{}) {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Warn("telemetry", "error", err) }))
	about, err := o.resource(ctx)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{tracing: wanted.traces, metering: wanted.metrics || wanted.prometheus}
	if err = t.startTraces(ctx, o, wanted, about); err == nil {
		err = t.startMetrics(ctx, o, wanted, about)
	}
	if err != nil {
		return nil, errors.Join(err, t.Stop(ctx))
	}
	return t, nil
}

func (t *Telemetry) startTraces(ctx context.Context, o Options, wanted signals, about *resource.Resource) error {
	if !wanted.traces {
		t.spans = tracenoop.NewTracerProvider()
		t.tracer = t.spans.Tracer(scope)
		return nil
	}
	exporter, err := o.spanExporter(ctx)
	if err != nil {
		return fmt.Errorf("exporting traces: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)}
	if o.Sampling != nil {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*o.Sampling))))
	}
	provider := sdktrace.NewTracerProvider(options...)
	t.spans, t.tracer = provider, provider.Tracer(scope)
	t.stop = append(t.stop, provider.Shutdown)
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, o Options, wanted signals, about *resource.Resource) error {
	if !t.metering {
		t.meter = metricnoop.NewMeterProvider().Meter(scope)
		return t.instruments.make(t.meter)
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithView(seconds)}
	if wanted.metrics {
		exporter, err := o.metricExporter(ctx)
		if err != nil {
			return fmt.Errorf("exporting metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	if wanted.prometheus {
		reader, handler, err := prometheusReader()
		if err != nil {
			return fmt.Errorf("serving metrics: %w", err)
		}
		t.handler = handler
		options = append(options, sdkmetric.WithReader(reader))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.meter = provider.Meter(scope)
	t.stop = append(t.stop, provider.Shutdown)
	return t.instruments.make(t.meter)
}

// resource identifies this process.
func (o Options) resource(ctx context.Context) (*resource.Resource, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("detecting the telemetry resource: %w", err)
	}
	attributes := []attribute.KeyValue{
		semconv.ServiceName("perdure"), semconv.ServiceVersion(o.Version),
		semconv.ServiceInstanceID(fmt.Sprintf("%s:%d", host, os.Getpid())), // "instance" in Prometheus
	}
	for name, value := range o.Attributes {
		attributes = append(attributes, attribute.String(name, value))
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithProcessPID(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("detecting the telemetry resource: %w", err)
	}
	if o.Service == "" {
		return about, nil
	}
	return resource.Merge(about, resource.NewSchemaless(semconv.ServiceName(o.Service)))
}

// Handler serves the metrics as Prometheus reads them; nil = not wanted.
func (t *Telemetry) Handler() http.Handler {
	if t == nil {
		return nil
	}
	return t.handler
}

// stopLimit is how long the last exports may take.
const stopLimit = 5 * time.Second

// Stop exports the rest and ends everything.
func (t *Telemetry) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.stopped.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
