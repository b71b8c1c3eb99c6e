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

// Temporal has the options of a client, and of the workers that use it, tell
// what they do: spans of runs and of their activities, which are begun once
// however often a history is replayed, and the SDK's own metrics.
func (t *Telemetry) Temporal(o *client.Options) error {
	if t == nil {
		return nil
	}
	if t.metering {
		o.MetricsHandler = temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
			Meter: t.meter, UseMonotonicCounters: true,
			OnError: func(error) {}, // the instrument is left out
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

// Replayed says that the workflow of ctx has only been replayed, for who reads
// what it has done: its span was told when it ended.
func (t *Telemetry) Replayed(ctx workflow.Context) {
	if t == nil || !t.tracing {
		return
	}
	if span, ok := temporalotel.SpanFromWorkflowContext(ctx); ok {
		if s, ok := span.(*discreetSpan); ok {
			s.untold = true
		}
	}
}

// A discreetSpan says that something failed, but not in which words: those may
// be a backend's, and hold anything.
type discreetSpan struct {
	trace.Span
	untold bool // it never ends
}

// RecordError records nothing.
func (*discreetSpan) RecordError(error, ...trace.EventOption) {}

// SetStatus leaves the description out.
func (s *discreetSpan) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

// End ends it, if it is to be told.
func (s *discreetSpan) End(options ...trace.SpanEndOption) {
	if !s.untold {
		s.Span.End(options...)
	}
}
