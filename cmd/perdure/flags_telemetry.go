package main

import (
	"context"
	"log/slog"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/telemetry"
)

// telemetryFlags name the metrics endpoint. The configuration and the variables
// OTEL_* decide the rest of telemetry.
type telemetryFlags struct {
	MetricsListen string `help:"Address of /metrics for Prometheus, without authentication, e.g. :9464. Default: none. telemetry.enablePrometheusMetricsPath of the configuration serves /metrics beside /readyz instead, to the callers of authorization.metrics." placeholder:"ADDR"`
}

// start starts telemetry; t is nil if none is configured. stop flushes and ends it.
func (f telemetryFlags) start(ctx context.Context, found *config.Loaded, log *slog.Logger) (t *telemetry.Telemetry, stop func(), err error) {
	listener, err := listen(f.MetricsListen, "--metrics-listen")
	if err != nil {
		return nil, nil, err
	}
	o := found.Telemetry
	o.Version, o.Logger = programVersion(), log
	return service.StartTelemetry(ctx, o, listener)
}
