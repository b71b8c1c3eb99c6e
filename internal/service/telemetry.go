package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/workflows"
)

// StartTelemetry begins what is wanted of telemetry; nil = nothing. stop ends it.
// The listener is where metrics are read; nil = nowhere besides.
func StartTelemetry(ctx context.Context, o telemetry.Options, listener net.Listener) (t *telemetry.Telemetry, stop func(), err error) {
	o.Prometheus = o.Prometheus || listener != nil
	if t, err = telemetry.Start(ctx, o); err != nil {
		if listener != nil {
			listener.Close()
		}
		return nil, nil, err
	}
	secrets.Take("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS") // the exporters have read them
	server := web.New(web.Options{Handler: metricsOnly(t), Logger: o.Logger})
	if listener != nil {
		go func() { _ = server.Serve(listener) }() // until it is ended
		o.Logger.Info("serving metrics", "at", "http://"+Reachable(listener.Addr())+metricsPath)
	}
	return t, func() {
		server.End(0)
		if err := t.Stop(ctx); err != nil {
			o.Logger.Warn("the last telemetry was not exported", "error", err)
		}
	}, nil
}

const metricsPath = "/metrics"

func metricsOnly(t *telemetry.Telemetry) http.Handler {
	mux := http.NewServeMux()
	if h := t.Handler(); h != nil {
		mux.Handle("GET "+metricsPath, h)
	}
	return mux
}

// serveMetrics is for those who may read the metrics: they name tools and backends,
// those who may call these.
func (s *Service) serveMetrics(w http.ResponseWriter, r *http.Request) {
	who, err := s.callers.Authenticate(r)
	if err != nil {
		auth.Refuse(w, err)
		return
	}
	if !s.opts.Loaded.Auth.Policy.May(who, auth.Measure, auth.Object{}) {
		http.Error(w, "you may not read the metrics; authorization.metrics lists who may", http.StatusForbidden)
		return
	}
	s.opts.Telemetry.Handler().ServeHTTP(w, r)
}

// watch measures the gauges. Runs are those of all processes, so only processes that
// serve clients measure them.
func (s *Service) watch(all *runs.Client) error {
	err := errors.Join(s.opts.Telemetry.WatchUp(telemetry.Backends, func() map[string]bool {
		up := map[string]bool{}
		for _, b := range s.pool.Status() {
			up[b.Name] = b.Up
		}
		return up
	}), s.opts.Telemetry.WatchUp(telemetry.Needs, func() map[string]bool {
		up := map[string]bool{}
		for _, n := range s.needs {
			up[strings.TrimPrefix(n.name, "the ")] = n.away() == nil
		}
		return up
	}), s.opts.Telemetry.WatchClock(s.opts.clock.ahead.Load))
	if err != nil || s.front == nil {
		return err
	}
	err = s.opts.Telemetry.WatchUp(telemetry.Tools, func() map[string]bool {
		up := map[string]bool{}
		for _, c := range s.front.gateway.Composites() {
			up[c.Definition.Name] = c.Available
		}
		return up
	})
	if err != nil {
		return err
	}
	return s.opts.Telemetry.WatchRuns(func(ctx context.Context) (telemetry.Snapshot, error) { return s.snapshot(ctx, all) })
}

func (s *Service) snapshot(ctx context.Context, all *runs.Client) (telemetry.Snapshot, error) {
	counts, err := all.Count(ctx)
	if err != nil {
		return telemetry.Snapshot{}, err
	}
	tasks, calls, err := all.Backlog(ctx)
	if err != nil {
		return telemetry.Snapshot{}, err
	}
	now := telemetry.Snapshot{
		Runs: map[string]int64{}, Waiting: counts.Waiting,
		Gates: map[string]int64{}, OldestGate: map[string]time.Duration{},
		Backlog: map[string]telemetry.Backlog{"workflow": telemetry.Backlog(tasks), "activity": telemetry.Backlog(calls)},
		Limits:  map[string]telemetry.Limits{},
	}
	for status, n := range counts.Status {
		now.Runs[string(status)] = n
	}
	for kind, g := range counts.Gates {
		now.Gates[kind] = g.Open
		if age, known := g.Age(); known {
			now.OldestGate[kind] = age
		}
	}
	for backend := range s.opts.Loaded.Limits {
		if err := limitsNow(ctx, all, backend, &now); err != nil {
			return telemetry.Snapshot{}, err
		}
	}
	return now, nil
}

func limitsNow(ctx context.Context, all *runs.Client, backend string, now *telemetry.Snapshot) error {
	queue, err := all.BackendBacklog(ctx, backend)
	if err != nil {
		return err
	}
	now.Backlog["backend "+backend] = telemetry.Backlog(queue)
	state, err := all.BackendState(ctx, backend)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		now.Limits[backend] = telemetry.Limits{}
	case err != nil:
		return err
	default:
		now.Limits[backend] = telemetry.Limits{Kept: true, Breaker: state.Breaker, UnderWay: int64(state.UnderWay), Waiting: int64(state.Waiting)}
	}
	return nil
}

// observe records a client's request in telemetry; nil without telemetry.
func (s *front) observe() func(context.Context, gateway.Operation) (context.Context, func(string)) {
	if s.opts.Telemetry == nil {
		return nil
	}
	return func(ctx context.Context, op gateway.Operation) (context.Context, func(string)) {
		return s.opts.Telemetry.Serve(ctx, telemetry.Operation{
			Method: op.Method, Tool: op.Tool, Version: op.Version, RequestID: op.RequestID, Session: op.Session, Transport: spokenOver(op.OverHTTP),
			Trace: map[string]string{"traceparent": op.Traceparent, "tracestate": op.Tracestate},
		})
	}
}

