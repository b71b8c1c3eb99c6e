package telemetry

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceContext propagates a trace by traceparent and tracestate of W3C, without baggage:
// a client's baggage is not for backends.
var traceContext = propagation.TraceContext{}

// An Operation is a request of MCP, from a client or to a backend.
type Operation struct {
	Method  string // of MCP, one of a few
	Tool    string // of tools/call, a known one; "" = none
	Backend string // "" = a request of a client
	Version string // of the protocol; "" = not known

	Transport string   // tcp, pipe; "" = not known
	Server    *url.URL // of a backend; nil = not by HTTP, or a request of a client
	RequestID string   // of JSON-RPC; "" = not known
	Session   string   // of the client, for display only; "" = none

	// Trace is the traceparent and tracestate in the _meta of the request.
	Trace map[string]string
}

func (o Operation) name() string {
	if o.Tool == "" {
		return o.Method
	}
	return o.Method + " " + o.Tool
}

// attributes are those of metrics; spans have more.
func (o Operation) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("mcp.method.name", o.Method)}
	if o.Tool != "" {
		all = append(all, attribute.String("gen_ai.tool.name", o.Tool))
	}
	if o.Backend != "" {
		all = append(all, backendKey.String(o.Backend))
	}
	return all
}

func (o Operation) spanAttributes() []attribute.KeyValue {
	all := o.attributes()
	if o.Tool != "" {
		all = append(all, attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	if o.Version != "" {
		all = append(all, attribute.String("mcp.protocol.version", o.Version))
	}
	for key, value := range map[string]string{"network.transport": o.Transport, "jsonrpc.request.id": o.RequestID, "mcp.session.id": o.Session} {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	if o.Transport == "tcp" {
		all = append(all, attribute.String("network.protocol.name", "http"))
	}
	if o.Server != nil {
		all = append(all, attribute.String("server.address", o.Server.Hostname()))
		if port, err := strconv.Atoi(o.Server.Port()); err == nil {
			all = append(all, attribute.Int("server.port", port))
		}
	}
	return all
}

// Serve begins a request of a client. Its trace is the one in its _meta, else
// that of the HTTP request. end says what kind of error was answered; "" = none.
func (t *Telemetry) Serve(ctx context.Context, op Operation) (_ context.Context, end func(failure string)) {
	if t == nil {
		return ctx, func(string) {}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(op.spanAttributes()...)}
	if sent := trace.SpanContextFromContext(traceContext.Extract(context.Background(), propagation.MapCarrier(op.Trace))); sent.IsValid() {
		options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
		ctx = trace.ContextWithRemoteSpanContext(ctx, sent)
	}
	return t.begin(ctx, op, t.instruments.served, options)
}

// Call begins a request to a backend. carrier is the trace for its _meta and headers;
// nil = none.
func (t *Telemetry) Call(ctx context.Context, op Operation) (_ context.Context, carrier map[string]string, end func(failure string)) {
	if t == nil {
		return ctx, nil, func(string) {}
	}
	ctx, end = t.begin(ctx, op, t.instruments.called,
		[]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(op.spanAttributes()...)})
	if t.tracing {
		carrier = map[string]string{}
		traceContext.Inject(ctx, propagation.MapCarrier(carrier))
	}
	return ctx, carrier, end
}

func (t *Telemetry) begin(ctx context.Context, op Operation, took metric.Float64Histogram, options []trace.SpanStartOption) (context.Context, func(string)) {
	began := time.Now()
	ctx, span := t.tracer.Start(ctx, op.name(), options...)
	return ctx, func(failure string) {
		attributes := op.attributes()
		if failure != "" {
			kind := attribute.String("error.type", failure)
			attributes = append(attributes, kind)
			span.SetAttributes(kind)
			if _, err := strconv.Atoi(failure); err == nil { // a code of JSON-RPC
				span.SetAttributes(attribute.String("rpc.response.status_code", failure))
			}
			span.SetStatus(codes.Error, "")
		}
		span.End()
		took.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attributes...))
	}
}

// SetRun adds the run to the span of ctx.
func (t *Telemetry) SetRun(ctx context.Context, id string) {
	if t != nil {
		trace.SpanFromContext(ctx).SetAttributes(runKey.String(id))
	}
}

// SetStep adds the step to the span of ctx.
func (t *Telemetry) SetStep(ctx context.Context, run, path, tool string) {
	if t != nil {
		trace.SpanFromContext(ctx).SetAttributes(runKey.String(run), stepKey.String(path), attribute.String("gen_ai.tool.name", tool))
	}
}

// HTTP begins or continues a trace for each request to a handler. Its spans have no
// query and no headers.
func (t *Telemetry) HTTP(next http.Handler) http.Handler {
	if t == nil || !t.tracing {
		return next
	}
	return otelhttp.NewHandler(next, "",
		otelhttp.WithTracerProvider(t.spans), otelhttp.WithPropagators(traceContext),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.URL.Path }))
}
