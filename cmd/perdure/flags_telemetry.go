package main

import (
	"context"
	"log/slog"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/telemetry"
)

// telemetryFlags say where metrics can be read, beside what the configuration
// and the variables OTEL_* say of telemetry.
type telemetryFlags struct {
	MetricsListen string `help:"Address at which Prometheus reads /metrics for everybody who reaches it, e.g. :9464. Default: none; with telemetry.enablePrometheusMetricsPath they are beside /readyz, for those whom authorization.metrics names." placeholder:"ADDR"`
}

// start begins what is wanted of telemetry; nil = nothing. stop ends it.
func (f telemetryFlags) start(ctx context.Context, found *config.Loaded, log *slog.Logger) (t *telemetry.Telemetry, stop func(), err error) {
	listener, err := listen(f.MetricsListen, "--metrics-listen")
	if err != nil {
		return nil, nil, err
	}
	o := found.Telemetry
	o.Version, o.Logger = programVersion(), log
	return service.StartTelemetry(ctx, o, listener)
}
