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
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/telemetry"
)

// logFlags are the flags of the log.
type logFlags struct {
	LogLevel  logLevel `help:"Log level: debug, info, warn or error. Default: operational.logLevel of the configuration, else info." placeholder:"LEVEL"`
	LogFormat string   `help:"Log format: text or json." enum:"text,json" default:"text"`
}

// A logLevel is one of config.LogLevels; "" = not set.
type logLevel string

// UnmarshalText refuses a level that does not exist.
func (l *logLevel) UnmarshalText(text []byte) error {
	if !slices.Contains(config.LogLevels, string(text)) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(config.LogLevels, ", "))
	}
	*l = logLevel(text)
	return nil
}

// logger returns a logger to standard error, which may hang from then on, also for notes.
// configured is the level of the configuration, "" if not set.
func (f *logFlags) logger(c *console, configured string) *slog.Logger {
	level := slog.LevelInfo
	for _, name := range []string{configured, string(f.LogLevel)} {
		if name != "" {
			_ = level.UnmarshalText([]byte(name)) // both were checked
		}
	}
	to := func(w io.Writer) *slog.Logger {
		if f.LogFormat == "json" {
			return slog.New(telemetry.Logs(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})))
		}
		return slog.New(telemetry.Logs(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})))
	}
	direct := to(c.err)
	c.err = newLogWriter(c.err, func(lines int64) {
		direct.Warn("lines of the log were dropped, since nobody read it", "lines", lines)
	})
	return to(c.err)
}

// begin loads what a process serves, and opens its log, where warnings about it are.
func (f *logFlags) begin(ctx context.Context, c *console, src config.Sources) (*config.Loaded, *slog.Logger, error) {
	found, diags := config.Load(src)
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return nil, nil, mistakenFiles(diags)
	}
	log := f.logger(c, found.LogLevel)
	logDiagnostics(ctx, log, diags)
	return found, log, nil
}

// logDiagnostics logs warnings and notes about what was loaded.
func logDiagnostics(ctx context.Context, log *slog.Logger, diags definitions.Diagnostics) {
	for _, d := range diags {
		level := slog.LevelWarn
		if d.Severity == definitions.SeverityNote {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, d.Message, "at", d.Pos.String())
	}
}

// shortTime leaves the date out of log lines in text format.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.TimeOnly))
	}
	return a
}
