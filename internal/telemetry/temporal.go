package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// Temporal adds telemetry to the options of a client and the workers that use it: spans
// of runs and activities, once however often a history is replayed, and the SDK's own
// metrics.
func (t *Telemetry) Temporal(o *client.Options) error {
	if t == nil {
		return nil
	}
	if t.metering {
		o.MetricsHandler = temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
			Meter: t.meter, UseMonotonicCounters: true,
			OnError: func(error) {}, // without this instrument
		})
	}
	if !t.tracing {
		return nil
	}
	tracing, err := temporalotel.NewTracingInterceptor(temporalotel.TracerOptions{
		Tracer: t.tracer, TextMapPropagator: traceContext, DisableBaggage: true,
		DisableQueryTracing: true, AllowInvalidParentSpans: true, SpanStarter: startDiscreetly,
	})
	if err != nil {
		return err
	}
	o.Interceptors = append(o.Interceptors, interceptor.ClientInterceptor(tracing))
	return nil
}

func startDiscreetly(ctx context.Context, t trace.Tracer, name string, options ...trace.SpanStartOption) trace.Span {
	_, span := t.Start(ctx, name, options...)
	return &discreetSpan{Span: span}
}

// Replayed marks the workflow of ctx as only replayed, to read its state: its span was
// exported when it ended.
func (t *Telemetry) Replayed(ctx workflow.Context) {
	if t == nil || !t.tracing {
		return
	}
	if span, ok := temporalotel.SpanFromWorkflowContext(ctx); ok {
		if s, ok := span.(*discreetSpan); ok {
			s.unexported = true
		}
	}
}

// A discreetSpan exports that something failed, without the message, which may be a
// backend's and contain anything.
type discreetSpan struct {
	trace.Span
	unexported bool // it never ends
}

// RecordError records nothing.
func (*discreetSpan) RecordError(error, ...trace.EventOption) {}

// SetStatus leaves the description out.
func (s *discreetSpan) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

// End ends it, if it is to be exported.
func (s *discreetSpan) End(options ...trace.SpanEndOption) {
	if !s.unexported {
		s.Span.End(options...)
	}
}
