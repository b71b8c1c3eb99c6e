package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/telemetry"
)

// logLevels are what --log-level and operational.logLevel take.
var logLevels = []string{"debug", "info", "warn", "error"}

// logFlags say how the program logs.
type logFlags struct {
	LogLevel  logLevel `help:"What to log: debug, info, warn or error. Default: operational.logLevel of the configuration, else info." placeholder:"LEVEL"`
	LogFormat string   `help:"How to log: text or json." enum:"text,json" default:"text"`
}

// A logLevel is one of logLevels; "" = not said.
type logLevel string

// UnmarshalText refuses a level that does not exist.
func (l *logLevel) UnmarshalText(text []byte) error {
	if !slices.Contains(logLevels, string(text)) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(logLevels, ", "))
	}
	*l = logLevel(text)
	return nil
}

// logger writes to w. configured is the level that the configuration asks for,
// "" for none.
func (f *logFlags) logger(w io.Writer, configured string) *slog.Logger {
	level := slog.LevelInfo
	for _, name := range []string{configured, string(f.LogLevel)} {
		if name != "" {
			_ = level.UnmarshalText([]byte(name)) // both were checked
		}
	}
	if f.LogFormat == "json" {
		return slog.New(telemetry.Logs(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})))
	}
	return slog.New(telemetry.Logs(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})))
}

// warnOf logs what is not right in what was loaded, but no reason not to serve.
func warnOf(log *slog.Logger, diags definitions.Diagnostics) {
	for _, d := range diags {
		log.Warn(d.Message, "at", d.Pos.String())
	}
}

// shortTime leaves the date out of the lines that a person reads.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.TimeOnly))
	}
	return a
}

// quiet passes only warnings and errors on, for Temporal's client, which tells
// much; and of these not what perdure tells itself or does on purpose.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

// Enabled refuses what is below a warning.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// told are messages of Temporal's client about calls of tools that failed,
// which the activities log, and about reads that are called again because they
// take long.
var told = []string{"Activity error.", "LocalActivity completed after activity deadline."}

// Handle drops what is told elsewhere.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(told, r.Message) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs stays quiet.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup stays quiet.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