// spokenOver is how MCP is spoken, as OpenTelemetry has it.
func spokenOver(overHTTP bool) string {
	if overHTTP {
		return "tcp"
	}
	return "pipe"
}

// A tracedPool records each call of a backend tool in telemetry, and passes the trace
// to the backend.
type tracedPool struct {
	*backends.Pool
	telemetry *telemetry.Telemetry
	servers   map[string]*url.URL // of backends that are reached by HTTP
}

func newTracedPool(pool *backends.Pool, t *telemetry.Telemetry, all []backends.Config) tracedPool {
	p := tracedPool{pool, t, map[string]*url.URL{}}
	for _, b := range all {
		if at, err := url.Parse(b.URL); err == nil && b.URL != "" {
			p.servers[b.Name] = at
		}
	}
	return p
}

// Call calls a backend's tool.
func (p tracedPool) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	if p.telemetry == nil {
		return p.Pool.Call(ctx, call)
	}
	server, overHTTP := p.servers[call.Backend]
	ctx, trace, end := p.telemetry.Call(ctx, telemetry.Operation{
		Method: "tools/call", Tool: call.Tool, Backend: call.Backend, Transport: spokenOver(overHTTP), Server: server, Version: p.version(call.Backend),
	})
	call.Trace = trace
	result, err := p.Pool.Call(ctx, call)
	end(kindOf(result, err))
	return result, err
}

// version is the version of MCP that a backend speaks; "" = not known.
func (p tracedPool) version(backend string) string {
	for _, s := range p.Status() {
		if s.Name == backend {
			return s.ProtocolVersion
		}
	}
	return ""
}

// kindOf is the kind of a call's failure; "" = none.
func kindOf(result *backends.Result, err error) string {
	var failed *backends.CallError
	switch {
	case err == nil && result.IsError:
		return string(codes.ToolError)
	case err == nil:
		return ""
	case !errors.As(err, &failed):
		return string(codes.Internal)
	}
	switch failed.Outcome {
	case backends.NotSent:
		return string(codes.NotSent)
	case backends.Refused:
		return string(codes.Refused)
	case backends.CredentialsNeeded:
		return string(codes.CredentialsNeeded)
	}
	return "unknown"
}

// interceptors record in telemetry what a worker does; none without telemetry.
func interceptors(t *telemetry.Telemetry) []interceptor.WorkerInterceptor {
	if t == nil {
		return nil
	}
	return []interceptor.WorkerInterceptor{&workerObserver{telemetry: t}}
}

type workerObserver struct {
	interceptor.WorkerInterceptorBase
	telemetry *telemetry.Telemetry
}

// InterceptActivity records the attempts of steps.
func (o *workerObserver) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &stepObserver{interceptor.ActivityInboundInterceptorBase{Next: next}, o.telemetry}
}

// InterceptWorkflow records the ends of runs.
func (o *workerObserver) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &runObserver{interceptor.WorkflowInboundInterceptorBase{Next: next}, o.telemetry}
}

type stepObserver struct {
	interceptor.ActivityInboundInterceptorBase
	telemetry *telemetry.Telemetry
}

// ExecuteActivity makes one attempt.
func (o *stepObserver) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	call, ok := callIn(in.Args)
	if !ok {
		return o.Next.ExecuteActivity(ctx, in)
	}
	o.telemetry.SetStep(ctx, call.RunID, string(call.StepPath), call.Tool)
	began := time.Now()
	result, err := o.Next.ExecuteActivity(ctx, in)
	composite, _, _ := strings.Cut(call.RunID, "/")
	status := stepStatus(err)
	o.telemetry.StepEnded(ctx, telemetry.Step{
		Composite: composite, Tool: call.Tool, Backend: call.Backend, Effect: string(call.Effect),
		Attempt: int(activity.GetInfo(ctx).Attempt), Status: status,
		Unknown: status == string(codes.CategoryOutcomeUnknown), Took: time.Since(began),
	})
	return result, err
}

func callIn(args []any) (call workflows.ToolCall, ok bool) {
	if len(args) == 1 {
		call, ok = args[0].(workflows.ToolCall)
	}
	return call, ok
}

// stepStatus is completed, or the category of an error.
func stepStatus(err error) string {
	var failed *temporal.ApplicationError
	switch {
	case err == nil:
		return string(workflows.Completed)
	case errors.As(err, &failed):
		return failed.Type()
	}
	return string(codes.CategoryInternal)
}

type runObserver struct {
	interceptor.WorkflowInboundInterceptorBase
	telemetry *telemetry.Telemetry
}

// ExecuteWorkflow executes a run as far as one execution goes.
func (o *runObserver) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := o.Next.ExecuteWorkflow(ctx, in)
	if workflow.IsReplaying(ctx) {
		o.telemetry.Replayed(ctx)
	}
	var continued *workflow.ContinueAsNewError
	if workflow.IsReplaying(ctx) || errors.As(err, &continued) {
		return result, err
	}
	if tool := workflow.GetInfo(ctx).WorkflowType.Name; workflows.ExecutesRun(tool) {
		o.telemetry.RunEnded(tool, string(workflows.StatusOf(err)))
	}
	return result, err
}
