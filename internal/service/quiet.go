package service

import (
	"context"
	"log/slog"
	"slices"
)

// Quiet passes only warnings and errors on, for Temporal's client, which tells
// much; and of these not what perdure tells itself or does on purpose.
func Quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

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
